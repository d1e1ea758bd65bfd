"""The sparse time index of one segment, as in Kafka's `.timeindex` files (`TimeIndex`).

An entry says that no record at or before its offset has a larger timestamp. Timestamps ascend; offsets never fall.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final

ENTRY_BYTES: Final = 12


class TimeIndex:
    """See the module. `bytes_max`: segment.index.bytes."""

    __slots__ = ("_base_offset", "_entries_max", "_offsets", "_timestamps")

    def __init__(self, base_offset: int, *, bytes_max: int) -> None:
        self._base_offset = base_offset
        self._entries_max = bytes_max // ENTRY_BYTES
        self._timestamps = array("q")
        self._offsets = array("i")  # relative to the base offset

    def __len__(self) -> int:
        return len(self._timestamps)

    @property
    def bytes(self) -> int:
        """The size of its file."""
        return len(self) * ENTRY_BYTES

    @property
    def is_full(self) -> bool:
        """One entry is left for the one that is added when the segment is closed."""
        return len(self._timestamps) >= self._entries_max - 1

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(timestamp, offset), oldest first."""
        return [(timestamp, self._base_offset + offset) for timestamp, offset in zip(self._timestamps, self._offsets, strict=True)]

    @property
    def last(self) -> tuple[int, int]:
        """The newest entry; without any (-1, the base offset)."""
        return (self._timestamps[-1], self._base_offset + self._offsets[-1]) if self._timestamps else (-1, self._base_offset)

    def append(self, timestamp: int, offset: int) -> None:
        """Adds an entry if its timestamp is larger than the newest one's."""
        if timestamp > self.last[0]:
            self._timestamps.append(timestamp)
            self._offsets.append(offset - self._base_offset)

    def lookup(self, timestamp: int) -> int:
        """The offset of the last entry at or before the timestamp: no record before that offset is later. Before the first entry the base
        offset."""
        number = bisect_right(self._timestamps, timestamp)
        return self._base_offset + (self._offsets[number - 1] if number else 0)

    def truncate(self, offset: int) -> None:
        """Removes the entries at or past the offset."""
        count = bisect_left(self._offsets, offset - self._base_offset)
        del self._timestamps[count:], self._offsets[count:]
