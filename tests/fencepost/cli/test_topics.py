"""`fencepost topics` and `fencepost consume`: what they show, what they change, and what they say when they cannot."""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
from collections.abc import Iterator

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.cli import topics
from fencepost.cli.output import as_json, shown
from fencepost.producer import Producer
from fencepost.producer.wire import Api
from tests.conformance.fixtures import kafka
from tests.conformance.kafka import KafkaCluster
from tests.fencepost.cli.shell import answer_once, complaint, run, running

__all__ = ["kafka"]


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(brokers=3) as running_stub:
        yield running_stub


def fill(bootstrap: str, topic: str, count: int, *, partition: int = 0) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        deliveries = producer.send_many(topic, [(b"k", b"%d" % n) for n in range(count)], partition=partition).result(30)
    assert deliveries.acknowledged == count


def consume(stub: BrokerStub, *arguments: object) -> subprocess.CompletedProcess[str]:
    return run("consume", "--bootstrap", stub.bootstrap, "--topic", "t", *arguments)


def objects(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_offsets_without_an_answer_are_none(stub: BrokerStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no answer about a topic's offsets comes, `describe` says that, and shows no number for one."""
    monkeypatch.setattr(topics, "TIMEOUT_S", 1.0)
    stub.create_topic("t")
    stub.faults.on(Api.LIST_OFFSETS).forever().hold()
    assert complaint(run("topics", "describe", "t", "--bootstrap", stub.bootstrap)).endswith(
        "topic 't': no answer within 1 s about its offsets"
    )


def whole_life_of_a_topic(bootstrap: str, name: str) -> None:
    """Created, listed, described and deleted."""

    def topics(*arguments: object) -> subprocess.CompletedProcess[str]:
        return run("topics", *arguments, "--bootstrap", bootstrap)

    made = topics("create", name, "--partitions", 3, "--replicas", 1, "--config", "retention.ms=100000000")
    assert (made.returncode, made.stdout, made.stderr) == (0, f"created {name}: 3 partitions, 1 replica\n", "")
    assert f"topic {name!r}: " in complaint(topics("create", name))
    assert topics("create", name, "--if-not-exists").stdout == f"{name} exists already\n"
    fill(bootstrap, name, 5, partition=2)
    listed = {each["topic"]: each for each in objects(topics("list", "--json").stdout)}
    assert listed[name] == {"topic": name, "partitions": 3, "replicas": 1, "leaderless": 0}
    assert name in topics("list").stdout
    [described] = objects(topics("describe", name, "--json").stdout)
    assert described["configs"] == {"retention.ms": "100000000"}
    assert isinstance(described["partitions"], list)
    assert [(each["partition"], each["first"], each["next"]) for each in described["partitions"]] == [(0, 0, 0), (1, 0, 0), (2, 0, 5)]
    table = topics("describe", name).stdout
    assert "retention.ms" in table
    assert "in sync" in table
    assert topics("delete", name).returncode == 0
    assert complaint(topics("describe", name)) == f"fencepost topics describe: there is no topic {name!r}"
    assert f"topic {name!r}: " in complaint(topics("delete", name))
    assert topics("delete", name, "--if-exists").returncode == 0


def test_topics(stub: BrokerStub) -> None:
    """Each command does what it says on the stub; describing a topic that is not there creates none."""
    whole_life_of_a_topic(stub.bootstrap, "orders")
    assert [topic.name for topic in stub.cluster.topics] == []


@pytest.mark.timeout(300)
def test_topics_on_kafka(kafka: KafkaCluster) -> None:
    """Each command does what it says on Apache Kafka."""
    whole_life_of_a_topic(kafka.bootstrap, f"cli-topics-{secrets.token_hex(4)}")


def test_wrong_options_of_topics(stub: BrokerStub) -> None:
    """A config that is none and a factor that is too large end with the broker's reason in one line."""
    create = ("topics", "create", "t", "--bootstrap", stub.bootstrap)
    assert "nonsense" in complaint(run(*create, "--config", "nonsense=1"))
    assert "--config 'x' is not NAME=VALUE" in complaint(run(*create, "--config", "x"))
    assert "topic 't': " in complaint(run(*create, "--replicas", 4))
    assert "topic 't': " in complaint(run(*create, "--replication-factor", 4))  # as kafka-topics calls it
    assert "--client-config: No such configuration property" in complaint(run(*create, "--client-config", "x=1"))


@pytest.mark.parametrize("command", [("topics", "list"), ("consume", "--topic", "t"), ("doctor",)], ids=" ".join)
def test_a_listener_that_requires_sasl(command: tuple[str, ...]) -> None:
    """A command without a login is told what the listener requires, and which settings to change. The listener only closes connections."""
    with BrokerStub(sasl={"alice": "secret"}) as stub:
        ran = run(*command, "--bootstrap", stub.bootstrap)
        assert ran.returncode == (1 if command == ("doctor",) else 2)
        assert "the listener requires SASL (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512)" in ran.stdout + ran.stderr
        assert "set it to SASL_PLAINTEXT, and sasl_mechanism" in ran.stdout + ran.stderr


@pytest.mark.parametrize("command", [("topics", "list"), ("consume", "--topic", "t")])
def test_addresses_where_no_broker_answers(command: tuple[str, ...]) -> None:
    """A closed port and another server are reported in one line within seconds, with the address."""
    with answer_once(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        assert f"127.0.0.1:{port}: an HTTP server answers there" in complaint(run(*command, "--bootstrap", f"127.0.0.1:{port}"))
    assert f"127.0.0.1:{port}: Connection refused" in complaint(run(*command, "--bootstrap", f"127.0.0.1:{port}"))
    assert "not 'host:port'" in complaint(run(*command, "--bootstrap", "nowhere"))
    assert "no broker address" in complaint(run(*command))


def test_consume_from_here_and_there(stub: BrokerStub) -> None:
    """From the beginning, from an offset, from so many before the end, of one partition, and so many at most."""
    stub.create_topic("t", partitions=2)
    fill(stub.bootstrap, "t", 5)
    fill(stub.bootstrap, "t", 2, partition=1)
    ended = consume(stub, "--from-beginning", "--exit-eof")
    assert (ended.returncode, ended.stderr, sorted(ended.stdout.split())) == (0, "", ["0", "0", "1", "1", "2", "3", "4"])
    assert consume(stub, "--partition", 0, "--offset", 3, "--exit-eof").stdout.split() == ["3", "4"]
    assert consume(stub, "--partition", 0, "--offset", -1, "--exit-eof").stdout.split() == ["4"]
    assert consume(stub, "--partition", 1, "--offset", -9, "--exit-eof").stdout.split() == ["0", "1"]
    assert consume(stub, "--partition", 0, "--from-beginning", "--max-messages", 2).stdout.split() == ["0", "1"]
    assert consume(stub, "--exit-eof").stdout == ""
    few = consume(stub, "--from-beginning", "--max-messages", 8, "--timeout", 1)
    assert (few.returncode, few.stderr.strip()) == (1, "fencepost consume: only 7 of 8 records came")
    assert not {exchange.api for exchange in stub.journal.requests()} & {Api.JOIN_GROUP, Api.OFFSET_COMMIT, Api.OFFSET_FETCH}


def test_consume_as_json(stub: BrokerStub) -> None:
    """Everything of a record, nulls as null, and bytes that are no text in base64."""
    with Producer(bootstrap_servers=stub.bootstrap) as producer:
        producer.send("t", b"\xff\x00", key="ké".encode(), headers=[("h", b"1"), ("n", None)], timestamp=1_700_000_000_000).result(20)
        producer.send("t", None, timestamp=1_700_000_000_000).result(20)
    first, second = objects(consume(stub, "--from-beginning", "--exit-eof", "--json").stdout)
    assert first == {
        "topic": "t",
        "partition": 0,
        "offset": 0,
        "timestamp": 1_700_000_000_000,
        "key": "ké",
        "value": {"base64": "/wA="},
        "headers": [["h", "1"], ["n", None]],
    }
    assert (second["key"], second["value"], second["headers"]) == (None, None, [])


@pytest.mark.parametrize(
    ("data", "text", "value"),
    [
        (None, "null", None),
        (b"plain", "plain", "plain"),
        ("größe".encode(), "größe", "größe"),
        (b"\x1b[31m\x07\n\r\t", r"\x1b[31m\x07\n\r\t", "\x1b[31m\x07\n\r\t"),
        (b"\xff\xfe", r"\xff\xfe", {"base64": "//4="}),
        ("\u202eback".encode(), r"\u202eback", "\u202eback"),
    ],
)
def test_bytes_are_shown_safely(data: bytes | None, text: str, value: object) -> None:
    """Nothing that a terminal would obey is printed as it is, and a record is one line."""
    assert shown(data) == text
    assert as_json(data) == value


def test_consume_goes_on_until_ctrl_c(stub: BrokerStub) -> None:
    """It prints what comes after it began, and Ctrl-C ends it with exit code 0 and without a traceback."""
    fill(stub.bootstrap, "t", 1)
    with running("consume", "--bootstrap", stub.bootstrap, "--topic", "t", "--from-beginning") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"0\n"
        fill(stub.bootstrap, "t", 1)
        assert process.stdout.readline() == b"0\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, b"")


def test_mistakes_of_consume(stub: BrokerStub) -> None:
    """A topic, a partition and an offset that are not there are named; no topic comes into being."""
    assert "topic 't': " in complaint(consume(stub))
    assert stub.cluster.topics.named("t") is None
    fill(stub.bootstrap, "t", 2)
    assert "--partition 1: topic 't' has partitions 0 to 0" in complaint(consume(stub, "--partition", 1))
    assert "--offset 3: partition 0 has offsets 0 to 2" in complaint(consume(stub, "--offset", 3))
    assert "--from-beginning and --offset exclude each other" in complaint(consume(stub, "--offset", 1, "--from-beginning"))
    assert "--config: No such configuration property" in complaint(consume(stub, "--config", "x=1"))


def test_consume_a_partition_without_a_leader() -> None:
    """It is named, before anything is read; the others can be read."""
    with BrokerStub(brokers=2) as stub:
        stub.create_topic("t", partitions=2, replication_factor=1)
        fill(stub.bootstrap, "t", 2)
        stub.stop_broker(stub.leader("t", 1))
        told = "fencepost consume: partition 1 of topic 't' has no leader: `fencepost topics describe` shows its replicas"
        assert complaint(consume(stub, "--from-beginning", "--exit-eof")) == told
        assert consume(stub, "--from-beginning", "--exit-eof", "--partition", 0).stdout.split() == ["0", "1"]
