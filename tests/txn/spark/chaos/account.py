"""The rows of a topic, read by another client and compared with the expected ones: row numbers and digests, each once.

No transaction may be open afterwards: on every partition the last stable offset equals the high watermark.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from msgspec import Struct

READ_S = 60.0
FETCHED = 10_000


class Account(Struct, frozen=True):
    """`doubled`: further copies of rows. `strange`: values that no row has. `open`: partitions whose LSO is not the high watermark."""

    expected: int
    present: int
    lost: int
    doubled: int
    strange: int
    open: int

    @property
    def exact(self) -> bool:
        return not (self.lost or self.doubled or self.strange or self.open)


def take_account(bootstrap: str, topic: str, partitions: int, expected: int) -> Account:
    """Read the topic to its end with read_committed."""
    found = bytearray(expected)
    doubled = strange = 0
    for value in _values(bootstrap, topic, partitions):
        number, _, digest = value.partition(b"|")
        row = int(number) if number.isdigit() else expected
        if row >= expected or hashlib.md5(number, usedforsecurity=False).hexdigest().encode() != digest:
            strange += 1
            continue
        doubled += found[row]
        found[row] = 1
    lost = found.count(0)
    return Account(expected, expected - lost, lost, doubled, strange, len(still_open(bootstrap, topic, partitions)))


def still_open(bootstrap: str, topic: str, partitions: int) -> dict[int, tuple[int, int]]:
    """LSO and high watermark of the partitions where they differ."""
    stable, high = (_ends(bootstrap, topic, partitions, isolation) for isolation in ("read_committed", "read_uncommitted"))
    return {partition: (stable[partition], high[partition]) for partition in stable if stable[partition] != high[partition]}


def _values(bootstrap: str, topic: str, partitions: int) -> Iterator[bytes]:
    consumer = _consumer(bootstrap, "read_committed")
    left = set(range(partitions))
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
        while left:
            messages = consumer.consume(FETCHED, 0.1)
            for message in messages:
                error = message.error()
                if error is None:
                    yield message.value() or b""
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
                elif not error.retriable():
                    raise KafkaException(error)
    finally:
        consumer.close()


def _ends(bootstrap: str, topic: str, partitions: int, isolation: str) -> dict[int, int]:
    consumer = _consumer(bootstrap, isolation)
    try:
        found = {}
        for partition in range(partitions):
            marks = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=READ_S)
            assert marks is not None, f"no offsets of {topic}-{partition} within {READ_S:g} s"
            found[partition] = marks[1]
        return found
    finally:
        consumer.close()


def _consumer(bootstrap: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "chaos",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
    )
