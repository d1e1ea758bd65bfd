"""Reads every record back with confluent-kafka, and compares it with the sent one.

`Audit` compares and does not read. `read_back` reads and does not compare.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from fencepost.demo.flights import Flight, row_of

_FETCH_RECORDS: Final = 10_000
_POLL_S: Final = 0.2


class Audit:
    """Counts records. A record with another key or value than the sent one does not count, so its row counts as lost.

    `doubled`: copies beyond a row's first. `out_of_order`: records after a later record of the same key, or in another partition than the
    key's first record. Records without a key have no order.
    """

    def __init__(self, flights: Sequence[Flight]) -> None:
        self.in_log = 0
        self.doubled = 0
        self.out_of_order = 0
        self._digests = [_digest(flight.key, flight.value) for flight in flights]
        self._found = bytearray(len(flights))
        self._newest: dict[bytes, tuple[int, int]] = {}

    def see(self, partition: int, key: bytes | None, value: bytes) -> None:
        """Count one record. Records of a partition come in the order of the log."""
        self.in_log += 1
        row = row_of(value)
        if not 0 <= row < len(self._digests) or _digest(key, value) != self._digests[row]:
            return
        self.doubled += self._found[row]
        self._found[row] = True
        if key is not None:
            home, newest = self._newest.get(key, (partition, -1))
            self.out_of_order += home != partition or row < newest
            self._newest[key] = home, max(row, newest)

    @property
    def lost(self) -> int:
        """Rows without a record in the log."""
        return self._found.count(0)


class Seen(NamedTuple):
    """One record from the consumer."""

    partition: int
    key: bytes | None
    value: bytes


def read_back(bootstrap: str, topic: str, partitions: int, *, timeout_s: float, advance: Callable[[int], None]) -> Iterator[Seen]:
    """Every record of the topic. It calls `advance` with the number of records so far. Raises TimeoutError if it misses the deadline."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "fencepost-demo",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
    deadline = time.monotonic() + timeout_s
    unread = set(range(partitions))
    count = 0
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in unread])
        while unread:
            if time.monotonic() > deadline:
                raise TimeoutError(f"partitions {sorted(unread)} were not read to their end within {timeout_s:g} s")
            for message in consumer.consume(_FETCH_RECORDS, _POLL_S):
                error, partition = message.error(), message.partition()
                assert partition is not None
                if error is None:
                    count += 1
                    yield Seen(partition, _bytes(message.key()), _bytes(message.value()) or b"")
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(partition)
                elif not error.retriable():
                    raise KafkaException(error)
            advance(count)
    finally:
        consumer.close()


def _digest(key: bytes | None, value: bytes) -> bytes:
    """A digest of both, which tells a null key from an empty one."""
    return blake2b(value, digest_size=12, key=b"" if key is None else b"key" + key).digest()


def _bytes(data: bytes | str | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data
