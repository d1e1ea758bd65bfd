"""The sparse offset index of one segment, as in Kafka's `.index` files (`OffsetIndex`).

An entry has the last offset of a batch and the position where that batch starts. A lookup finds a position at or before the batch with an
offset, and the caller scans batch headers from there.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final

ENTRY_BYTES: Final = 8


class OffsetIndex:
    """Entries ascending in both. `bytes_max`: segment.index.bytes."""

    __slots__ = ("_base_offset", "_entries_max", "_offsets", "_positions")

    def __init__(self, base_offset: int, *, bytes_max: int) -> None:
        self._base_offset = base_offset
        self._entries_max = bytes_max // ENTRY_BYTES
        self._offsets = array("i")  # relative to the base offset
        self._positions = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def bytes(self) -> int:
        """The size of its file."""
        return len(self) * ENTRY_BYTES

    @property
    def is_full(self) -> bool:
        return len(self._offsets) >= self._entries_max

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(last offset of the batch, its position), oldest first."""
        return [(self._base_offset + offset, position) for offset, position in zip(self._offsets, self._positions, strict=True)]

    @property
    def last_position(self) -> int:
        """The position of the newest entry; 0 without any."""
        return self._positions[-1] if self._positions else 0

    def append(self, offset: int, position: int) -> None:
        self._offsets.append(offset - self._base_offset)
        self._positions.append(position)

    def lookup(self, offset: int) -> int:
        """The position of the last entry at or before the offset; 0 before the first."""
        number = bisect_right(self._offsets, offset - self._base_offset)
        return self._positions[number - 1] if number else 0

    def offset_past(self, position: int) -> int | None:
        """The offset of the first entry whose batch starts at or past the position; None after the last (`fetchUpperBoundOffset`)."""
        number = bisect_left(self._positions, position)
        return self._base_offset + self._offsets[number] if number < len(self._offsets) else None

    def truncate(self, offset: int) -> None:
        """Removes the entries at or past the offset."""
        count = bisect_left(self._offsets, offset - self._base_offset)
        del self._offsets[count:], self._positions[count:]
