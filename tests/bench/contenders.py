"""The producers that the bench compares, behind the same three calls: send many records, wait for all outcomes, close.

Every loop is as tight as a user of that library would write it. None of them hides a failure: a failed delivery ends the worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import Any, Protocol, TypeVar

import pyarrow as pa
from confluent_kafka import Producer as ConfluentProducer

from fencepost.producer import BulkFuture, Producer, RecordFuture
from fencepost.producer.wire.codecs.codec import Codec
from tests.bench.load import Contender, Load

POLL_EVERY = 1_000
"""Records between two calls of `poll`. confluent-kafka runs its callbacks there; a call after every record would cost it more."""

BULK_ROWS = 10_000
FLUSH_TIMEOUT_S = 300.0

R = TypeVar("R")


class Sender(Protocol):
    """The interface that the worker drives. Several threads may call `send` at once. One thread calls `finish` when no `send` runs."""

    acked: int

    def send(self, count: int) -> None: ...
    def lone(self, key: bytes) -> None:
        """Send one record and wait for its acknowledgement."""

    def finish(self) -> None: ...
    def close(self) -> None: ...


def open_sender(load: Load) -> Sender:
    """The sender of the load's contender. The ceiling has none."""
    match load.contender:
        case Contender.FUTURES:
            return FencepostFutures(load)
        case Contender.CALLBACKS:
            return FencepostCallbacks(load)
        case Contender.MANY:
            return FencepostMany(load)
        case Contender.ARROW:
            return FencepostArrow(load)
        case Contender.CONFLUENT:
            return Confluent(load)
        case Contender.CONFLUENT_BATCH:
            return ConfluentBatch(load)
        case Contender.AIOKAFKA | Contender.KAFKA_PYTHON:
            from tests.bench import strangers  # imported here, so that the other contenders do not load its clients

            return strangers.Aiokafka(load) if load.contender is Contender.AIOKAFKA else strangers.KafkaPython(load)
        case _:
            raise ValueError(f"{load.contender.value} is not called from here: tests.bench.ceiling and tests.bench.java run it")


class FencepostFutures:
    """Keeps every future, and asks each one for its result."""

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

    def lone(self, key: bytes) -> None:
        self._producer.send(self._load.topic, self._load.value, key=key).result(FLUSH_TIMEOUT_S)

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
    """Gets every delivery in a callback on the sender thread."""

    def __init__(self, load: Load) -> None:
        self.acked = 0
        self._load = load
        self._keys = load.keys
        self._producer = fencepost_producer(load)

    def send(self, count: int) -> None:
        send, topic, value, delivered = self._producer.send, self._load.topic, self._load.value, self._delivered
        for key in endless(self._keys, count):
            send(topic, value, key=key, on_delivery=delivered)

    def lone(self, key: bytes) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        self._producer.flush(FLUSH_TIMEOUT_S)

    def close(self) -> None:
        self._producer.close(FLUSH_TIMEOUT_S)

    def _delivered(self, future: RecordFuture) -> None:
        if future.exception() is None:
            self.acked += 1


class FencepostMany:
    """Sends lists of pairs, `BULK_ROWS` per call, and asks each bulk for its result."""

    def __init__(self, load: Load) -> None:
        self.acked = 0
        self._load = load
        self._producer = fencepost_producer(load)
        self._rows = [(key, load.value) for key in load.keys]
        self._kept: list[BulkFuture] = []

    def send(self, count: int) -> None:
        for rows in bulks(self._rows, count):
            self._kept.append(self._producer.send_many(self._load.topic, rows))

    def lone(self, key: bytes) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        self._producer.flush(FLUSH_TIMEOUT_S)
        self.acked += sum(bulk.result(0).acknowledged for bulk in self._kept)
        self._kept.clear()

    def close(self) -> None:
        self._producer.close(FLUSH_TIMEOUT_S)


class FencepostArrow(FencepostMany):
    """Sends the same rows as Arrow tables."""

    def __init__(self, load: Load) -> None:
        super().__init__(load)
        keys, values = zip(*self._rows, strict=True)
        self._table = pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})

    def send(self, count: int) -> None:
        for rows in bulks(range(len(self._rows)), count):
            table = self._table.slice(rows[0], len(rows))
            self._kept.append(self._producer.send_arrow(self._load.topic, table, key="key"))


class Confluent:
    """librdkafka through confluent-kafka: `produce` with a delivery callback, and `poll` from time to time and if the queue is full."""

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
                # Its defaults (10,000 records per batch, 100,000 in the queue) would make its batches and its buffer smaller.
                "batch.num.messages": 1_000_000,
                "queue.buffering.max.messages": 10_000_000,
                "queue.buffering.max.kbytes": load.buffer_bytes // 1024,
                "compression.type": load.codec,
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

    def lone(self, key: bytes) -> None:
        awaited = self.acked + 1
        self._producer.produce(self._load.topic, value=self._load.value, key=key, on_delivery=self._delivered)
        while self.acked < awaited:
            if not self._producer.poll(FLUSH_TIMEOUT_S):
                raise TimeoutError("a lone record has no outcome")

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


class ConfluentBatch(Confluent):
    """Sends lists of mappings, `BULK_ROWS` per call, and sends again what the full queue refused."""

    def __init__(self, load: Load) -> None:
        super().__init__(load)
        self._rows = [{"key": key, "value": load.value} for key in self._keys]

    def send(self, count: int) -> None:
        produce_batch, poll = self._producer.produce_batch, self._producer.poll
        for rows in bulks(self._rows, count):
            left = [dict(row) for row in rows]  # confluent-kafka writes errors into the messages
            while left:
                produce_batch(self._load.topic, left, on_delivery=self._delivered)
                left = [{"key": row["key"], "value": row["value"]} for row in left if "_error" in row]
                poll(0.01 if left else 0)


def fencepost_producer(load: Load) -> Producer:
    return Producer(
        bootstrap_servers=load.bootstrap,
        linger_ms=load.linger_ms,
        batch_size=load.batch_bytes,
        buffer_memory=load.buffer_bytes,
        compression_type=Codec[load.codec.upper()],
    )


def bulks(rows: Sequence[R], count: int) -> Iterator[Sequence[R]]:
    """So many rows in lists of `BULK_ROWS`. The rows repeat from the start as needed."""
    place = 0
    while count > 0:
        taken = rows[place : place + min(BULK_ROWS, count)]
        count -= len(taken)
        place = (place + len(taken)) % len(rows)
        yield taken


def endless(keys: list[bytes], count: int) -> Iterator[bytes]:
    """So many keys. They repeat from the start as needed, at almost no cost."""
    return islice(cycle(keys), count)
