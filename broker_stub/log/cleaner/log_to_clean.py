"""Which part of a log may be compacted, and whether it is worth it (Kafka's `LogCleanerManager` and `LogToClean`).

The part begins at the first dirty offset, where the last pass ended. It ends before the first of these: the active segment, the last stable
offset, a segment with a record younger than min.compaction.lag.ms. Without timestamps the time of the segment's last append counts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from fencepost.broker_stub.log.partition_log import PartitionLog
from fencepost.broker_stub.log.segment import LogSegment


class LogToClean(NamedTuple):
    """See the module. `is_overdue`: the part has a record that is older than max.compaction.lag.ms."""

    log: PartitionLog
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_worth_it(self) -> bool:
        """min.cleanable.dirty.ratio, or max.compaction.lag.ms."""
        return (self.is_overdue and self.cleanable_bytes > 0) or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def log_to_clean(log: PartitionLog, *, now_ms: int) -> LogToClean:
    """What of the log may be compacted now."""
    dirty = log.first_dirty_offset
    if not log.log_start_offset <= dirty <= log.log_end_offset:
        dirty = log.log_start_offset
    active = log.segments[-1].base_offset
    inactive = between(log.segments, dirty, active)
    lag_ms = log.config.min_compaction_lag_ms
    young = (segment.base_offset for segment in inactive if lag_ms > 0 and segment.newest_ms > now_ms - lag_ms)
    uncleanable = max(dirty, min(log.last_stable_offset, active, next(young, active)))
    end = next((segment.base_offset for segment in between(log.segments, uncleanable, active)), active)
    begun = [segment.first_timestamp for segment in inactive if segment.first_timestamp > 0]
    return LogToClean(
        log,
        dirty,
        end,
        sum(segment.size for segment in log.segments if segment.base_offset < dirty),
        sum(segment.size for segment in between(log.segments, dirty, end)),
        min(begun, default=now_ms) < now_ms - log.config.max_compaction_lag_ms,
    )


def between(segments: Sequence[LogSegment], start: int, end: int) -> Sequence[LogSegment]:
    """The segments from the one with the offset `start`, or the first one, up to the offset `end`; none if they are the same."""
    if start >= end:
        return ()
    bases = [segment.base_offset for segment in segments]
    return segments[max(0, bisect_right(bases, start) - 1) : bisect_left(bases, end)]
