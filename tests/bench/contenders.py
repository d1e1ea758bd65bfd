"""The producers under test, each behind the same three calls: send so many records, wait until all are observed, close.

Every loop is as tight as a user of that library would write it, and none of them hides a failure: a delivery that fails ends the worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any, Protocol

from confluent_kafka import Producer as ConfluentProducer

from producer import Producer, RecordFuture
from tests.bench.load import Contender, Load

POLL_EVERY = 1_000
"""confluent-kafka runs its callbacks inside `poll`, so its caller has to call it now and then; after every record would cost it more."""

FLUSH_TIMEOUT_S = 300.0


class Sender(Protocol):
    """What the worker drives. `send` may be called by several threads at once, `finish` by one when none of them sends."""

    acked: int

    def send(self, count: int) -> None: ...
    def finish(self) -> None: ...
    def close(self) -> None: ...


def open_sender(load: Load) -> Sender:
    """The sender of the load's contender; the ceiling is none."""
    match load.contender:
        case Contender.FUTURES:
            return FencepostFutures(load)
        case Contender.CALLBACKS:
            return FencepostCallbacks(load)
        case Contender.CONFLUENT:
            return Confluent(load)
        case Contender.CEILING:
            raise ValueError("the ceiling makes no calls: tests.bench.ceiling replays it")


class FencepostFutures:
    """Keeps every future and asks each for its result."""

    def __init__(self, load: Load) -> None:
        self.acked = 0
        self._load = load
        self._keys = load.keys
        self._producer = fencepost_producer(load)
        self._kept: list[list[RecordFuture]] = []

    def send(self, count: int) -> None:
        send, topic, value = self._producer.send, self._load.topic, self._load.value
        kept: list[RecordFuture] = []
        keep = kept.append
        for key in endless(self._keys, count):
            keep(send(topic, value, key=key))
        self._kept.append(kept)

    def finish(self) -> None:
        self._producer.flush(FLUSH_TIMEOUT_S)
        for kept in self._kept:
            for future in kept:
                future.result(0)
            self.acked += len(kept)
        self._kept.clear()

    def close(self) -> None:
        self._producer.close(FLUSH_TIMEOUT_S)


class FencepostCallbacks:
    """Hears of every delivery on the sender thread."""

    def __init__(self, load: Load) -> None:
        self.acked = 0
        self._load = load
        self._keys = load.keys
        self._producer = fencepost_producer(load)

    def send(self, count: int) -> None:
        send, topic, value, delivered = self._producer.send, self._load.topic, self._load.value, self._delivered
        for key in endless(self._keys, count):
            send(topic, value, key=key, on_delivery=delivered)

    def finish(self) -> None:
        self._producer.flush(FLUSH_TIMEOUT_S)

    def close(self) -> None:
        self._producer.close(FLUSH_TIMEOUT_S)

    def _delivered(self, future: RecordFuture) -> None:
        if future.exception() is None:
            self.acked += 1


class Confluent:
    """librdkafka through confluent-kafka: `produce` with a delivery callback, `poll` now and then, and again when its queue is full."""

    def __init__(self, load: Load) -> None:
        self.acked = 0
        self._load = load
        self._keys = load.keys
        self._producer = ConfluentProducer(
            {
                "bootstrap.servers": load.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": load.linger_ms,
                "batch.size": load.batch_bytes,
                # Its limit of 10,000 records and of 100,000 in the queue would make batches and buffer smaller than everybody else's.
                "batch.num.messages": 1_000_000,
                "queue.buffering.max.messages": 10_000_000,
                "queue.buffering.max.kbytes": load.buffer_bytes // 1024,
                "compression.type": "none",
                "partitioner": "murmur2_random",
            }
        )

    def send(self, count: int) -> None:
        produce, poll = self._producer.produce, self._producer.poll
        topic, value, delivered = self._load.topic, self._load.value, self._delivered
        keys = endless(self._keys, count)
        sent = 0
        while sent < count:
            for key in islice(keys, POLL_EVERY):
                try:
                    produce(topic, value=value, key=key, on_delivery=delivered)
                except BufferError:
                    self._insist(key)
            sent += POLL_EVERY
            poll(0)

    def finish(self) -> None:
        left = self._producer.flush(FLUSH_TIMEOUT_S)
        if left:
            raise TimeoutError(f"{left} records have no outcome after {FLUSH_TIMEOUT_S:g} s")

    def close(self) -> None:
        self.finish()

    def _insist(self, key: bytes) -> None:
        while True:
            self._producer.poll(0.01)
            try:
                self._producer.produce(self._load.topic, value=self._load.value, key=key, on_delivery=self._delivered)
            except BufferError:
                continue
            return

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acked += 1


def fencepost_producer(load: Load) -> Producer:
    return Producer(
        bootstrap_servers=load.bootstrap, linger_ms=load.linger_ms, batch_size=load.batch_bytes, buffer_memory=load.buffer_bytes
    )


def endless(keys: list[bytes], count: int) -> Iterator[bytes]:
    """So many keys, from the start as often as needed, at next to no cost of its own."""
    return islice(cycle(keys), count)
