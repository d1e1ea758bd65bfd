"""librdkafka's consumer in a group: what it was given, which partitions it has, and the story of two that share a topic."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from fencepost.broker_stub import BrokerStub
from tests.broker_stub.groups.numbered_records import write
from tests.broker_stub.stub_calls import DEADLINE_S


class Reader:
    """A consumer that begins at the start and commits when it is told to. `seen`: the numbers that it was given."""

    def __init__(self, stub: BrokerStub, group: str, topic: str, **config: Any) -> None:
        from confluent_kafka import Consumer

        self.consumer = Consumer({**settings(stub, group), **config})
        self.consumer.subscribe([topic])
        self.seen: list[int] = []

    def poll(self) -> None:
        message = self.consumer.poll(0.02)
        error = message.error() if message is not None else None
        assert error is None or error.name() == "UNKNOWN_TOPIC_OR_PART", error
        if message is not None and error is None:
            self.seen.append(int(message.value() or b""))

    @property
    def partitions(self) -> set[tuple[str, int]]:
        return {(each.topic, each.partition) for each in self.consumer.assignment()}

    def close(self) -> None:
        self.consumer.close()


def settings(stub: BrokerStub, group: str) -> dict[str, Any]:
    """What every reader has."""
    return {
        "bootstrap.servers": stub.bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
    }


def pump(done: Callable[[], bool], *readers: Reader) -> None:
    """Polls them in turn until it is done."""
    deadline = time.monotonic() + 6 * DEADLINE_S  # longer than the session of a member that did not say that it leaves
    while not done():
        assert time.monotonic() < deadline, [(each.partitions, len(each.seen)) for each in readers]
        for reader in readers:
            reader.poll()


def share_a_topic(open_reader: Callable[[], Reader], stub: BrokerStub, topic: str, *, count: int, partitions: int) -> None:
    """One reads everything; a second one takes half of the partitions; when it leaves, the first has all again. Nothing is read twice."""
    first = open_reader()
    opened = [first]
    try:
        pump(lambda: len(first.seen) == count, first)
        assert len(first.partitions) == partitions
        first.consumer.commit(asynchronous=False)
        second = open_reader()
        opened.append(second)
        pump(lambda: [len(each.partitions) for each in opened] == [partitions // 2] * 2, *opened)
        assert not first.partitions & second.partitions
        write(stub, topic, range(count, 2 * count), partitions=partitions)
        pump(lambda: len(first.seen) + len(second.seen) == 2 * count, *opened)
        assert second.seen
        for each in reversed(opened):
            each.consumer.commit(asynchronous=False)
        opened.pop().close()
        pump(lambda: len(first.partitions) == partitions, first)
        write(stub, topic, range(2 * count, 3 * count), partitions=partitions)
        pump(lambda: len(first.seen) + len(second.seen) == 3 * count, first)
        assert sorted(first.seen + second.seen) == list(range(3 * count))
    finally:
        for each in opened:
            each.close()
