"""The producer snapshots of a log, by the offset before which they were made.

One is kept for each segment, as in Kafka, and a few newer ones, so that a truncation near the end reads few batches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

INTERVAL_BYTES: Final = 1 << 20
"""A snapshot between those of segments is made after so much of the log, or later if snapshots are large."""
SHARE: Final = 100
NEWEST: Final = 8
"""How many of those are kept."""


class Snapshots:
    """See the module."""

    __slots__ = ("_between", "_due_at", "_kept", "_offsets")

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._kept: list[bytes] = []
        self._between: list[int] = []  # the offsets of those that are no segment's
        self._due_at = INTERVAL_BYTES

    def is_due(self, log_bytes: int) -> bool:
        """Whether the log has grown enough since the newest one."""
        return log_bytes >= self._due_at

    def add(self, offset: int, snapshot: bytes, *, log_bytes: int, is_segments: bool) -> None:
        """Keeps a snapshot of the log before that offset. `is_segments`: a segment begins there."""
        self._due_at = log_bytes + max(INTERVAL_BYTES, SHARE * len(snapshot))
        self.forget_from(offset)
        self._offsets.append(offset)
        self._kept.append(snapshot)
        if not is_segments:
            self._between.append(offset)
            if len(self._between) > NEWEST:
                self._remove(self._between.pop(0))

    def newest_until(self, offset: int) -> tuple[int, bytes | None]:
        """The newest one at or before the offset, and its offset; without one (-1, None)."""
        self.forget_from(offset + 1)
        return (self._offsets[-1], self._kept[-1]) if self._offsets else (-1, None)

    def forget_from(self, offset: int) -> None:
        """Forgets those at or past the offset."""
        count = bisect_left(self._offsets, offset)
        del self._offsets[count:], self._kept[count:]
        del self._between[bisect_left(self._between, offset) :]

    def forget_before(self, offset: int) -> None:
        """Forgets those before the offset, where the log begins now."""
        count = bisect_left(self._offsets, offset)
        del self._offsets[:count], self._kept[:count]
        del self._between[: bisect_left(self._between, offset)]

    def _remove(self, offset: int) -> None:
        at = bisect_right(self._offsets, offset) - 1
        if at >= 0 and self._offsets[at] == offset:
            del self._offsets[at], self._kept[at]
