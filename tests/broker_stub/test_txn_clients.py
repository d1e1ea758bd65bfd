"""Transactions of stock clients on the stub: commit, abort, fencing, offsets and timeouts, with the bumps of KIP-890 and without."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Producer as ConfluentProducer

from broker_stub import BrokerStub
from producer import wire
from producer.wire import Api
from tests.broker_stub.stub_talk import DEADLINE_S, Talker

TOPIC = "t"


@pytest.fixture(params=["4.3", "3.9"])
def stub(request: pytest.FixtureRequest) -> Iterator[BrokerStub]:
    with BrokerStub(brokers=3, emulate=request.param, config={"transaction.abort.timed.out.transaction.cleanup.interval.ms": 100}) as stub:
        stub.create_topic(TOPIC, partitions=3, replication_factor=3)
        yield stub


def transactional(stub: BrokerStub, name: str, **config: Any) -> ConfluentProducer:
    """A producer that has its identity."""
    producer = ConfluentProducer({"bootstrap.servers": stub.bootstrap, "transactional.id": name, **config})
    producer.init_transactions(DEADLINE_S)
    return producer


def send(producer: ConfluentProducer, *values: str) -> None:
    for number, value in enumerate(values):
        producer.produce(TOPIC, value.encode(), partition=number % 3)
    assert producer.flush(DEADLINE_S) == 0


class Reader:
    """A consumer of committed records in a group of its own."""

    def __init__(self, stub: BrokerStub, group: str = "") -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": stub.bootstrap,
                "group.id": group or uuid.uuid4().hex,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        self.consumer.subscribe([TOPIC])

    def read(self, count: int) -> list[str]:
        """So many records, sorted."""
        read: list[str] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(read) < count and time.monotonic() < deadline:
            for message in self.consumer.consume(count - len(read), timeout=1.0):
                value = message.value()
                assert message.error() is None
                assert value is not None
                read.append(value.decode())
        return sorted(read)


@pytest.fixture
def reader(stub: BrokerStub) -> Iterator[Reader]:
    reader = Reader(stub)
    yield reader
    reader.consumer.close()


def test_what_is_committed_is_read_and_what_is_aborted_is_not(stub: BrokerStub, reader: Reader) -> None:
    """Whole transactions, over several partitions, one after the other."""
    producer = transactional(stub, "x")
    for number in range(6):
        producer.begin_transaction()
        send(producer, *(f"{number}-{index}" for index in range(4)))
        if number % 2:
            producer.abort_transaction(DEADLINE_S)
        else:
            producer.commit_transaction(DEADLINE_S)
    expected = sorted(f"{number}-{index}" for number in (0, 2, 4) for index in range(4))
    assert reader.read(len(expected)) == expected
    assert {len(stub.journal.requests(api)) > 0 for api in (Api.ADD_PARTITIONS_TO_TXN, Api.END_TXN)} == {True}


def test_a_second_instance_fences_the_first(stub: BrokerStub, reader: Reader) -> None:
    """What the first has open is aborted, and it can commit nothing any more; the second one goes on."""
    first = transactional(stub, "x")
    first.begin_transaction()
    send(first, "of the first")
    second = transactional(stub, "x")
    with pytest.raises(KafkaException) as caught:
        first.commit_transaction(DEADLINE_S)
    error = caught.value.args[0]
    assert (error.code(), error.fatal()) == (KafkaError._FENCED, True)
    second.begin_transaction()
    send(second, "of the second")
    second.commit_transaction(DEADLINE_S)
    assert reader.read(1) == ["of the second"]


def test_offsets_are_committed_with_the_records(stub: BrokerStub) -> None:
    """Read, process and write: the group's offsets are those of the committed transactions."""
    source = transactional(stub, "source")
    source.begin_transaction()
    send(source, "a", "b", "c")
    source.commit_transaction(DEADLINE_S)
    stub.create_topic("out", partitions=1)
    reader, producer = Reader(stub, group="g"), transactional(stub, "x")
    try:
        assert reader.read(3) == ["a", "b", "c"]
        asked = [TopicPartition(TOPIC, index) for index in range(3)]
        for commits, expected in ((False, {-1001}), (True, {2})):
            producer.begin_transaction()
            producer.produce("out", b"x")
            positions = [TopicPartition(TOPIC, index, 2) for index in range(3)]
            producer.send_offsets_to_transaction(positions, reader.consumer.consumer_group_metadata(), DEADLINE_S)
            if commits:
                producer.commit_transaction(DEADLINE_S)
            else:
                producer.abort_transaction(DEADLINE_S)
            found = reader.consumer.committed(asked, DEADLINE_S)
            assert {each.offset for each in found} == expected
    finally:
        reader.consumer.close()


def test_a_transaction_survives_the_coordinators_restart(stub: BrokerStub, reader: Reader) -> None:
    """The broker that coordinates goes down and comes back while a transaction is open; it commits."""
    producer = transactional(stub, "x")
    producer.begin_transaction()
    send(producer, "before")
    with Talker(stub) as talker:
        found = talker.ask(wire.FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4)
    assert isinstance(found, wire.FindCoordinatorResponse)
    coordinator = found.coordinators[0].node_id
    stub.restart_broker(coordinator)
    send(producer, "after")
    producer.commit_transaction(DEADLINE_S * 3)
    assert reader.read(2) == ["after", "before"]


def test_a_transaction_that_takes_too_long_is_aborted(stub: BrokerStub, reader: Reader) -> None:
    """Its producer hears that it cannot be committed, and nobody reads it."""
    slow, quick = transactional(stub, "slow", **{"transaction.timeout.ms": 1000, "message.timeout.ms": 1000}), transactional(stub, "quick")
    slow.begin_transaction()
    send(slow, "late")
    quick.begin_transaction()
    send(quick, "in time")
    quick.commit_transaction(DEADLINE_S)
    assert reader.read(1) == ["in time"]  # which lies behind the other one's
    with pytest.raises(KafkaException):
        slow.commit_transaction(DEADLINE_S)
    quick.begin_transaction()
    send(quick, "again")
    quick.commit_transaction(DEADLINE_S)
    assert reader.read(1) == ["again"]
