"""What a partition of the ledger says, from its raw log (read_uncommitted): the newest committed value of each key.

A record counts once the marker of its transaction has committed it, at the place where the record stands, so that it is the same record
that compaction keeps; one outside of any transaction counts at once. It keeps one value a key and transaction, however long the log is,
and looks into no value. Offsets that compaction left out, and markers whose records are gone, are nothing unusual. It does no I/O.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from msgspec import Struct

from producer.wire.batch_header import BatchHeader, Readable, iter_batches
from producer.wire.compression import CorruptBatch
from producer.wire.markers import ControlType, read_marker
from producer.wire.record_batch import read_records
from txn.ledger_errors import LedgerDamaged

__all__ = ["Scan", "Stored"]


class Stored(Struct, frozen=True):
    """A value as it stands in the log; None deletes what was there before (a tombstone)."""

    partition: int
    offset: int
    timestamp: int
    value: bytes | None


class Scan:
    """One partition from `start` on, before `end`. `wanted`: the keys to look for, None for all. `committed`: what counts, by key;
    `position`: the offset to read next."""

    def __init__(self, topic: str, partition: int, *, start: int, end: int, wanted: Container[bytes] | None = None) -> None:
        self.position = start
        self.end: Final = end
        self.committed: Final[dict[bytes, Stored]] = {}
        self._topic: Final = topic
        self._partition: Final = partition
        self._wanted: Final = wanted
        self._open: Final[dict[int, dict[bytes, Stored]]] = {}

    @property
    def done(self) -> bool:
        return self.position >= self.end

    @property
    def open(self) -> dict[bytes, Stored]:
        """What transactions wrote that are open: nobody knows yet whether it will count."""
        return {key: stored for kept in self._open.values() for key, stored in kept.items()}

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
        into = self._open.setdefault(header.producer_id, {}) if header.is_transactional else self.committed
        for record in read_records(batch):
            key = record.key
            # A batch whose first records were deleted (DeleteRecords) still comes whole.
            if key is not None and record.offset >= self.position and (self._wanted is None or key in self._wanted):
                into[key] = Stored(self._partition, record.offset, record.timestamp, record.value)
        if header.is_transactional and not into:
            del self._open[header.producer_id]

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
