"""What a partition of the ledger says, from its raw log (read_uncommitted): the newest committed value of each key.

A record counts once the marker of its transaction has committed it, at the place where the record stands, so that it is the same record
that compaction keeps; one outside of any transaction never counts, whoever wrote it. It keeps one value a key and transaction, however long
the log is, and looks into no value. Offsets that compaction left out, and markers whose records are gone, are nothing unusual. No batch
takes more memory than its limits say. It does no I/O.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from typing import Final

from msgspec import Struct

from fencepost.producer.wire.records.batch_header import BatchHeader, Readable, iter_batches
from fencepost.producer.wire.records.compression import CorruptBatch, TooMuch
from fencepost.producer.wire.records.control_batch import ControlType, read_marker
from fencepost.producer.wire.records.record_batch import read_records
from fencepost.txn.ledger.errors import LedgerDamaged

__all__ = ["OPENED_BYTES_MAX", "RECORDS_MAX", "Scan", "Stored"]

log = logging.getLogger("fencepost.ledger")

OPENED_BYTES_MAX: Final = 16 * 1024 * 1024
RECORDS_MAX: Final = 1000
"""Of one batch. An entry is smaller (`ledger_entry.VALUE_BYTES_MAX`), and a transaction writes one or two: what fencepost wrote fits."""


class Stored(Struct, frozen=True):
    """A value as it stands in the log; None deletes what was there before (a tombstone). `plain`: it is of no transaction, and does not
    count."""

    partition: int
    offset: int
    timestamp: int
    value: bytes | None
    plain: bool = False


class Scan:
    """One partition from `start` on, before `end`. `wanted`: the keys to look for, None for all. `committed`: what counts, by key; `plain`:
    the newest that was written outside of any transaction; `position`: the offset to read next; `last`: base offset and checksum of the
    batch before that."""

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
        """Another one that has read as much, and goes on by itself."""
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
        """What transactions wrote that are open, the newest of each last: nobody knows yet whether it will count."""
        found: dict[bytes, list[Stored]] = {}
        for key, stored in sorted((each for kept in self._open.values() for each in kept.items()), key=lambda each: each[1].offset):
            found.setdefault(key, []).append(stored)
        return found

    def feed(self, data: Readable) -> bool:
        """Take what a Fetch from `position` on brought; False where that was no whole batch. Raises LedgerDamaged."""
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
                f"the ledger's partition {self._topic}-{self._partition} has a batch at offset {self.position} (or after it) that cannot be"
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
            # Whatever it holds does not count.
            log.warning("%s-%d: a batch at offset %d is passed over: %s", self._topic, self._partition, header.base_offset, error)
            return
        found = {
            record.key: Stored(self._partition, record.offset, record.timestamp, record.value, not header.is_transactional)
            for record in records
            # A batch whose first records were deleted (DeleteRecords) still comes whole.
            if record.key is not None and record.offset >= self.position and (self._wanted is None or record.key in self._wanted)
        }
        if not header.is_transactional:
            self.plain.update(found)
        elif found:
            self._open.setdefault(header.producer_id, {}).update(found)

    def _end(self, producer_id: int, kind: int) -> None:
        """A marker: what the transaction wrote counts from where it stands, or never."""
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return
        kept = self._open.pop(producer_id, {})
        if kind == ControlType.COMMIT:
            for key, stored in kept.items():
                before = self.committed.get(key)
                if before is None or before.offset < stored.offset:
                    self.committed[key] = stored
