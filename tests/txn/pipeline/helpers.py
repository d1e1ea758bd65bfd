"""For tests of pipelines: a stub with a source and a sink, quick settings, and what readers and the group have afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from fencepost.broker_stub import BrokerStub
from fencepost.producer import Producer
from fencepost.txn import Pipeline
from tests.reading import read_messages

PARTITIONS: Final = 3
LIMIT_S: Final = 60.0
SOURCE, SINK, DEAD = "orders", "invoices", "orders.dead"
CONSUMER: Final = {"heartbeat.interval.ms": 100, "fetch.wait.max.ms": 20, "reconnect.backoff.max.ms": 200}
"""No short session: a machine that stands still for seconds would lose the partitions."""
POLLS, SESSION = "max.poll.interval.ms", "session.timeout.ms"
PRODUCER: Final = {
    "linger_ms": 0,
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 50,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 50,
}
QUICK: Final[dict[str, Any]] = {
    "source": SOURCE,
    "group": "billing",
    "sink": SINK,
    "batch_ms": 20,
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 50,
}


def settings_for(bootstrap: str, **changed: Any) -> dict[str, Any]:
    """Settings with short pauses. A setting of the consumer that is None is left to librdkafka."""
    given = changed.pop("consumer", {})
    session = {SESSION: given[POLLS]} if POLLS in given else {}  # librdkafka takes no longer one than that
    consumer = {name: value for name, value in {**CONSUMER, **session, **given}.items() if value is not None}
    more = {"consumer": consumer, "producer": {**PRODUCER, **changed.pop("producer", {})}}
    return {**QUICK, "bootstrap_servers": bootstrap, **more, **changed}


def quick(stub: BrokerStub, transform: Callable[[Message], object] | None = None, **changed: Any) -> Pipeline:
    """A pipeline that does not wait for long."""
    chosen = {} if transform is None else {"transform": transform}
    return Pipeline(**settings_for(stub.bootstrap, **chosen, **changed))


def bill(message: Message) -> bytes:
    """The result of an order."""
    return b"invoice for " + (message.value() or b"")


def order(bootstrap: str, numbers: range, topic: str = SOURCE, partitions: int = PARTITIONS) -> None:
    """Write these orders, each with its key, over all partitions."""
    with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
        for number in numbers:
            producer.send(topic, b"order %d" % number, key=b"customer %d" % number, partition=number % partitions)


def results(bootstrap: str, topic: str = SINK, partitions: int = PARTITIONS) -> list[bytes]:
    """The values that a reader with read_committed finds, sorted."""
    return sorted(message.value() or b"" for message in read_messages(bootstrap, topic, range(partitions)))


def invoices(numbers: range) -> list[bytes]:
    """The results of these orders, sorted."""
    return sorted(b"invoice for order %d" % number for number in numbers)


def group_at(bootstrap: str, topic: str = SOURCE, group: str = "billing", partitions: int = PARTITIONS) -> list[int]:
    """The group's committed offsets; -1001 where there is none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        asked = [TopicPartition(topic, partition) for partition in range(partitions)]
        return [place.offset for place in consumer.committed(asked, timeout=LIMIT_S)]
    finally:
        consumer.close()


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    """A stub with the source, the sink and the topic of dead letters."""
    with BrokerStub() as stub:
        for topic in (SOURCE, SINK, DEAD):
            stub.create_topic(topic, partitions=PARTITIONS)
        yield stub
