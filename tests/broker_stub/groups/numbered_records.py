"""Topics whose records are numbers, dealt to the partitions in turn, for stock consumers that share them."""

from __future__ import annotations

import uuid

from fencepost.broker_stub import BrokerStub
from tests.broker_stub.stub_calls import DEADLINE_S


def fresh_group() -> str:
    """The id of a group that does not exist yet."""
    return f"g-{uuid.uuid4().hex[:8]}"


def numbered_topic(stub: BrokerStub, count: int, *, partitions: int) -> str:
    """A new topic of three replicas with the numbers below `count`."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    stub.create_topic(name, partitions=partitions, replication_factor=3)
    write(stub, name, range(count), partitions=partitions)
    return name


def write(stub: BrokerStub, topic: str, numbers: range, *, partitions: int) -> None:
    """Writes these numbers as text."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": stub.bootstrap})
    for number in numbers:
        producer.produce(topic, str(number).encode(), partition=number % partitions)
    assert producer.flush(DEADLINE_S) == 0
