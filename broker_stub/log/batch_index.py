"""Finds the batch with an offset, or the first one with a timestamp: one entry per batch, found by bisection.

Kafka's index files are sparse, and Kafka scans from an entry. This index is dense, with 24 bytes per batch, so it needs no scan. It has no
batches: its caller reads them at the positions that it returns.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left


class BatchIndex:
    """Entries in log order. As in Kafka's time index a timestamp is the maximum so far, so timestamps never fall."""

    __slots__ = ("_last_offsets", "_positions", "_timestamps")

    def __init__(self) -> None:
        self._last_offsets = array("q")
        self._positions = array("q")
        self._timestamps = array("q")

    def __len__(self) -> int:
        return len(self._positions)

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp in the log; -1 without any."""
        return self._timestamps[-1] if self._timestamps else -1

    def add(self, last_offset: int, *, position: int, max_timestamp: int) -> None:
        self._last_offsets.append(last_offset)
        self._positions.append(position)
        self._timestamps.append(max(max_timestamp, self.max_timestamp))

    def truncate(self, count: int) -> None:
        """Keeps only so many of the first entries."""
        del self._last_offsets[count:], self._positions[count:], self._timestamps[count:]

    def holding(self, offset: int) -> int:
        """The number of the first batch whose last offset is at or past `offset`; len() when there is none."""
        return bisect_left(self._last_offsets, offset)

    def reaching(self, timestamp: int) -> int:
        """The number of the first batch with a record at or past `timestamp`; len() when there is none."""
        return bisect_left(self._timestamps, timestamp)

    def at(self, position: int) -> int:
        """The number of the first batch that starts at or past `position`; len() when there is none."""
        return bisect_left(self._positions, position)

    def last_offset(self, number: int) -> int:
        return self._last_offsets[number]

    def position(self, number: int, end: int) -> int:
        """The position of the batch. `end`, the log's size, for the index after the last batch."""
        return self._positions[number] if number < len(self._positions) else end
