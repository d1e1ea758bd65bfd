"""`fencepost fault`: the real commands against a `fencepost broker` and a `fencepost proxy`, felt by our producer and confluent-kafka."""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import confluent_kafka
import pytest

from fencepost.producer import Producer, RecordRefused
from tests.fencepost.cli.shell import DEADLINE_S, answer_once, complaint, first_lines, run, running
from tests.waiting import until

pytestmark = pytest.mark.timeout(200)

DOCS = Path(__file__).resolve().parents[3] / "docs"


class Running(NamedTuple):
    """What a command printed when it was up."""

    bootstrap: str
    control: str


def up(process: subprocess.Popen[bytes]) -> Running:
    """Reads its two lines."""
    listening, control = first_lines(process, 2)
    return Running(listening.split("listening on ")[1].strip(), control.split("control at ")[1].strip())


@pytest.fixture(scope="module")
def broker() -> Iterator[Running]:
    with running("broker", "--brokers", 2, "--port", 0, "--control", 0) as process:
        yield up(process)


@pytest.fixture(autouse=True)
def no_rules_left(broker: Running) -> Iterator[None]:
    yield
    with urlopen(Request(f"{broker.control}/faults", method="DELETE"), timeout=DEADLINE_S):
        pass


def fault(at: Running, *arguments: object) -> str:
    """What the command prints on standard output; it ends well and complains of nothing."""
    ran = run("fault", *arguments, "--control", at.control)
    assert (ran.returncode, ran.stderr) == (0, ""), ran
    return ran.stdout


def rules(at: Running) -> list[dict[str, Any]]:
    """What the control says, without a process."""
    with urlopen(f"{at.control}/faults", timeout=DEADLINE_S) as answer:
        found: list[dict[str, Any]] = json.load(answer)["faults"]
        return found


def test_a_lost_reply_from_the_shell(broker: Running) -> None:
    """A rule added from the shell loses the replies of our producer, which doubles nothing; `list` counts them, `remove` ends it."""
    added = fault(broker, "add", "--on", "PRODUCE", "--topic", "t", "--partition", 0, "--action", "drop_reply", "--times", 2)
    number = re.fullmatch(r"fault (\d+): PRODUCE topic=t partition=0 at after_append: drop \(times=2\), 0 hits\n", added)
    assert number is not None, added
    with Producer(bootstrap_servers=broker.bootstrap, request_timeout_ms=300) as producer:
        assert [producer.send("t", b"v").result(DEADLINE_S).offset for _ in range(3)] == [0, 1, 2]
    [rule] = [json.loads(line) for line in fault(broker, "list", "--json").splitlines()]
    assert (rule["hits"], rule["topic"]) == (2, "t")
    assert "2 hits" in fault(broker, "list")
    assert "2 hits" in fault(broker, "remove", number[1])
    assert rules(broker) == []


def test_confluent_kafka_feels_it(broker: Running) -> None:
    """A refusal that is added from the shell is what librdkafka reports; removed, the next record is delivered."""
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": False, "retries": 0})
    outcomes: list[str | None] = []

    def produce() -> None:
        producer.produce("c", b"v", on_delivery=lambda error, _: outcomes.append(error.name() if error else None))
        assert producer.flush(DEADLINE_S) == 0

    produce()
    fault(broker, "add", "--on", "produce", "--topic", "c", "--action", "error", "--code", "MESSAGE_TOO_LARGE", "--forever")
    produce()
    assert "MESSAGE_TOO_LARGE" in fault(broker, "remove", "--all")
    produce()
    assert outcomes == [None, "MSG_SIZE_TOO_LARGE", None]


def test_a_held_reply_is_released(broker: Running) -> None:
    """`hold` holds a reply until `release`; the rule stays."""
    number = json.loads(fault(broker, "add", "--on", "PRODUCE", "--at", "reply", "--action", "hold", "--json"))["id"]
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        future = producer.send("held", b"v")
        until(lambda: rules(broker)[0]["holding"] == 1, "it holds", timeout_s=DEADLINE_S)
        assert not future.done()
        assert fault(broker, "release", number) == f"fault {number}: 1 released\n"
        assert future.result(DEADLINE_S).offset == 0
    assert [rule["id"] for rule in rules(broker)] == [number]


def test_links_are_slow_for_a_while(broker: Running) -> None:
    """`slow` says which links are; 0 ends it."""
    assert fault(broker, "slow", 2, 1, 300) == "slow: 1-2 by 300 ms\n"
    assert fault(broker, "slow", 2, "controller", 20) == "slow: controller-2 by 20 ms, 1-2 by 300 ms\n"
    assert json.loads(fault(broker, "slow", 1, 2, 0, "--json")) == {"slow": [["controller", 2, 20]]}
    assert json.loads(fault(broker, "slow", "controller", 2, 0, "--json")) == {"slow": []}


def test_links_are_severed_and_mended(broker: Running) -> None:
    """`sever` keeps a follower from its leader, so that a record with acks=all waits; `mend` lets it be acknowledged."""
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        assert producer.send("linked", b"v").result(DEADLINE_S).offset == 0
        assert fault(broker, "sever", 2, 1) == "severed: 1-2\n"
        future = producer.send("linked", b"v")
        until(lambda: stats(broker)["appended"] >= 2, "it is in the leader's log", timeout_s=DEADLINE_S)
        assert not future.done()
        assert json.loads(fault(broker, "mend", 1, 2, "--json")) == {"severed": [], "severed_one_way": []}
        assert future.result(DEADLINE_S).offset == 1
    assert fault(broker, "mend", 1, 2) == "severed: none\n"
    assert "there is no broker 7" in complaint(run("fault", "sever", 1, 7, FENCEPOST_CONTROL=broker.control))


def test_a_broker_is_paused_and_has_its_own_clock(broker: Running) -> None:
    """Each command says what it did, in words and as JSON."""
    assert fault(broker, "pause", 2) == "broker 2 is paused\n"
    assert fault(broker, "resume", 2) == "broker 2 goes on\n"
    assert fault(broker, "clock", 2, -500) == "broker 2: clock ahead by -500 ms\n"
    assert json.loads(fault(broker, "clock", 2, 0, "--json")) == {"node": 2, "ahead_ms": 0}
    assert fault(broker, "loading", 2, 5) == "broker 2: loading takes 5 ms\n"
    assert json.loads(fault(broker, "loading", 2, 0, "--json")) == {"node": 2, "ms": 0}
    assert fault(broker, "slow-disk", 2, 5) == "broker 2: a write takes 5 ms\n"
    assert json.loads(fault(broker, "slow-disk", 2, 0, "--json")) == {"node": 2, "ms": 0}
    assert "there is no broker 7" in complaint(run("fault", "pause", 7, FENCEPOST_CONTROL=broker.control))


def test_a_link_to_the_controller_and_one_way(broker: Running) -> None:
    """Each command says which links are severed now."""
    assert fault(broker, "sever", "controller", 2, "--one-way") == "severed: controller>2\n"
    assert fault(broker, "sever", 1, "controller") == "severed: controller-1, controller>2\n"
    assert fault(broker, "mend", 2, "controller") == "severed: controller-1\n"
    assert fault(broker, "mend", 1, "controller") == "severed: none\n"
    assert "'zoo': the number of a broker, or controller" in complaint(run("fault", "sever", 1, "zoo", FENCEPOST_CONTROL=broker.control))


@pytest.mark.parametrize(
    ("given", "reason"),
    [(("clock", 1, 1 << 62), "ahead_ms=4611686018427387904"), (("loading", 1, 1 << 31), "ms=2147483648: 0 or more, at most 2147483647")],
)
def test_a_time_beyond_the_limit(broker: Running, given: tuple[object, ...], reason: str) -> None:
    """The command names the value and the limit."""
    assert reason in complaint(run("fault", *given, FENCEPOST_CONTROL=broker.control))


def stats(at: Running) -> dict[str, int]:
    with urlopen(f"{at.control}/stats", timeout=DEADLINE_S) as answer:
        told: dict[str, int] = json.load(answer)
        return told


def test_group_and_transactional_id(broker: Running) -> None:
    """What a rule chooses by is given as it is named; a rule for another group or id does nothing."""
    fault(broker, "add", "--on", "INIT_PRODUCER_ID", "--txn", "other", "--action", "error", "--code", "CLUSTER_AUTHORIZATION_FAILED")
    fault(
        broker, "add", "--on", "FIND_COORDINATOR", "--group", "g", "--action", "error", "--code", "GROUP_AUTHORIZATION_FAILED", "--forever"
    )
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        assert producer.send("g", b"v").result(DEADLINE_S).offset == 0
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    consumer.subscribe(["g"])
    try:
        heard = consumer.poll(DEADLINE_S)
    finally:
        consumer.close()
    assert heard is not None
    error = heard.error()
    assert error is not None
    assert error.name() == "GROUP_AUTHORIZATION_FAILED"
    assert [(rule.get("txn"), rule.get("group"), rule["hits"] > 0) for rule in rules(broker)] == [("other", None, False), (None, "g", True)]


def test_the_proxy_takes_them_too(broker: Running) -> None:
    """In front of any broker, with the same words; the journal is there to be asked."""
    with running("proxy", broker.bootstrap, "--control", 0) as process:
        proxy = up(process)
        fault(proxy, "add", "--on", "PRODUCE", "--action", "error", "--code", "TOPIC_AUTHORIZATION_FAILED", "--probability", 1, "--seed", 3)
        with Producer(bootstrap_servers=proxy.bootstrap) as producer:
            with pytest.raises(RecordRefused, match="TOPIC_AUTHORIZATION_FAILED"):
                producer.send("p", b"v").result(DEADLINE_S)
            assert "probability=1.0 seed=3" in fault(proxy, "remove", "--all")
            producer.send("p", b"v").result(DEADLINE_S)
        with urlopen(f"{proxy.control}/journal?api=PRODUCE", timeout=DEADLINE_S) as answer:
            heard = [each["heard"] for each in json.load(answer)["exchanges"]]
    assert heard == ["all"]


def test_time_from_the_shell() -> None:
    """The clock of `fencepost broker --virtual-clock` stands still until the control advances it. Every command of docs/testing.md works
    with it."""
    page = (DOCS / "testing.md").read_text(encoding="utf-8")
    [options] = re.findall(r"^    fencepost broker (.*) --control 9644$", page, re.MULTILINE)
    with running("broker", *options.split(), "--port", 0, "--control", 0) as process:
        at = up(process)
        said_on_the_page(at, page)
        fault(at, "add", "--on", "PRODUCE", "--at", "after_append", "--action", "delay", "--ms", 3_600_000)
        with Producer(bootstrap_servers=at.bootstrap) as producer:
            future = producer.send("t", b"v")
            until(lambda: rules(at)[0]["hits"] == 1, "the reply is due in an hour", timeout_s=DEADLINE_S)
            assert not future.done()
            asked = Request(f"{at.control}/clock/advance", b'{"ms": 3600000}', {"Content-Type": "application/json"})
            with urlopen(asked, timeout=DEADLINE_S) as answer:
                assert answer.status == 200
            assert future.result(DEADLINE_S).offset == 0


def said_on_the_page(at: Running, page: str) -> None:
    """Every line of docs/testing.md that asks a control something."""
    [block] = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    for line in block.splitlines():
        match shlex.split(line):
            case ["export", _] | ["#", *_]:
                pass
            case ["fencepost", "topics", *arguments]:
                run("topics", *arguments, FENCEPOST_BOOTSTRAP=at.bootstrap).check_returncode()
            case ["fencepost", "fault", *arguments]:
                fault(at, *arguments)
            case ["curl", url, *rest]:
                assert rest[:1] in ([], ["--json"]), line
                data = rest[1].encode() if rest else None
                asked = Request(url.replace("$FENCEPOST_CONTROL", at.control), data, {"Content-Type": "application/json"})
                with urlopen(asked, timeout=DEADLINE_S) as answer:
                    assert answer.status in (200, 201)
            case other:
                pytest.fail(f"this test does not know {other}")
    with urlopen(Request(f"{at.control}/faults", method="DELETE"), timeout=DEADLINE_S):
        pass


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("add", "--on", "PRODUSE", "--action", "drop"), ["on='PRODUSE' is no API", "did you mean PRODUCE?"]),
        (("add", "--action", "drop", "--on", "PRODUCE", "--group", "g", "--node", 7, "--times", 2), ["group='g'", "would never fire"]),
        (("add", "--action", "error", "--times", 2, "--forever"), ["times and forever exclude each other"]),
        (("add", "--on", "PRODUCE", "--action", "drop", "--probability", "nan"), ["probability=nan: a number from 0 to 1"]),
        (("release", 99), ["no fault 99"]),
        (("remove",), ["ID", "--all"]),
    ],
    ids=lambda value: " ".join(map(str, value))[:50] if isinstance(value, tuple) else None,
)
def test_mistakes_are_one_line(broker: Running, arguments: tuple[object, ...], said: list[str]) -> None:
    """Exit code 2, the value and what is possible, and no rule is added."""
    words = complaint(run("fault", *arguments, FENCEPOST_CONTROL=broker.control))
    assert [each for each in said if each not in words] == [], words
    assert rules(broker) == []


def test_a_control_that_is_none() -> None:
    """A closed port, no URL, another address and another server: each error says what is wrong, and how to open a control."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = f"http://127.0.0.1:{taken.getsockname()[1]}"
    ran = [run("fault", "list", "--control", closed), run("fault", "list"), run("fault", "list", "--control", "https://x:1")]
    with answer_once(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>") as port:
        ran.append(run("fault", "list", "--control", f"127.0.0.1:{port}"))
    said = [complaint(each) for each in ran]
    for each, words in zip(
        said, ["refused", "FENCEPOST_CONTROL", "'https://x:1' is not http://HOST:PORT", "not a fencepost control"], strict=True
    ):
        assert words in each
        assert "fencepost broker --control PORT" in each


def test_a_control_that_other_machines_reach(broker: Running) -> None:
    """A control that other machines can reach prints a URL with a token, which `--control` and FENCEPOST_CONTROL need. The environment can
    hold the token alone, for both sides. Without the token the control does nothing, and no output repeats the token."""
    with running("broker", "--port", 0, "--control", "0.0.0.0:0") as process:
        at = up(process)
        address = at.control.rpartition("@")[2]
        token = at.control.removeprefix("http://control:").removesuffix(f"@{address}")
        assert len(token) >= 32
        fault(at, "add", "--on", "METADATA", "--topic", "none", "--action", "drop")
        assert run("fault", "list", "--control", address, FENCEPOST_CONTROL_TOKEN=token).stdout.startswith("fault 1: METADATA")
        for wrong in (run("fault", "list", "--control", address), run("fault", "list", "--control", f"control:{token[1:]}@{address}")):
            assert "the token is missing or wrong" in complaint(wrong)
            assert token[1:] not in wrong.stderr
    gone = complaint(run("fault", "list", "--control", at.control))
    assert (address in gone, token in gone) == (True, False)
    given = "known-before-it-runs"
    with running("proxy", broker.bootstrap, "--control", 0, FENCEPOST_CONTROL_TOKEN=given) as process:
        at = up(process)
        assert given in at.control
        assert run("fault", "list", "--control", at.control.rpartition("@")[2], FENCEPOST_CONTROL_TOKEN=given).returncode == 0
    ran = run("broker", "--port", 0, "--control", 0, FENCEPOST_CONTROL_TOKEN="tiny")
    assert (ran.returncode, "16 or more letters" in ran.stderr, "tiny" in ran.stderr) == (2, True, False)


def test_a_token_goes_nowhere_else() -> None:
    """A control that sends elsewhere is none: where it points to is never asked, with the token or without."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        other.settimeout(0)
        moved = f"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:{port}/\r\nContent-Length: 0\r\n\r\n"
        with answer_once(moved.encode()) as asked:
            said = complaint(run("fault", "list", "--control", f"http://control:a-token-of-a-test@127.0.0.1:{asked}"))
        assert "not a fencepost control" in said
        with pytest.raises(BlockingIOError):
            other.accept()


def test_a_control_port_that_cannot_be_had(broker: Running) -> None:
    """A taken port, and what is no port: one line, and the command does not run without its control."""
    port = broker.control.rpartition(":")[2]
    ran = run("broker", "--port", 0, "--control", port)
    assert (ran.returncode, "in use" in ran.stderr, ran.stdout) == (2, True, "")
    ran = run("proxy", broker.bootstrap, "--control", "nowhere")
    assert (ran.returncode, "--control nowhere: give a port" in ran.stderr, ran.stdout) == (2, True, "")


def test_brokers_disks_and_logs_fail(broker: Running) -> None:
    """Each command says what it did; what cannot be done is named."""
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("broken", b"v").result(DEADLINE_S)
    assert fault(broker, "corrupt", "broken", 0, 0) == "the batch at offset 0 of broken-0 is damaged\n"
    assert fault(broker, "disk", 2, "full") == "broker 2: disk fault full\n"
    assert json.loads(fault(broker, "disk", 2, "none", "--json")) == {"node": 2, "fault": None}
    assert json.loads(fault(broker, "disk", 2, "full", "--log-dir", 1, "--json")) == {"node": 2, "fault": "full", "log_dir": 1}
    assert fault(broker, "disk", 2, "none", "--log-dir", 1) == "broker 2: disk fault none\n"
    assert fault(broker, "power", 2) == "broker 2 has lost its power\n"
    assert fault(broker, "start", 2).startswith("broker 2 listens on 127.0.0.1:")
    assert fault(broker, "stop", 2, "--kill") == "broker 2 is stopped\n"
    assert json.loads(fault(broker, "start", 2, "--json"))["started"] == 2
    assert "fault='slow': must be 'full' or 'failed'" in complaint(run("fault", "disk", 1, "slow", FENCEPOST_CONTROL=broker.control))
    assert "no batch with offset 9" in complaint(run("fault", "corrupt", "broken", 0, 9, FENCEPOST_CONTROL=broker.control))
