"""Breaks rules of the log on purpose, to check that the random histories beside a plain list notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fencepost.broker_stub.log import partition_log, recovery, retention
from fencepost.broker_stub.log.cleaner.batch_filter import BatchFilter
from fencepost.broker_stub.log.cleaner.cleaned_transactions import CleanedTransactions
from fencepost.broker_stub.log.cleaner.offset_map import OffsetMap
from fencepost.broker_stub.log.last_stable_offset import UnstableTransactions
from fencepost.broker_stub.log.offset_index import OffsetIndex
from fencepost.broker_stub.log.partition_log import PartitionLog
from fencepost.broker_stub.log.segment import LogSegment
from fencepost.broker_stub.log.time_index import TimeIndex
from fencepost.broker_stub.log.txn_index import TransactionIndex
from fencepost.broker_stub.storage.volatile import VolatileFile

RUNS_MAX: Final = 300
Patch = tuple[object, str, object]


def _tombstones_go_at_once(self: BatchFilter, record: Any, horizon: int | None, keeps: Any = BatchFilter._keeps) -> bool:
    return bool(keeps(self, record, self._now_ms if horizon is None else horizon))


def _tombstones_stay(self: BatchFilter, record: Any, horizon: int | None, keeps: Any = BatchFilter._keeps) -> bool:
    return bool(keeps(self, record, None))


def _producers_only(self: BatchFilter, header: Any, keeps: Any = BatchFilter._keeps_header) -> bool:
    self._end_offset = -1
    return bool(keeps(self, header))


def _orphan(self: CleanedTransactions, header: Any, batch: Any, drops: Any = CleanedTransactions.drops_marker) -> bool:
    drops(self, header, batch)
    return True


def _without_snapshot(self: PartitionLog, base_offset: int, *, now_ms: int) -> None:
    self._local.roll(base_offset, self._aborted_in_active, now_ms=now_ms)
    self.recovery_point = base_offset


def _only_said(self: PartitionLog) -> None:
    self.recovery_point = self.log_end_offset


def _past_high_watermark(segments: Any, *, deletable: Callable[..., int] = retention.deletable, **known: Any) -> int:
    return deletable(segments, **{**known, "high_watermark": known["end_offset"]})


def _below_the_limit(segments: Any, limit: int, over_size: Any = retention._over_size) -> Any:
    return over_size(segments, limit // 2)


def _one_entry_late(self: OffsetIndex, offset: int, lookup: Any = OffsetIndex.lookup) -> int:
    return int(lookup(self, offset + 1))


MUTANTS: Final[dict[str, Patch]] = {
    "a segment is never full": (LogSegment, "must_roll", lambda self, config, **_: False),
    "retention deletes what is not replicated": (partition_log, "deletable", _past_high_watermark),
    "retention leaves less than retention.bytes": (retention, "_over_size", _below_the_limit),
    "retention by time deletes nothing": (retention, "_over_age", lambda limit_ms, now_ms: lambda segment, next_base: False),
    "compaction keeps older records": (OffsetMap, "is_newest", lambda self, key, offset: True),
    "compaction drops tombstones at once": (BatchFilter, "_keeps", _tombstones_go_at_once),
    "compaction keeps tombstones for ever": (BatchFilter, "_keeps", _tombstones_stay),
    "compaction keeps aborted records": (CleanedTransactions, "drops_data", lambda self, header: False),
    "compaction drops markers whose records are there": (CleanedTransactions, "drops_marker", _orphan),
    "compaction keeps no batch for its producer": (BatchFilter, "_keeps_header", lambda self, header: False),
    "compaction does not keep the last batch of a pass": (BatchFilter, "_keeps_header", _producers_only),
    "readers do not stop at open transactions": (UnstableTransactions, "last_stable_offset", lambda self, high_watermark: high_watermark),
    "readers hear of no abort": (TransactionIndex, "aborted_between", lambda self, offset, end: []),
    "a truncated log knows its old producers": (PartitionLog, "_restore_producers", lambda self, *_, **__: None),
    "a new segment has no snapshot": (PartitionLog, "_roll", _without_snapshot),
    "flush.messages syncs nothing": (PartitionLog, "flush", _only_said),
    "a file is never synced": (VolatileFile, "sync", lambda self: None),
    "recovery checks no checksum": (recovery, "check_crc", lambda batch: True),
    "the offset index is looked up one entry late": (OffsetIndex, "lookup", _one_entry_late),
    "a truncation leaves the time index": (TimeIndex, "truncate", lambda self, offset: None),
}
