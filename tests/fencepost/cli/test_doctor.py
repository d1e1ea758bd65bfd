"""`fencepost doctor`: what it finds well, and what it names as the cause, each by its words."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Iterator

import pytest

from fencepost import Acl, Producer
from fencepost.broker_stub import BrokerStub
from fencepost.cli.doctor_topics import _replicas
from fencepost.producer.wire import Api, ErrorCode, MetadataResponseTopic
from fencepost.producer.wire.messages.metadata import MetadataResponsePartition
from tests.conformance.fixtures import kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.reader import Admin
from tests.fencepost.cli.shell import answer_once, complaint, run

__all__ = ["kafka"]

Findings = list[tuple[str, str, str]]


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub(brokers=3) as running_stub:
        yield running_stub


def doctor(bootstrap: str, *arguments: object) -> tuple[int, Findings]:
    """The exit code, and (verdict, subject, words) of each finding."""
    ran = run("doctor", bootstrap, "--json", *arguments)
    # On a machine that is slow, or before a broker that is, it says what it waits for.
    assert all("still waiting for answers of the brokers" in line for line in ran.stderr.splitlines()), ran.stderr
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    return ran.returncode, [(row["verdict"], row["subject"], row["words"]) for row in rows]


def of(findings: Findings, subject: str) -> list[tuple[str, str]]:
    return [(verdict, words) for verdict, about, words in findings if about == subject]


def test_a_cluster_without_fault(stub: BrokerStub) -> None:
    """Exit code 0; versions, features, every broker and both permissions are told, and what was not looked at says why. Nothing is left."""
    stub.create_topic("t", config={"min.insync.replicas": "2"})
    code, findings = doctor(stub.bootstrap, "--topic", "t", "--transactions")
    assert code == 0
    assert {verdict for verdict, _, _ in findings} == {"OK", "-"}
    assert of(findings, "version") == [("OK", "Apache Kafka 4.3 or later, or a compatible broker (Produce up to version 13)")]
    assert "transaction.version=2" in of(findings, "features")[0][1]
    assert "3 brokers, controller 1" in of(findings, "cluster")[0][1]
    assert ("OK", "1 partition, with a leader") in of(findings, "topic t")
    assert len(of(findings, "advertised address")) == 3
    assert of(findings, "idempotence") == [("OK", "permitted: the broker gave a producer id")]
    assert "gave an identity to 'fencepost-doctor-" in of(findings, "transactions")[0][1]
    assert of(findings, "clock")[0][0] == "-"
    assert [topic.name for topic in stub.cluster.topics if not topic.name.startswith("__")] == ["t"]
    assert stub.journal.requests(Api.PRODUCE) == []


def test_the_table(stub: BrokerStub) -> None:
    """Without --json the same findings are a table."""
    ran = run("doctor", stub.bootstrap)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "permitted: the broker gave a producer id" in ran.stdout
    assert "not tried; --transactions tries it" in ran.stdout


@pytest.mark.parametrize("how", ["argument", "option", "environment"])
def test_the_address_comes_as_for_every_command(stub: BrokerStub, how: str) -> None:
    """As the argument, with --bootstrap, or from the environment."""
    given = {"argument": [stub.bootstrap], "option": ["--bootstrap", stub.bootstrap], "environment": []}[how]
    ran = run("doctor", *given, FENCEPOST_BOOTSTRAP=stub.bootstrap if how == "environment" else "")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "3 brokers, controller 1" in ran.stdout


def test_no_address_and_two() -> None:
    """One line says what to give."""
    none = (
        "fencepost doctor: no broker address: give --bootstrap HOST:PORT or --profile NAME,"
        " or set FENCEPOST_BOOTSTRAP or KAFKA_BOOTSTRAP_SERVERS"
    )
    assert complaint(run("doctor")) == none
    two = complaint(run("doctor", "one:9092", "--bootstrap", "two:9092"))
    assert two == "fencepost doctor: BOOTSTRAP one:9092 and --bootstrap two:9092 exclude each other"


@pytest.mark.parametrize(
    ("configs", "verdict", "words"),
    [
        ({"min.insync.replicas": "4"}, "WARN", "this Kafka needs only the 3 in sync; older than 3.7 it refuses acks=all"),
        ({"min.insync.replicas": "3"}, "WARN", "while one of these brokers is down, nothing can be written"),
        ({"min.insync.replicas": "1"}, "WARN", "acknowledged records may be on one broker alone; 2 is safer"),
        ({"max.message.bytes": "1000"}, "WARN", "max.message.bytes=1000 is below batch_size=262144: the broker refuses full batches"),
        ({"cleanup.policy": "compact"}, "WARN", "the broker refuses records without a key"),
        ({"message.timestamp.type": "LogAppendTime"}, "OK", "the broker replaces the records' timestamps"),
    ],
)
def test_topics_that_make_trouble(stub: BrokerStub, configs: dict[str, str], verdict: str, words: str) -> None:
    """A topic's configs are held against what a producer needs."""
    stub.create_topic("t", config=configs)
    code, findings = doctor(stub.bootstrap, "--topic", "t")
    assert code == (verdict == "FAIL")
    assert [found for found, said in of(findings, "topic t") if words in said] == [verdict]


def test_more_replicas_in_sync_than_there_are(stub: BrokerStub) -> None:
    """From 3.7 on brokers need at most the replicas that there are, so writes succeed, and the doctor does not say that they fail. Older
    brokers refuse them."""
    stub.create_topic("t", replication_factor=1, config={"min.insync.replicas": "2"})
    code, findings = doctor(stub.bootstrap, "--topic", "t")
    assert (code, [verdict for verdict, words in of(findings, "topic t") if "needs only the 1 in sync" in words]) == (0, ["WARN"])
    with Producer(bootstrap_servers=stub.bootstrap) as producer:
        assert producer.send("t", b"v").result(20).offset == 0
    topic = MetadataResponseTopic(name="t", partitions=[MetadataResponsePartition(replica_nodes=[1], isr_nodes=[1])])
    assert _replicas("topic t", topic, 2, lowers=False).words.endswith(": acks=all can never be satisfied (NOT_ENOUGH_REPLICAS)")


def test_a_topic_that_is_not_there(stub: BrokerStub) -> None:
    """The doctor reports a missing topic, and does not create it."""
    code, findings = doctor(stub.bootstrap, "--topic", "nope")
    assert code == 1
    assert of(findings, "topic nope")[0][1].startswith("UNKNOWN_TOPIC_OR_PARTITION: it does not exist")
    assert list(stub.cluster.topics) == []


def test_partitions_without_leaders(stub: BrokerStub) -> None:
    """The doctor counts the partitions without a leader."""
    stub.create_topic("t", partitions=3, replication_factor=1)
    stub.stop_broker(2)
    code, findings = doctor(stub.bootstrap, "--topic", "t")
    assert code == 1
    assert any("have no leader: writes to them wait" in words for _, words in of(findings, "topic t"))
    assert [verdict for verdict, _ in of(findings, "bootstrap")].count("WARN") == 1


@pytest.mark.parametrize(
    ("needed", "stopped", "finding"),
    [
        (2, [2], ("WARN", "min.insync.replicas=2, 3 replicas, at least 2 in sync: broker 2 is down or behind")),
        (1, [2, 3], ("WARN", "min.insync.replicas=1, 3 replicas, at least 1 in sync: brokers 2, 3 are down or behind")),
        (
            3,
            [3],
            (
                "FAIL",
                "min.insync.replicas=3, 3 replicas, at least 2 in sync: writes with acks=all wait until broker 3 has caught up "
                "(NOT_ENOUGH_REPLICAS)",
            ),
        ),
    ],
)
def test_brokers_that_are_down(stub: BrokerStub, needed: int, stopped: list[int], finding: tuple[str, str]) -> None:
    """The doctor names the brokers whose replicas are not in sync, also while writes succeed."""
    stub.create_topic("t", partitions=3, replication_factor=3, config={"min.insync.replicas": needed})
    for node in stopped:
        stub.stop_broker(node)
    _, findings = doctor(stub.bootstrap, "--topic", "t")
    assert finding in of(findings, "topic t")


def test_a_topic_that_may_not_be_written_to() -> None:
    """The client sees the topic and its configs, and may write to another one. A producer would fail, so the finding is FAIL."""
    seen = [Acl.allow("ANONYMOUS", operation, topic="t") for operation in ("DESCRIBE", "DESCRIBE_CONFIGS")]
    with BrokerStub(acls=[*seen, Acl.allow("ANONYMOUS", "WRITE", topic="other")], super_users=["root"]) as stub:
        for topic in ("t", "other"):
            stub.create_topic(topic)
        code, findings = doctor(stub.bootstrap, "--topic", "t")
        assert (code, of(findings, "idempotence")[0][0]) == (1, "OK")
        assert ("FAIL", "permission is missing: grant WRITE on the topic to this client's principal") in of(findings, "topic t")
        stub.allow("ANONYMOUS", "WRITE", topic="t")
        code, findings = doctor(stub.bootstrap, "--topic", "t")
        assert (code, of(findings, "topic t")[0]) == (0, ("OK", "WRITE is permitted"))


def test_a_producer_that_is_not_idempotent(stub: BrokerStub) -> None:
    """What such a producer does not need is no failure, and the exit code says that it would work."""
    stub.create_topic("t", replication_factor=3, config={"min.insync.replicas": "3"})
    stub.faults.on(Api.INIT_PRODUCER_ID).forever().error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    stub.stop_broker(next(node for node in stub.isr("t", 0) if node != stub.leader("t", 0)))
    settings = ("--config", "enable.idempotence=false", "--config", "acks=1")
    code, findings = doctor(stub.bootstrap, "--topic", "t", *settings)
    assert (code, {verdict for verdict, _, _ in findings} & {"FAIL"}) == (0, set()), findings
    assert of(findings, "idempotence") == [("-", "not asked, because of enable_idempotence=False")]
    (words,) = [words for verdict, words in of(findings, "topic t") if verdict == "WARN"]
    assert words.endswith("has caught up (NOT_ENOUGH_REPLICAS); not with acks=1, which does not wait for replicas")
    with Producer(bootstrap_servers=stub.bootstrap, enable_idempotence=False, acks=1) as producer:
        assert producer.send("t", b"v").result(20).offset == 0
    code, findings = doctor(stub.bootstrap, "--topic", "t")
    assert (code, of(findings, "idempotence")[0][0]) == (1, "FAIL")


def test_missing_permissions(stub: BrokerStub) -> None:
    """A refused InitProducerId names the permission to grant."""
    stub.faults.on(Api.INIT_PRODUCER_ID).forever().error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    code, findings = doctor(stub.bootstrap)
    assert code == 1
    [(verdict, words)] = of(findings, "idempotence")
    assert verdict == "FAIL"
    assert words.startswith("InitProducerId: CLUSTER_AUTHORIZATION_FAILED; grant WRITE on a topic, or IDEMPOTENT_WRITE on the cluster")
    stub.faults.clear()
    stub.faults.on(Api.FIND_COORDINATOR).forever().error(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    code, findings = doctor(stub.bootstrap, "--transactions")
    assert (code, of(findings, "transactions")) == (1, [("FAIL", "FindCoordinator: TRANSACTIONAL_ID_AUTHORIZATION_FAILED")])


def test_an_advertised_address_that_leads_nowhere(stub: BrokerStub) -> None:
    """The broker that clients would be sent to, and cannot reach, is named with its address."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    stub.cluster.brokers[2].port = port
    first = stub.bootstrap.split(",")[0]
    code, findings = doctor(first)
    assert code == 1
    [words] = [words for verdict, words in of(findings, "advertised address") if verdict == "FAIL"]
    assert words.startswith(f"broker 2 at 127.0.0.1:{port}: Connection refused; no producer here can reach it")


def test_a_broker_that_does_not_answer(stub: BrokerStub) -> None:
    """Every question has a deadline."""
    stub.faults.on(Api.METADATA).forever().drop()
    code, findings = doctor(stub.bootstrap)
    assert code == 1
    assert findings[-1] == ("FAIL", "cluster", "the examination ended early: no answer within 5 s")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "an HTTP server answers there, not a Kafka broker"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "the port requires TLS, but security_protocol=PLAINTEXT: set it to SSL"),
    ],
    ids=["http", "tls"],
)
def test_addresses_that_are_no_brokers(answer: bytes, words: str) -> None:
    """An HTTP server, a port that requires TLS (it answers with an alert), and a closed port are each named within seconds."""
    with answer_once(answer) as port:
        code, findings = doctor(f"127.0.0.1:{port}")
    assert code == 1
    assert of(findings, "bootstrap")[0][1].startswith(f"127.0.0.1:{port}: {words}")
    assert doctor(f"127.0.0.1:{port}") == (1, [("FAIL", "bootstrap", f"127.0.0.1:{port}: Connection refused")])
    assert "not 'host:port'" in complaint(run("doctor", "nowhere"))


@pytest.mark.timeout(300)
def test_on_kafka(kafka: KafkaCluster) -> None:
    """Apache Kafka passes, transactions included, and its release is named."""
    topic = f"cli-doctor-{secrets.token_hex(4)}"
    Admin(kafka.bootstrap).create(topic)
    code, findings = doctor(kafka.bootstrap, "--topic", topic, "--transactions")
    assert code == 0, findings
    assert of(findings, "version")[0][1].startswith("Apache Kafka 4.")
    assert of(findings, "transactions")[0][0] == "OK"
    assert ("WARN", "min.insync.replicas=1, 1 replica, at least 1 in sync: records that its only broker loses are lost") in of(
        findings, f"topic {topic}"
    )
    assert run("topics", "create", f"{topic}-2", "--bootstrap", kafka.bootstrap, "--config", "min.insync.replicas=2").returncode == 0
    with Producer(bootstrap_servers=kafka.bootstrap) as producer:
        assert producer.send(f"{topic}-2", b"v").result(30).offset == 0
    code, findings = doctor(kafka.bootstrap, "--topic", f"{topic}-2")
    assert (code, of(findings, f"topic {topic}-2")[2][0]) == (0, "WARN")
