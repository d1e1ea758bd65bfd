"""`fencepost jobs`: what it shows of jobs, how it sets a position, and what it says and exits with when it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import Fenced
from fencepost.txn import FileSource, Job, TransactionalProducer
from tests.fencepost.cli.shell import Ran, invoke
from tests.reading import read_values
from tests.txn.jobs.helpers import LIMIT_S, quick
from tests.txn.jobs.stories import counting

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub() as running_stub:
        running_stub.create_topic("flights", partitions=1)
        yield running_stub


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "in.txt"
    file.write_bytes(b"".join(b"%d\n" % number for number in range(10)))
    return file


def jobs(stub: BrokerStub, *arguments: object) -> Ran:
    return invoke("jobs", *arguments, "--bootstrap", stub.bootstrap)


def job(stub: BrokerStub, lines: Path) -> Job:
    return quick(stub, FileSource(lines), "files", batch_size=4)


def test_list_and_describe(stub: BrokerStub, lines: Path) -> None:
    """The jobs with their counts; one job with its position, and whether its transaction is open."""
    assert jobs(stub, "list") == Ran(0, "", "none\n")
    job(stub, lines).run(max_batches=1)
    quick(stub, counting(3), "numbers").run()
    listed = jobs(stub, "list", "--json").objects
    assert [(each["job"], each["source"], each["records"], each["topic"]) for each in listed] == [
        ("files", "files", 4, "flights"),
        ("numbers", "iterator", 3, "flights"),
    ]
    assert "numbers" in jobs(stub, "list").out
    [row] = jobs(stub, "describe", "files", "--json").objects
    assert row["position"]["files"][str(lines)][:2] == [8, 4]
    assert (row["transactional_id"], row["transaction"], row["trouble"]) == ("fencepost-job.files", None, None)
    assert str(lines) in jobs(stub, "describe", "files").out
    ran = jobs(stub, "describe", "none")
    assert (ran.code, ran.err) == (
        1,
        "fencepost jobs describe: job 'none' has no position; `fencepost jobs list` shows the jobs that have one\n",
    )


def test_reset_to_the_start(stub: BrokerStub, lines: Path) -> None:
    """Without --execute nothing changes. With it the next run sends everything again."""
    job(stub, lines).run()
    ran = jobs(stub, "reset", "files", "--to-start", "--json")
    assert ran.code == 0
    assert ran.err == "fencepost jobs reset: nothing is changed yet: add --execute to commit this position\n"
    assert job(stub, lines).run().records_in == 0
    assert jobs(stub, "reset", "files", "--to-start", "--execute").code == 0
    assert jobs(stub, "list").err == "none\n"
    assert job(stub, lines).run().records_in == 10


def test_reset_to_a_position(stub: BrokerStub) -> None:
    """As JSON. The next run continues there."""
    quick(stub, counting(10), "n").run()
    ran = jobs(stub, "reset", "n", "--to", "7", "--execute", "--json")
    assert ran.objects == [{"job": "n", "before": 10, "position": 7}]
    assert quick(stub, counting(10), "n").run().records_in == 3
    assert read_values(stub.bootstrap, "flights")[10:] == [b"record 7", b"record 8", b"record 9"]


def test_a_job_without_a_position(stub: BrokerStub) -> None:
    """After a loss of the topic a position can be set, with the kind of source."""
    ran = jobs(stub, "reset", "n", "--to", "7", "--execute")
    assert (ran.code, "add --source" in ran.err) == (2, True)
    assert jobs(stub, "reset", "n", "--to-start").code == 1
    assert jobs(stub, "reset", "n", "--to", "7", "--source", "iterator", "--execute").code == 0
    assert quick(stub, counting(10), "n").run().records_in == 3


@pytest.mark.parametrize(
    ("position", "reason"),
    [
        ("7", "Expected `object`, got `int`"),
        ('{"files":{"/in.txt":[4,2]}}', "Expected `array` of at least length 3, got 2"),
        ('{"files":{"in.txt":[4,2,""]}}', "'in.txt' is no absolute path"),
    ],
)
def test_a_position_that_no_run_could_use(stub: BrokerStub, lines: Path, position: str, reason: str) -> None:
    """Of a job in files it is refused, also with `--source files`, and the committed one stays."""
    job(stub, lines).run()
    for name in ("files", "other"):
        ran = jobs(stub, "reset", name, "--to", position, "--source", "files", "--execute")
        assert (ran.code, ran.out) == (2, "")
        assert reason in ran.err
    assert job(stub, lines).run().records_in == 0


def test_an_active_job(stub: BrokerStub) -> None:
    """While its transaction is open it is refused, unless forced. A run that is alive ends then, and writes nothing more."""
    with quick(stub, counting(100), "n", batch_size=10) as running:
        running.run(max_batches=1)
        open_one = TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id=running.transactional_id, linger_ms=0)
        open_one.begin(LIMIT_S).send("flights", b"open").result(LIMIT_S)
        ran = jobs(stub, "reset", "n", "--to-start", "--execute")
        assert ran.code == 2
        assert "job 'n' is active: its transaction (fencepost-job.n) is Ongoing. Stop it." in ran.err
        assert jobs(stub, "describe", "n", "--json").objects[0]["transaction"] == "Ongoing"
        assert jobs(stub, "reset", "n", "--to-start", "--execute", "--force").code == 0
        open_one.close(0)
        with pytest.raises(Fenced, match="or its position was reset"):
            running.run()
    assert quick(stub, counting(100), "n").run().records_in == 100


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "give one of --to and --to-start"),
        (("--to", "1", "--to-start"), "give one of --to and --to-start"),
        (("--to", "{"), "--to '{' is no JSON"),
        (("--to", "1", "--source", "x", "--positions-topic", "a/b"), "topic='a/b'"),
    ],
)
def test_mistakes(stub: BrokerStub, options: tuple[object, ...], reason: str) -> None:
    """One line with the value, exit code 2, and nothing is set."""
    ran = jobs(stub, "reset", "n", *options, "--execute")
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert reason in ran.err
