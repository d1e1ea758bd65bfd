"""One segment of a log: record batches back to back, and sparse indexes of them (Kafka's `LogSegment`).

It does no I/O except to its storage, and reads no clock. It knows no producers and no high watermark.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from fencepost.broker_stub.log.config import LogConfig
from fencepost.broker_stub.log.offset_index import OffsetIndex
from fencepost.broker_stub.log.storage import Storage
from fencepost.broker_stub.log.time_index import TimeIndex

_HEADER: Final = struct.Struct(">qi11xi8xq")  # base offset, batch length, last offset delta, maximum timestamp
_LENGTH_END: Final = 12
_WINDOW_BYTES: Final = 4096 + _HEADER.size
RELATIVE_OFFSET_MAX: Final = 2**31 - 1
UNKNOWN_TIME: Final = -1


class Place(NamedTuple):
    """A batch in a segment."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int


class LogSegment:
    """See the module. `created_ms` and `modified_ms`: by the broker's clock. `jitter_ms`: it rolls so much earlier than segment.ms.
    `first_timestamp`: the largest one of its first batch, -1 without any. `largest_timestamp`: of its records, -1 without any."""

    __slots__ = (
        "_bytes_since_entry",
        "_index_interval_bytes",
        "_last_of_largest",
        "base_offset",
        "created_ms",
        "first_timestamp",
        "jitter_ms",
        "largest_timestamp",
        "modified_ms",
        "offset_index",
        "storage",
        "time_index",
    )

    def __init__(self, base_offset: int, storage: Storage, config: LogConfig, *, now_ms: int) -> None:
        self.base_offset = base_offset
        self.storage = storage
        self.created_ms = self.modified_ms = now_ms
        limit = min(config.segment_jitter_ms, config.segment_ms)
        self.jitter_ms = base_offset * 2_654_435_761 % limit if limit else 0  # spread like Kafka's random one, but the same in every run
        self.offset_index = OffsetIndex(base_offset, bytes_max=config.segment_index_bytes)
        self.time_index = TimeIndex(base_offset, bytes_max=config.segment_index_bytes)
        self.largest_timestamp = UNKNOWN_TIME
        self._last_of_largest = base_offset
        self._index_interval_bytes = config.index_interval_bytes
        self._bytes_since_entry = 0
        self.first_timestamp = UNKNOWN_TIME

    def __repr__(self) -> str:
        return f"LogSegment({self.base_offset:020}, {self.size} bytes)"

    @property
    def size(self) -> int:
        return self.storage.size

    def must_roll(self, config: LogConfig, *, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """Whether batches of that size belong into a new segment (`shouldRoll`)."""
        known = self.first_timestamp >= 0
        waited_ms = max_timestamp - self.first_timestamp if known else now_ms - self.created_ms
        return (
            self.size > config.segment_bytes - size
            or (self.size > 0 and waited_ms > config.segment_max_ms - self.jitter_ms)
            or self.offset_index.is_full
            or self.time_index.is_full
            or last_offset - self.base_offset > RELATIVE_OFFSET_MAX
        )

    def append(self, data: bytes, *, last_offset: int, max_timestamp: int, now_ms: int) -> None:
        """Appends one batch. An index entry is added for the first batch after more than index.interval.bytes without one."""
        position = self.storage.size
        if not position:
            self.first_timestamp = max_timestamp
        self.storage.append(data)
        self._note(position, len(data), last_offset, max_timestamp)
        self.modified_ms = now_ms

    def close(self) -> None:
        """The next segment begins: the time index gets the largest timestamp."""
        self.time_index.append(self.largest_timestamp, self._last_of_largest)

    def first_reaching(self, offset: int) -> Place | None:
        """The first batch that ends at or past the offset; None: there is none (`translateOffset`)."""
        return self._first_reaching(offset, self.offset_index.lookup(offset))

    def position_of(self, offset: int) -> int:
        """Where the first batch that ends at or past the offset starts; its size if there is none."""
        place = self.first_reaching(offset)
        return self.size if place is None else place.position

    def places(self, position: int) -> Iterator[Place]:
        """The batches from that position on, which must be a batch's start."""
        end = self.storage.size
        while position < end:
            window = self.storage.read(position, _WINDOW_BYTES)
            at, last_header = 0, len(window) - _HEADER.size
            while at <= last_header:
                base_offset, length, delta, max_timestamp = _HEADER.unpack_from(window, at)
                yield Place(position + at, length + _LENGTH_END, base_offset, base_offset + delta, max_timestamp)
                at += length + _LENGTH_END
            if not at:
                return  # a torn batch
            position += at

    def since(self, timestamp: int, start_offset: int) -> Iterator[Place]:
        """The batches that may have the first record at or past the timestamp and the offset."""
        position = self.offset_index.lookup(max(self.time_index.lookup(timestamp), start_offset))
        return (place for place in self.places(position) if place.max_timestamp >= timestamp and place.last_offset >= start_offset)

    def truncate(self, offset: int, *, now_ms: int) -> None:
        """Removes the batches that end at or past the offset."""
        self.storage.truncate(self.position_of(offset))
        self.offset_index.truncate(offset)
        self.time_index.truncate(offset)
        self._bytes_since_entry = 0
        self.largest_timestamp, self._last_of_largest = self.time_index.last
        if not self.size:
            self.created_ms, self.first_timestamp = now_ms, UNKNOWN_TIME
        for place in self.places(self.offset_index.lookup(self._last_of_largest)):
            if place.max_timestamp > self.largest_timestamp:
                self.largest_timestamp, self._last_of_largest = place.max_timestamp, place.last_offset

    def _first_reaching(self, offset: int, position: int) -> Place | None:
        """The same among the batches from that position on, whose headers are read window by window."""
        end, storage, unpack = self.storage.size, self.storage, _HEADER.unpack_from
        while position < end:
            window = storage.read(position, _WINDOW_BYTES)
            at, last_header = 0, len(window) - _HEADER.size
            while at <= last_header:
                base_offset, length, delta, max_timestamp = unpack(window, at)
                if base_offset + delta >= offset:
                    return Place(position + at, length + _LENGTH_END, base_offset, base_offset + delta, max_timestamp)
                at += length + _LENGTH_END
            if not at:
                return None  # a torn batch
            position += at
        return None

    def _note(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        if max_timestamp > self.largest_timestamp:
            self.largest_timestamp, self._last_of_largest = max_timestamp, last_offset
        if self._bytes_since_entry > self._index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.append(self.largest_timestamp, self._last_of_largest)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size
