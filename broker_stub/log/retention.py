"""Which segments of a log may be deleted: below the log start, over retention.bytes, or older than retention.ms (Kafka's
`UnifiedLog.deleteOldSegments`).

Only the oldest segments are deleted, and none that has a record at or past the high watermark. This file decides; it deletes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fencepost.broker_stub.log.config import LogConfig
from fencepost.broker_stub.log.segment import LogSegment

Deletes = Callable[[LogSegment, int], bool]
"""Whether a rule deletes the segment, which ends before that offset. The rule sees the segments in order."""


def deletable(
    segments: Sequence[LogSegment], *, config: LogConfig, log_start_offset: int, high_watermark: int, end_offset: int, now_ms: int
) -> int:
    """How many of the oldest segments may be deleted now. All: the caller begins a new one first."""
    left = segments

    def drop(deletes: Deletes) -> None:
        nonlocal left
        left = left[_leading(left, deletes, high_watermark=high_watermark, end_offset=end_offset) :]

    drop(lambda segment, next_base: next_base <= log_start_offset and segment is not segments[-1])  # Kafka never deletes the active one so
    if config.deletes:
        drop(_over_size(left, config.retention_bytes))
        drop(_over_age(config.retention_ms, now_ms))
    return len(segments) - len(left)


def _leading(segments: Sequence[LogSegment], deletes: Deletes, *, high_watermark: int, end_offset: int) -> int:
    for count, segment in enumerate(segments):
        is_last = count + 1 == len(segments)
        next_base = end_offset if is_last else segments[count + 1].base_offset
        if high_watermark < next_base or (is_last and not segment.size) or not deletes(segment, next_base):
            return count
    return len(segments)


def _over_size(segments: Sequence[LogSegment], limit: int) -> Deletes:
    """Deletes while the log stays as large as the limit."""
    over = sum(segment.size for segment in segments) - limit if limit >= 0 else -1

    def deletes(segment: LogSegment, _next_base: int) -> bool:
        nonlocal over
        if over < segment.size:
            return False
        over -= segment.size
        return True

    return deletes


def _over_age(limit_ms: int, now_ms: int) -> Deletes:
    """Deletes segments whose largest timestamp is older. A record of the future keeps its segment and the later ones."""

    def deletes(segment: LogSegment, _next_base: int) -> bool:
        return limit_ms >= 0 and now_ms - segment.newest_ms > limit_ms

    return deletes
