"""The rows of a long send, and the comparison with what another client reads back.

A row's key and value follow from its number and the ledger's seed, so the reader can compute what it should find. Nothing here talks to a
broker.
"""

from __future__ import annotations

from array import array
from functools import partial
from hashlib import blake2b
from itertools import chain
from typing import Any

from confluent_kafka import Message

from fencepost.producer import BulkFuture, Persisted, Producer, RecordFuture

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
        self.claims: dict[int, Persisted] = {}  # what the producer says of each failed row
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

    def send_many(self, producer: Producer, topic: str, rows: range, *, partition: int) -> BulkFuture:
        """Send the next rows to one partition, and note their outcomes when all are known."""
        bulk = producer.send_many(topic, [self.sending(row) for row in rows], partition=partition)
        bulk.add_done_callback(partial(self.settled_rows, rows, partition))
        return bulk

    def settled(self, row: int, future: RecordFuture) -> None:
        """The delivery callback."""
        error = future.exception()
        if error is not None:
            self._fail(row, error.persisted)
            return
        metadata = future.result()
        self._acknowledge(row, metadata.partition, metadata.offset)

    def settled_rows(self, rows: range, partition: int, bulk: BulkFuture) -> None:
        """The callback of `send_many`."""
        told = bulk.result()
        for index, error in told.failures.items():
            self._fail(rows[index], error.persisted)
        delivered = (row for index, row in enumerate(rows) if index not in told.failures)
        for row, offset in zip(delivered, chain.from_iterable(told.offsets.get(partition, [])), strict=True):
            self._acknowledge(row, partition, offset)

    def _fail(self, row: int, claim: Persisted) -> None:
        self.offsets[row] = FAILED
        self.claims[row] = claim
        self.failed += 1

    def _acknowledge(self, row: int, partition: int, offset: int) -> None:
        self.offsets[row] = offset
        self.partitions[row] = partition
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

    def found_of(self, claim: Persisted) -> int:
        """How many of the failed rows with this claim were found."""
        return sum(self._times[row] > 0 for row, said in self._ledger.claims.items() if said is claim)

    @property
    def lost(self) -> int:
        """Rows that were sent and not found."""
        return self._times.count(0) - (self._ledger.rows - self._ledger.sent)

    @property
    def lost_acknowledged(self) -> int:
        """Rows that were acknowledged, or have no outcome, and were not found."""
        return self.lost - sum(not self._times[row] for row in self._ledger.claims)

    @property
    def false_claims(self) -> int:
        """Failed rows that were found although their error says NO, or were not found although it says YES."""
        claims = self._ledger.claims.values()
        return self.found_of(Persisted.NO) + sum(said is Persisted.YES for said in claims) - self.found_of(Persisted.YES)

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
            "false claims": self.false_claims,
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
