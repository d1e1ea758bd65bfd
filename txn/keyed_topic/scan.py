"""The newest committed value of each key in a partition of the ledger, from its raw log (read_uncommitted).

A record counts once its transaction's marker has committed it, at the record's own offset, so that it is the record that compaction keeps.
A record outside of any transaction never counts. The scan keeps one value for each key and transaction, however long the log is, and
decodes none. It accepts offsets that compaction removed, and markers without records. It limits the memory for each batch. It does no I/O.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from typing import Final

from msgspec import Struct

from fencepost.producer.wire.codecs.codec import CorruptBatch, TooMuch
from fencepost.producer.wire.records.batch_header import BatchHeader, Readable, iter_batches
from fencepost.producer.wire.records.control_batch import ControlType, read_marker
from fencepost.producer.wire.records.record_batch import read_records
from fencepost.txn.keyed_topic.errors import LedgerDamaged

__all__ = ["OPENED_BYTES_MAX", "RECORDS_MAX", "Scan", "Stored"]

log = logging.getLogger("fencepost.ledger")

OPENED_BYTES_MAX: Final = 16 * 1024 * 1024
RECORDS_MAX: Final = 1000
"""The limit of one batch. An entry is smaller (`entry.VALUE_BYTES_MAX`), and a transaction writes one or two, so each batch of fencepost
fits."""


class Stored(Struct, frozen=True):
    """A value in the log; None is a tombstone, which deletes the earlier value. `plain`: it belongs to no transaction, and does not
    count."""

    partition: int
    offset: int
    timestamp: int
    value: bytes | None
    plain: bool = False


class Scan:
    """One partition from `start` on, before `end`. `wanted`: the keys to look for, None for all. `committed`: the values that count, by
    key. `plain`: the newest values outside of any transaction. `position`: the next offset to read. `last`: base offset and checksum of the
    previous batch."""

    def __init__(self, topic: str, partition: int, *, start: int, end: int, wanted: Container[bytes] | None = None) -> None:
        self.position = start
        self.end = end
        self.last: tuple[int, int] | None = None
        self.committed: Final[dict[bytes, Stored]] = {}
        self.plain: Final[dict[bytes, Stored]] = {}
        self._topic: Final = topic
        self._partition: Final = partition
        self._wanted: Final = wanted
        self._open: Final[dict[int, dict[bytes, Stored]]] = {}

    def copy(self) -> Scan:
        """A copy that continues from the same position."""
        other = Scan(self._topic, self._partition, start=self.position, end=self.end, wanted=self._wanted)
        other.last = self.last
        other.committed.update(self.committed)
        other.plain.update(self.plain)
        other._open.update({producer_id: dict(kept) for producer_id, kept in self._open.items()})
        return other

    @property
    def done(self) -> bool:
        return self.position >= self.end

    @property
    def open(self) -> dict[bytes, list[Stored]]:
        """The values of open transactions, the newest of each key last; their outcome is not known."""
        found: dict[bytes, list[Stored]] = {}
        for key, stored in sorted((each for kept in self._open.values() for each in kept.items()), key=lambda each: each[1].offset):
            found.setdefault(key, []).append(stored)
        return found

    def feed(self, data: Readable) -> bool:
        """Take the bytes of a Fetch from `position` on; False if they contain no whole batch. Raises LedgerDamaged."""
        before = self.position
        try:
            for header, batch in iter_batches(data):
                if self.done or header.base_offset >= self.end:
                    self.position = max(self.position, self.end)
                    break
                if header.last_offset >= self.position:
                    self._take(header, batch)
                    self.position = header.last_offset + 1
                    self.last = (header.base_offset, header.crc)
        except CorruptBatch as error:
            raise LedgerDamaged(
                f"partition {self._topic}-{self._partition} has a batch at offset {self.position} (or after it) that cannot be"
                f" read: {error}"
            ) from None
        return self.position > before

    def _take(self, header: BatchHeader, batch: memoryview) -> None:
        if header.is_control:
            if header.records_count > 0:
                self._end(header.producer_id, read_marker(batch)[0])
            return
        try:
            records = read_records(batch, limit=OPENED_BYTES_MAX, records_max=RECORDS_MAX, with_headers=False)
        except TooMuch as error:
            if header.is_transactional:
                raise
            # The batch's values do not count.
            log.warning("%s-%d: a batch at offset %d is skipped: %s", self._topic, self._partition, header.base_offset, error)
            return
        found = {
            record.key: Stored(self._partition, record.offset, record.timestamp, record.value, not header.is_transactional)
            for record in records
            # A batch whose first records were deleted (DeleteRecords) is still sent whole.
            if record.key is not None and record.offset >= self.position and (self._wanted is None or record.key in self._wanted)
        }
        if not header.is_transactional:
            self.plain.update(found)
        elif found:
            self._open.setdefault(header.producer_id, {}).update(found)

    def _end(self, producer_id: int, kind: int) -> None:
        """A marker: the transaction's values count from their own offsets on, or never."""
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return
        kept = self._open.pop(producer_id, {})
        if kind == ControlType.COMMIT:
            for key, stored in kept.items():
                before = self.committed.get(key)
                if before is None or before.offset < stored.offset:
                    self.committed[key] = stored
