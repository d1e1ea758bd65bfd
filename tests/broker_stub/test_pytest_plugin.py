"""The pytest plugin, in runs of its own: what its fixtures hand out, what they leave behind, and what a failure says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TIMEOUT_S = 100

PASSING = """
import socket

from fencepost import Api, Producer, VirtualClock

made = []


def test_one(kafka_stub):
    made.append(kafka_stub)
    with Producer(bootstrap_servers=kafka_stub.bootstrap, linger_ms=0) as producer:
        assert producer.send("t", b"v").result(20).offset == 0
    assert len(kafka_stub.addresses) == 1


def test_another(kafka_stub, kafka_stub_factory):
    made.append(kafka_stub)
    assert kafka_stub is not made[0]
    assert kafka_stub.stats()["requests"] == 0
    three = kafka_stub_factory(brokers=3, clock=VirtualClock(5))
    made.append(three)
    assert len(three.addresses) == 3
    assert three.advance(1) == 6


def test_a_lost_reply_is_soon_missed(kafka_stub):
    lost = kafka_stub.faults.on(Api.PRODUCE).drop_reply()
    with Producer(kafka_stub.settings, linger_ms=0) as producer:
        assert producer.send("t", b"v").result(20).offset == 0
    with Producer(kafka_stub.settings, request_timeout_ms=200) as producer:
        kafka_stub.faults.on(Api.PRODUCE).drop_reply()
        assert producer.send("t", b"v").result(20).offset == 1
    assert lost.hits == 1


def test_all_are_closed():
    for stub in made:
        for address in stub.addresses.values():
            with socket.socket() as probe:
                assert probe.connect_ex(address) != 0
"""

FAILING = """
import pytest

from fencepost import Api, ErrorCode, Producer, RecordRefused


@pytest.fixture
def broken(kafka_stub):
    raise RuntimeError("the set-up is wrong")


def test_refused(kafka_stub):
    kafka_stub.create_topic("orders")
    kafka_stub.faults.on(Api.PRODUCE).where(topic="orders").error(ErrorCode.INVALID_RECORD)
    kafka_stub.faults.on(Api.FETCH).drop()
    with Producer(bootstrap_servers=kafka_stub.bootstrap, linger_ms=0, client_id="shop\\x1b[2J\\u202e" + 900 * "x") as producer:
        producer.send("orders", b"secret").result(20)


def test_set_up(broken):
    pass


def test_without():
    assert False


def test_fine(kafka_stub):
    pass
"""


SHARED = """
import unittest

import pytest

from fencepost import BrokerStub, Producer, TransactionalProducer


@pytest.fixture(scope="session")
def shared():
    with BrokerStub() as stub:
        yield stub


def send(stub, topic):
    with Producer(stub.settings, linger_ms=0, client_id=f"for-{topic}") as producer:
        producer.send(topic, b"v").result(20)


def test_first(shared):
    send(shared, "first")
    with TransactionalProducer(shared.settings, transactional_id="t") as producer:
        tx = producer.begin()
        tx.send("first", b"v").result(20)
        tx.abort()


def test_second(shared):
    send(shared, "second")
    raise AssertionError


def test_without_the_stub():
    raise AssertionError


def test_in_a_block():
    with BrokerStub() as stub:
        send(stub, "block")
        raise AssertionError


class TestCase(unittest.TestCase):
    def setUp(self):
        self.stub = self.enterContext(BrokerStub())

    def test_it(self):
        send(self.stub, "case")
        self.fail()
"""


def run_pytest(directory: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_it.py").write_text(source)
    where = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:hypothesispytest",  # which takes most of the time that pytest needs to start
        "-c",
        os.devnull,
        "--rootdir",
        str(directory),
        *options,
        "test_it.py",
    ]
    return subprocess.run(command, cwd=directory, env=where, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def test_a_stub_for_each_test(tmp_path: Path) -> None:
    """Without any import a test gets a broker of its own, or as many as it wants to its order; all of them are closed after it. With the
    settings that come with it a producer waits for a lost reply no longer than a second."""
    ran = run_pytest(tmp_path, PASSING, "-W", "error")
    assert ran.returncode == 0, ran.stdout
    assert "4 passed" in ran.stdout


def test_failures_say_what_the_stub_saw(tmp_path: Path) -> None:
    """A failing test's report shows the last exchanges and the rules with their hits, no record, and no name as a terminal would obey it;
    others show nothing. With xdist too."""
    for options in ((), ("-n", "2")):
        ran = run_pytest(tmp_path, FAILING, *options)
        assert ran.returncode == 1, ran.stdout
        assert "2 failed, 1 passed, 1 error" in ran.stdout
        assert ran.stdout.count(" Kafka stub at 127.0.0.1:") == 2
        shown = ran.stdout.split(" Kafka stub at 127.0.0.1:")
        text = "\n".join(shown)
        assert " exchanges in the journal" in text
        asked = "orders-0: 1 record, pid 0 epoch 0 seq 0-0"
        assert f"{asked} from shop\\x1b[2J\\u202e{'x' * 183}... on connection 2: INVALID_RECORD" in text
        assert "poison record: orders-0 refuses a record of shop\\x1b[2J\\u202e" in text
        assert "PRODUCE where topic='orders' before: error(INVALID_RECORD), 1 hit\n" in text
        assert "FETCH before: drop, 0 hits\n" in text
        assert "0 exchanges in the journal:\nno fault rules\n" in text


def test_stubs_of_the_users_own(tmp_path: Path) -> None:
    """A failed test also shows stubs that it started itself, and of a stub that tests share only what came during the test. A test that a
    stub did not serve shows none."""
    ran = run_pytest(tmp_path, SHARED, "--kafka-stub-report", "reports")
    assert "4 failed, 1 passed" in ran.stdout
    sections = ran.stdout.split(" Kafka stub at 127.0.0.1:")[1:]
    assert len(sections) == len(list((tmp_path / "reports").iterdir())) == 3
    for section, topic in zip(sections, ("second", "block", "case"), strict=True):
        assert f"{topic}-0: 1 record, pid" in section
        assert "first" not in section
    assert " exchanges of this test in the journal" in sections[0]
    assert " of this test" not in sections[1] + sections[2]


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_failures_leave_pages(tmp_path: Path, workers: tuple[str, ...]) -> None:
    """With --kafka-stub-report each failed test leaves one page for each of its stubs, and says where; others leave none."""
    ran = run_pytest(tmp_path, FAILING, "--kafka-stub-report", "reports", *workers)
    pages = sorted((tmp_path / "reports").iterdir())
    assert len(pages) == ran.stdout.count("\npage: ") == 2
    assert {str(page.relative_to(tmp_path)) for page in pages} == set(re.findall(r"\npage: (\S+)", ran.stdout))
    (refused,) = [page for page in pages if "test_refused-call-1-" in page.name]
    text = refused.read_text()
    assert text.startswith("<!doctype html>")
    assert '"kind":"poison record"' in text
    assert "secret" not in text.partition('id="moment">')[2].partition("</script>")[0]


def test_a_test_that_changes_the_working_directory(tmp_path: Path) -> None:
    """The page is where pytest was told to write it, and not in the directory of the test, which pytest deletes."""
    (tmp_path / "elsewhere").mkdir()
    failing = "def test_it(kafka_stub, monkeypatch):\n    monkeypatch.chdir('elsewhere')\n    raise AssertionError\n"
    ran = run_pytest(tmp_path, failing, "--kafka-stub-report", "reports")
    (page,) = (tmp_path / "reports").iterdir()
    assert f"\npage: {page.relative_to(tmp_path)}\n" in ran.stdout
    assert not list((tmp_path / "elsewhere").iterdir())


FORGOTTEN = """
from fencepost import TransactionalProducer


def test_it(kafka_stub):
    producer = TransactionalProducer(kafka_stub.settings, transactional_id="orders-1")
    producer.begin().send("orders", b"1").result(20)
    try:
        assert len(kafka_stub.records("orders", 0)) == 1
    finally:
        globals()["kept"] = producer
"""


def test_a_test_that_forgot_a_commit(tmp_path: Path) -> None:
    """Its report says why readers see nothing, although the transaction is open for a moment only; so does the page."""
    ran = run_pytest(tmp_path, FORGOTTEN, "--kafka-stub-report", "reports")
    found = r"open transaction: Readers of orders-0 wait at offset 0\. transaction orders-1 \(pid 0 epoch 0\) is open for \d+ s"
    assert re.search(found, ran.stdout)
    (page,) = (tmp_path / "reports").iterdir()
    assert '"kind":"open transaction"' in page.read_text()


def test_a_page_that_cannot_be_written_hides_no_failure(tmp_path: Path) -> None:
    """A wrong directory is said beside the failure."""
    (tmp_path / "reports").write_text("a file")
    ran = run_pytest(tmp_path, FAILING, "--kafka-stub-report", "reports")
    assert "2 failed, 1 passed, 1 error" in ran.stdout
    assert "\nno page: [Errno 17] File exists: 'reports'" in ran.stdout


def test_pytest_starts_without_a_stub(tmp_path: Path) -> None:
    """What pytest loads of fencepost at its start is the plugin, the doors on the way to it, and the version; the stub comes with the first
    fixture."""
    ran = run_pytest(
        tmp_path,
        "import sys\n"
        "def test_it():\n"
        "    ours = {name.removeprefix('fencepost.') for name in sys.modules if name.split('.')[0] == 'fencepost'}\n"
        "    plugin = {'fencepost', 'broker_stub', 'broker_stub.pytest_plugin'}\n"
        "    foundations = {'producer.foundations', 'producer.foundations.lazy_names', 'producer.foundations.version'}\n"
        "    assert ours == {*plugin, 'producer', 'producer._hot', *foundations}\n"
        "    assert not {'msgspec', 'lz4', 'cramjam'} & set(sys.modules)\n",
        "-p",
        "no:xdist",
        "-p",
        "no:timeout",
        "-p",
        "no:asyncio",
    )
    assert ran.returncode == 0, ran.stdout


def test_it_can_be_left_out(tmp_path: Path) -> None:
    """`-p no:fencepost` switches it off."""
    ran = run_pytest(tmp_path, "def test_it(kafka_stub): pass\n", "-p", "no:fencepost")
    assert "fixture 'kafka_stub' not found" in ran.stdout
