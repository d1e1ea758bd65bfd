"""Which batch holds an offset, and which is the first with a timestamp: one entry a batch, found by bisection.

Kafka's index files are sparse and scan from an entry; this one is dense, 24 bytes a batch, so that nothing is scanned. It knows no bytes:
whoever asks reads the batch at the position it gives.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left


class BatchIndex:
    """Entries in log order. Timestamps are the maximum so far, as in Kafka's time index, and therefore never fall."""

    __slots__ = ("_last_offsets", "_positions", "_timestamps")

    def __init__(self) -> None:
        self._last_offsets = array("q")
        self._positions = array("q")
        self._timestamps = array("q")

    def __len__(self) -> int:
        return len(self._positions)

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp in the log, -1 without any."""
        return self._timestamps[-1] if self._timestamps else -1

    def add(self, last_offset: int, *, position: int, max_timestamp: int) -> None:
        self._last_offsets.append(last_offset)
        self._positions.append(position)
        self._timestamps.append(max(max_timestamp, self.max_timestamp))

    def truncate(self, count: int) -> None:
        """Drops all but so many of the first entries."""
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
        """Where the batch starts; `end`, the log's size, for the one after the last."""
        return self._positions[number] if number < len(self._positions) else end
