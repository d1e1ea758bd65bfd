"""Transactions of stock clients on the stub: commit, abort, fencing, offsets and timeouts, with the bumps of KIP-890 and without, each
read back by a client of another maker.

`make txn-clients` asks the same of Apache Kafka instead (`FENCEPOST_TXN_CLIENTS_ON=kafka`).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition

from fencepost.broker_stub import BrokerStub, VirtualClock
from fencepost.producer import wire
from fencepost.producer.wire import Api
from tests.broker_stub.stub_calls import Talker
from tests.broker_stub.transactions.stock_client import DEADLINE_S, Maker, Refused, Sender, closing_all
from tests.broker_stub.transactions.stock_client_java import Java, require_compiler
from tests.broker_stub.transactions.stock_clients_python import Aiokafka, Confluent, KafkaPython
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.reader import Admin
from tests.drawn import drawn
from tests.once import once_is_enough
from tests.waiting import until

pytestmark = once_is_enough("four makers' clients say the same to the stub")

PARTITIONS = 3
MAKERS: dict[str, Callable[[], Maker]] = {each.name: each for each in (Confluent, Aiokafka, KafkaPython, Java)}
READER_OF = {"confluent": "aiokafka", "aiokafka": "kafka-python", "kafka-python": "confluent", "java": "confluent"}
ON_KAFKA = os.environ.get("FENCEPOST_TXN_CLIENTS_ON") == "kafka"
LOOKS_EVERY_MS = 100
# Of a transaction that takes too long: clients hold themselves to it by their own clocks, and on the stub only its clock moves.
TIMEOUT_MS = 1000 if ON_KAFKA else 60_000
CONFIG = {"group.initial.rebalance.delay.ms": 0, "transaction.abort.timed.out.transaction.cleanup.interval.ms": LOOKS_EVERY_MS}


class Site(NamedTuple):
    """A cluster, and unique names on it."""

    bootstrap: str
    stub: BrokerStub | None
    topic: str
    out: str
    id: str
    group: str

    def end(self) -> int:
        """The offset after the newest record or marker of the first partition."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group, "log_level": 0})
        try:
            marks = consumer.get_watermark_offsets(TopicPartition(self.topic, 0), DEADLINE_S)
        finally:
            consumer.close()
        assert marks is not None
        return int(marks[1])

    def offset(self, partition: int = 0) -> int:
        """What the group has committed of the topic; -1001 for nothing."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group, "log_level": 0})
        try:
            (found,) = consumer.committed([TopicPartition(self.topic, partition)], DEADLINE_S)
        finally:
            consumer.close()
        return int(found.offset)


@pytest.fixture(scope="module", params=["4.3", "3.9"])
def cluster(request: pytest.FixtureRequest) -> Iterator[BrokerStub | KafkaCluster]:
    """4.3 has transaction version 2, 3.9 none."""
    if ON_KAFKA:
        with KafkaCluster(features={} if request.param == "4.3" else {"transaction.version": 0}, config=CONFIG) as kafka:
            yield kafka
    else:
        with BrokerStub(brokers=3, emulate=request.param, config=CONFIG) as stub:
            yield stub


@pytest.fixture
def site(cluster: BrokerStub | KafkaCluster) -> Site:
    return new_site(cluster)


def new_site(cluster: BrokerStub | KafkaCluster) -> Site:
    word = uuid.uuid4().hex[:8]
    topics = (f"t-{word}", f"out-{word}")
    for topic in topics:
        if isinstance(cluster, BrokerStub):
            cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
        else:
            Admin(cluster.bootstrap).create(topic, partitions=PARTITIONS)
    return Site(cluster.bootstrap, cluster if isinstance(cluster, BrokerStub) else None, *topics, f"x-{word}", f"g-{word}")


@pytest.fixture
def patient(cluster: BrokerStub | KafkaCluster) -> Iterator[Site]:
    """A cluster of this release on which time passes by hand."""
    if isinstance(cluster, BrokerStub):
        with BrokerStub(brokers=3, emulate=cluster.cluster.release.name, config=CONFIG, clock=VirtualClock()) as stub:
            yield new_site(stub)
    else:
        yield new_site(cluster)


@pytest.fixture(scope="module")
def makers() -> Iterator[Callable[[str], Maker]]:
    """Each maker is there once: the Java clients live in one JVM."""
    made: dict[str, Maker] = {}

    def named(name: str) -> Maker:
        if name not in made:
            if name == "java":
                require_compiler()
            made[name] = MAKERS[name]()
        return made[name]

    yield named
    for maker in made.values():
        maker.close()


@pytest.fixture(params=list(MAKERS))
def maker(request: pytest.FixtureRequest, makers: Callable[[str], Maker]) -> Maker:
    return makers(request.param)


@pytest.fixture
def read(site: Site, maker: Maker, makers: Callable[[str], Maker]) -> Callable[[str, int], list[str]]:
    """What a consumer of another maker finds of committed records."""
    reader = makers(READER_OF[maker.name])
    return lambda topic, count: reader.read(site.bootstrap, topic, PARTITIONS, count)


@pytest.fixture
def opened() -> Iterator[list[Sender]]:
    with closing_all() as senders:
        yield senders


@pytest.fixture
def sender(site: Site, maker: Maker, opened: list[Sender]) -> Sender:
    opened.append(maker.open(site.bootstrap, site.id))
    return opened[-1]


def send(sender: Sender, topic: str, value: str) -> None:
    """A record to each partition."""
    for partition in range(PARTITIONS):
        sender.send(topic, partition, f"{value}-{partition}")


def sent(*values: str) -> list[str]:
    return sorted(f"{value}-{partition}" for value in values for partition in range(PARTITIONS))


def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    site: Site, maker: Maker, sender: Sender, read: Callable[[str, int], list[str]]
) -> None:
    """Whole transactions, over several partitions, one after the other. Java 4.3 speaks version 2 where the cluster has it: no partition is
    added by hand."""
    for number in range(5):
        sender.begin()
        send(sender, site.topic, str(number))
        if number % 2:
            sender.abort()
        else:
            sender.commit()
    expected = sent("0", "2", "4")
    assert read(site.topic, len(expected)) == expected
    if site.stub is not None:
        newest = max(each.version for each in site.stub.journal.requests(Api.END_TXN))
        assert (newest >= 5) == (maker.name == "java" and site.stub.cluster.release.name == "4.3")


def test_java_reads_what_the_others_wrote(site: Site, makers: Callable[[str], Maker], opened: list[Sender]) -> None:
    """Kafka's own consumer sees the committed transactions of three other clients, and not the aborted ones between them."""
    java = makers("java")
    others = [name for name in MAKERS if name != "java"]
    for name in others:
        opened.append(makers(name).open(site.bootstrap, f"{site.id}-{name}"))
        for commits in (False, True):
            opened[-1].begin()
            send(opened[-1], site.topic, f"{name} {commits}")
            opened[-1].commit() if commits else opened[-1].abort()
    expected = sent(*(f"{name} True" for name in others))
    assert java.read(site.bootstrap, site.topic, PARTITIONS, len(expected)) == expected


def test_a_second_instance_fences_the_first(
    site: Site, maker: Maker, sender: Sender, opened: list[Sender], read: Callable[[str, int], list[str]]
) -> None:
    """What the first has open is aborted, and it can commit nothing any more; the second one goes on."""
    sender.begin()
    send(sender, site.topic, "of the first")
    opened.append(maker.open(site.bootstrap, site.id))
    with pytest.raises(Refused) as caught:
        sender.commit()
    assert str(caught.value) in maker.fenced
    second = opened[-1]
    second.begin()
    send(second, site.topic, "of the second")
    second.commit()
    assert read(site.topic, PARTITIONS) == sent("of the second")


def test_offsets_are_committed_with_the_records(site: Site, maker: Maker, sender: Sender, read: Callable[[str, int], list[str]]) -> None:
    """Read, process and write: the group's offsets are those of the committed transactions, and one that is aborted leaves none."""
    sender.begin()
    send(sender, site.topic, "source")
    sender.commit()
    member = maker.join(site.bootstrap, site.group, site.topic, PARTITIONS)
    try:
        for commits, expected in ((False, -1001), (True, 1)):
            sender.begin()
            send(sender, site.out, f"result {commits}")
            sender.send_offset(member, site.topic, 0, 1)
            sender.commit() if commits else sender.abort()
            assert site.offset() == expected
    finally:
        maker.leave(member)
    assert read(site.out, PARTITIONS) == sent("result True")


def test_a_transaction_that_takes_too_long_is_aborted(
    patient: Site, maker: Maker, makers: Callable[[str], Maker], opened: list[Sender]
) -> None:
    """Its producer is told that it cannot commit, no reader sees its records, and the next instance goes on. On the stub, time passes only
    by its clock."""
    late = maker.open(patient.bootstrap, patient.id, timeout_ms=TIMEOUT_MS)
    opened.append(late)
    late.begin()
    send(late, patient.topic, "late")
    if patient.stub is not None:
        patient.stub.advance(TIMEOUT_MS + 2 * LOOKS_EVERY_MS)
    until(lambda: patient.end() == 2, "the coordinator's marker is there", timeout_s=DEADLINE_S)
    with pytest.raises(Refused):
        late.commit()
    opened.append(maker.open(patient.bootstrap, patient.id))
    opened[-1].begin()
    send(opened[-1], patient.topic, "in time")
    opened[-1].commit()
    assert makers(READER_OF[maker.name]).read(patient.bootstrap, patient.topic, PARTITIONS, PARTITIONS) == sent("in time")


@drawn(2, kind=lambda row: row["maker"])
def test_a_transaction_survives_the_coordinators_restart(site: Site, sender: Sender, read: Callable[[str, int], list[str]]) -> None:
    """The broker that coordinates goes down and comes back while a transaction is open; it commits."""
    stub = site.stub
    if stub is None:
        pytest.skip("the stub's brokers are three")
    sender.begin()
    send(sender, site.topic, "before")
    with Talker(stub) as talker:
        found = talker.ask(wire.FindCoordinatorRequest(key_type=1, coordinator_keys=[site.id]), 4)
    assert isinstance(found, wire.FindCoordinatorResponse)
    stub.restart_broker(found.coordinators[0].node_id)
    send(sender, site.topic, "after")
    sender.commit()
    assert read(site.topic, 2 * PARTITIONS) == sent("before", "after")
