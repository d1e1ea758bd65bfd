"""What a pass of the cleaner leaves of one batch (Kafka's `Cleaner.cleanInto` and `MemoryRecords.filterTo`).

Offsets never change, so readers see gaps. Two kinds of batches stay as a header without records: a batch with a producer's newest sequence,
and the last batch that the pass may clean. A tombstone, and a marker whose transaction is gone, get a delete horizon in the first pass that
reads them. A pass after that time removes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fencepost.broker_stub.log.cleaner.cleaned_transactions import CleanedTransactions
from fencepost.broker_stub.log.cleaner.offset_map import OffsetMap
from fencepost.broker_stub.log.results import LastRecord
from fencepost.producer.wire.records import BatchHeader, Record, read_records
from fencepost.producer.wire.records.compacted_batch import with_records, without_records

_NO_RECORDS: Final[list[Record]] = []


class BatchFilter:
    """See the module. `offsets`: the newest offset of each key. `end_offset`: the end of the part that the pass may clean. `now_ms`: the
    time of the pass."""

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        last_records: Mapping[int, LastRecord],
        *,
        end_offset: int,
        delete_retention_ms: int,
        decompressed_bytes_max: int,
        now_ms: int,
    ) -> None:
        self._offsets = offsets
        self._transactions = transactions
        self._last_records = last_records
        self._end_offset = end_offset
        self._horizon_ms = now_ms + delete_retention_ms
        self._limit = decompressed_bytes_max
        self._now_ms = now_ms

    def filter(self, header: BatchHeader, batch: bytes | memoryview) -> bytes | memoryview | None:
        """The batch that stays; None: nothing stays."""
        horizon = header.delete_horizon_ms
        if header.is_control:
            orphaned = self._transactions.drops_marker(header, batch)
            drops = orphaned and horizon is not None and horizon <= self._now_ms
        else:
            orphaned = False
            drops = self._transactions.drops_data(header)
        records = _NO_RECORDS if drops else read_records(batch, verify_crc=False, limit=self._limit)
        kept = records if header.is_control else [record for record in records if self._keeps(record, horizon)]
        if not kept:
            return without_records(header) if self._keeps_header(header) else None
        needs_horizon = horizon is None and (orphaned or any(record.value is None for record in kept))
        if len(kept) == header.records_count and not needs_horizon:
            return batch
        return with_records(header, kept, self._horizon_ms if needs_horizon else horizon)

    def _keeps(self, record: Record, horizon: int | None) -> bool:
        if record.offset > self._offsets.latest_offset:
            return True
        if record.key is None or not self._offsets.is_newest(record.key, record.offset):
            return False
        return record.value is not None or horizon is None or self._now_ms < horizon

    def _keeps_header(self, header: BatchHeader) -> bool:
        last = self._last_records.get(header.producer_id) if header.producer_id >= 0 else None
        if last is not None and last.data_offset is not None and header.last_offset == last.data_offset:
            return True
        if last is not None and last.data_offset is None and header.is_control and header.producer_epoch == last.epoch:
            return True
        return header.last_offset + 1 == self._end_offset
