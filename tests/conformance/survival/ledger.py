"""The rows of a long send, and the comparison with what another client reads back.

A row's key and value follow from its number and the ledger's seed, so the reader can compute what it should find. Nothing here talks to a
broker.
"""

from __future__ import annotations

from array import array
from functools import partial
from hashlib import blake2b
from typing import Any

from confluent_kafka import Message

from fencepost.producer import Producer, RecordFuture

DIGEST_MASK = (1 << 128) - 1
NO_ANSWER = -2
FAILED = -3


class Ledger:
    """`rows` rows, sent in the order of their numbers. `keys`: the number of different keys.

    One thread may send, one may note outcomes, and all may read the counts.
    """

    def __init__(self, rows: int, *, seed: int, keys: int = 997) -> None:
        self.rows = rows
        self.sent = 0
        self.acked = 0
        self.failed = 0
        self.sum = 0  # of the values' digests, over everything sent
        self.offsets = array("q", [NO_ANSWER]) * rows  # as acknowledged; -1: in the log, without an offset
        self.partitions = array("h", [-1]) * rows
        self._keys = keys
        self._seed = seed.to_bytes(8, "big")

    def key(self, row: int) -> bytes:
        return b"key-%08d" % (row * 2_654_435_761 % 4_294_967_296 % self._keys)

    def value(self, row: int) -> bytes:
        """About a hundred bytes: the row's number, then bytes that no other row has."""
        return b"%010d:" % row + blake2b(b"%d" % row, digest_size=45, key=self._seed).digest() * 2

    def sending(self, row: int) -> tuple[bytes, bytes]:
        """Key and value of the next row. It counts as sent from then on."""
        value = self.value(row)
        self.sum = (self.sum + digest(value)) & DIGEST_MASK
        self.sent += 1
        return self.key(row), value

    def send(self, producer: Producer, topic: str, row: int, **options: Any) -> RecordFuture:
        """Send the next row, and note its outcome when it is known."""
        key, value = self.sending(row)
        return producer.send(topic, value, key=key, on_delivery=partial(self.settled, row), **options)

    def settled(self, row: int, future: RecordFuture) -> None:
        """The delivery callback."""
        if future.exception() is not None:
            self.offsets[row] = FAILED
            self.failed += 1
            return
        metadata = future.result()
        self.offsets[row] = metadata.offset
        self.partitions[row] = metadata.partition
        self.acked += 1

    def refused(self, row: int) -> bool:
        """Whether the delivery of the row failed."""
        return self.offsets[row] == FAILED

    def unanswered(self, row: int) -> bool:
        """Whether the row has no outcome yet."""
        return self.offsets[row] == NO_ANSWER


class Account:
    """Compares what a reader found with a ledger, record by record.

    `offsets`: whether records must be at their acknowledged offsets. They are not in a topic that was created again.
    """

    def __init__(self, ledger: Ledger, *, offsets: bool = True) -> None:
        self.found = 0
        self.strange = 0  # not a row of this ledger, or not with its key and value
        self.out_of_order = 0  # a row after a later one of its partition
        self.misplaced = 0  # not at the partition and offset that were acknowledged
        self.untold = 0  # acknowledged without an offset
        self.sum = 0
        self._ledger = ledger
        self._offsets = offsets
        self._times = bytearray(ledger.rows)
        self._last: dict[int, int] = {}

    def take(self, partition: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        """One record of the log."""
        ledger = self._ledger
        self.found += 1
        row = int(value[:10]) if value is not None and value[:10].isdigit() else -1
        if not 0 <= row < ledger.rows or value != ledger.value(row) or key != ledger.key(row):
            self.strange += 1
            return
        self._times[row] = min(255, self._times[row] + 1)
        if self._times[row] == 1:
            self.sum = (self.sum + digest(value)) & DIGEST_MASK
        if row <= self._last.get(partition, -1):
            self.out_of_order += 1
        self._last[partition] = row
        said = ledger.offsets[row]
        if said == -1:
            self.untold += 1
        elif self._offsets and said >= 0 and self._times[row] == 1 and (said, ledger.partitions[row]) != (offset, partition):
            self.misplaced += 1

    def take_message(self, message: Message) -> None:
        """One record as confluent-kafka returns it."""
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self.take(partition, offset, message.key(), message.value())

    def rows(self) -> set[int]:
        """The rows that were found."""
        return {row for row, times in enumerate(self._times) if times}

    @property
    def lost(self) -> int:
        """Rows that were sent and not found."""
        return self._times.count(0) - (self._ledger.rows - self._ledger.sent)

    @property
    def doubled(self) -> int:
        """Records beyond the first of their row."""
        return self.found - self.strange - (self._ledger.rows - self._times.count(0))

    def faults(self) -> dict[str, int]:
        """Everything that should be 0."""
        return {
            "lost": self.lost,
            "doubled": self.doubled,
            "out of order": self.out_of_order,
            "strange": self.strange,
            "misplaced": self.misplaced,
        }

    def verdict(self) -> str:
        """One line that a person can read."""
        ledger = self._ledger
        faults = ", ".join(f"{count:,} {what}" for what, count in self.faults().items())
        same = "equal" if self.sum == ledger.sum else "DIFFERENT"
        return (
            f"sent {ledger.sent:,}, acknowledged {ledger.acked:,} ({self.untold:,} without offset), failed {ledger.failed:,}; "
            f"in the log {self.found:,}: {faults}; digests {same} ({self.sum:032x})"
        )


def digest(value: bytes) -> int:
    return int.from_bytes(blake2b(value, digest_size=16).digest(), "big")
