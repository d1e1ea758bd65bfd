"""The pipeline's consumer alone: which messages it passes on, and which errors it logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from fencepost.txn.loop.calls import Blocking, finished
from fencepost.txn.pipeline import source
from fencepost.txn.pipeline.stats import Counters

TP = ("orders", 0)
END = 10


class Rebalancing:
    """A consumer without brokers, of a group without committed offsets. Its second call collects messages, and then the partition is lost
    and comes back."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.began: list[int] = []
        self.sought: list[int] = []
        self._calls = 0

    def subscribe(self, topics: list[str], *callbacks: Callable[..., None]) -> None:
        self._on_assign, _, self._on_lost = callbacks

    def consume(self, number: int, timeout: float) -> list[Message]:
        self._calls += 1
        partitions = [TopicPartition(*TP)]
        if self._calls == 1:
            self._on_assign(self, partitions)
            return messages(0, 5)
        if self._calls == 2:
            self._on_lost(self, partitions)
            self._on_assign(self, partitions)
            return messages(5, 8)
        return messages(self.sought[-1], END)

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [TopicPartition(each.topic, each.partition, -1001) for each in partitions]

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        return 0, END

    def assign(self, places: list[TopicPartition]) -> None:
        self.began += [place.offset for place in places]

    def seek(self, place: TopicPartition) -> None:
        self.sought.append(place.offset)

    def consumer_group_metadata(self) -> bytes:
        return b"member"


def messages(begin: int, end: int) -> list[Message]:
    return [Message(topic=TP[0], partition=TP[1], offset=offset, value=b"order") for offset in range(begin, end)]


def ours(on_revoked: source.OnRevoked) -> source.Source:
    calls = Blocking(lambda: False)
    return source.Source(
        {"auto.offset.reset": "earliest"},
        ["orders"],
        calls,
        Counters(0, None),
        on_revoked,
        left_s=lambda: float("inf"),
        leave=lambda _: None,
    )


def test_a_partition_that_comes_back_in_the_same_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The open batch is aborted when the partition is lost, and nothing is committed yet. So the partition is read from its beginning, and
    not from the first message of this call: those that the call before had passed on would be left out."""
    monkeypatch.setattr(source, "Consumer", Rebalancing)

    async def aborts(taken: set[tuple[str, int]], lost: bool) -> None:
        assert (taken, lost) == ({TP}, True)

    tested = ours(aborts)
    finished(tested.open())
    read = [[message.offset() for message in finished(tested.read(100, 0.1))] for _ in range(3)]
    assert read == [[*range(5)], [], [*range(END)]]
    consumer: Any = tested._consumer
    assert (consumer.began, consumer.sought) == ([0, 0], [0])


def test_the_same_error_again(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka says each time how long its attempt took. The error is logged once all the same, and another one beside it."""
    told: list[Callable[[KafkaError], None]] = []

    async def gives_up_nothing(taken: set[tuple[str, int]], lost: bool) -> None:
        raise AssertionError(taken, lost)

    class Failing(Rebalancing):
        def __init__(self, settings: Mapping[str, Any]) -> None:
            super().__init__(settings)
            told.append(settings["error_cb"])

    monkeypatch.setattr(source, "Consumer", Failing)
    ours(gives_up_nothing)
    for broker, took_ms in (("one", 0), ("one", 1), ("two", 0), ("one", 12)):
        text = f"{broker}:9092: Connect to ipv4#127.0.0.1:9092 failed: Connection refused (after {took_ms}ms in state CONNECT)"
        told[0](KafkaError(KafkaError._TRANSPORT, text))
    assert [record.getMessage().count("two:9092") for record in caplog.records] == [0, 1]
