"""One segment of a log: record batches back to back, and sparse indexes of them (Kafka's `LogSegment`).

It does no I/O except to its directory, and reads no clock. It knows no producers and no high watermark. Its indexes are in memory. Their
files are written when the segment is flushed; without them, or when they are damaged, the segment is scanned (`recovery`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from fencepost.broker_stub.log.config import LogConfig
from fencepost.broker_stub.log.index_entries import write_offset_index, write_time_index, write_txn_index
from fencepost.broker_stub.log.offset_index import OffsetIndex
from fencepost.broker_stub.log.time_index import TimeIndex
from fencepost.broker_stub.log.txn_index import AbortedTxn
from fencepost.broker_stub.storage.directory import Directory
from fencepost.producer.wire.records import BATCH_OVERHEAD, BatchHeader, iter_batches, read_header

_HEADER: Final = struct.Struct(">qi11xi8xq")  # base offset, batch length, last offset delta, maximum timestamp
_LENGTH_END: Final = 12
_LENGTH_MIN: Final = BATCH_OVERHEAD - _LENGTH_END
_WINDOW_BYTES: Final = 4096 + _HEADER.size
_READ_BYTES: Final = 64 << 10
RELATIVE_OFFSET_MAX: Final = 2**31 - 1
UNKNOWN_TIME: Final = -1
DIGITS: Final = 20
LOG: Final = ".log"
INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TXN_INDEX: Final = ".txnindex"
SUFFIXES: Final = (LOG, INDEX, TIME_INDEX, TXN_INDEX)


class Place(NamedTuple):
    """A batch in a segment."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int


def file_name(offset: int, kind: str) -> str:
    """The name of a file of the segment that begins at that offset, or of the snapshot before it."""
    return f"{offset:0{DIGITS}}{kind}"


class LogSegment:
    """See the module. `suffix`: the additional ending of its files' names, while it is no part of the log.

    `created_ms` and `modified_ms`: by the broker's clock. `jitter_ms`: how much earlier than segment.ms it rolls. `first_timestamp`: the
    largest timestamp of its first batch, -1 without a timestamp. `largest_timestamp`: the largest one of its records, -1 without one."""

    __slots__ = (
        "_bytes_since_entry",
        "_directory",
        "_index_interval_bytes",
        "_is_flushed",
        "_last_of_largest",
        "_suffix",
        "base_offset",
        "created_ms",
        "file",
        "first_timestamp",
        "is_deleted",
        "jitter_ms",
        "largest_timestamp",
        "modified_ms",
        "offset_index",
        "time_index",
    )

    def __init__(self, base_offset: int, directory: Directory, config: LogConfig, *, now_ms: int, suffix: str = "") -> None:
        self.base_offset = base_offset
        self.file = directory.open(file_name(base_offset, LOG) + suffix)
        self._directory = directory
        self._suffix = suffix
        self.is_deleted = False
        self.created_ms = self.modified_ms = now_ms
        limit = min(config.segment_jitter_ms, config.segment_ms)
        self.jitter_ms = base_offset * 2_654_435_761 % limit if limit else 0  # spread like Kafka's random one, but the same in every run
        self.offset_index = OffsetIndex(base_offset, bytes_max=config.segment_index_bytes)
        self.time_index = TimeIndex(base_offset, bytes_max=config.segment_index_bytes)
        self.largest_timestamp = UNKNOWN_TIME
        self._last_of_largest = base_offset
        self._index_interval_bytes = config.index_interval_bytes
        self._bytes_since_entry = 0
        self._is_flushed = False
        self.first_timestamp = UNKNOWN_TIME

    def __repr__(self) -> str:
        return f"LogSegment({self.base_offset:020}, {self.size} bytes)"

    @property
    def size(self) -> int:
        return self.file.size

    @property
    def newest_ms(self) -> int:
        """The largest timestamp; without one when it was last appended to (`largestTimestamp`)."""
        return self.largest_timestamp if self.largest_timestamp >= 0 else self.modified_ms

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
        position = self.file.size
        if not position:
            self.first_timestamp = max_timestamp
        self.file.append(data)
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
        end = self.file.size
        while position < end:
            window = self.file.read(position, _WINDOW_BYTES)
            at, last_header = 0, len(window) - _HEADER.size
            while at <= last_header:
                base_offset, length, delta, max_timestamp = _HEADER.unpack_from(window, at)
                if length < _LENGTH_MIN or position + at + length + _LENGTH_END > end:
                    return  # a torn batch, or none
                yield Place(position + at, length + _LENGTH_END, base_offset, base_offset + delta, max_timestamp)
                at += length + _LENGTH_END
            if not at:
                return  # a torn batch
            position += at

    def batches(self, position: int = 0) -> Iterator[tuple[BatchHeader, memoryview]]:
        """The batches from that position on, which must be a batch's start. They are read a few at a time, until the segment is deleted.

        Ends before a torn batch; raises CorruptBatch for bytes that are no batch.
        """
        while position < self.size and not self.is_deleted:
            data = self.file.read(position, _READ_BYTES)
            read = 0
            for header, batch in iter_batches(data):
                yield header, batch
                read += header.size
            if not read:  # a batch that is larger, or torn
                size = read_header(data).size if len(data) >= BATCH_OVERHEAD else 0
                if not 0 < size <= self.size - position:
                    return
                yield from iter_batches(self.file.read(position, size))
                read = size
            position += read

    def since(self, timestamp: int, start_offset: int) -> Iterator[Place]:
        """The batches that may have the first record at or past the timestamp and the offset."""
        position = self.offset_index.lookup(max(self.time_index.lookup(timestamp), start_offset))
        return (place for place in self.places(position) if place.max_timestamp >= timestamp and place.last_offset >= start_offset)

    def of_largest_timestamp(self) -> Place | None:
        """The first batch with the largest timestamp; None: no batch has one."""
        places = self.places(self.offset_index.lookup(self._last_of_largest))
        return next((place for place in places if 0 <= place.max_timestamp == self.largest_timestamp), None)

    def truncate(self, offset: int, *, now_ms: int) -> None:
        """Removes the batches that end at or past the offset."""
        self.file.truncate(self.position_of(offset))
        self.file.sync()  # what comes next must not be followed by what was here
        self._is_flushed = False
        self._remove_index_files()
        self.offset_index.truncate(offset)
        self.time_index.truncate(offset)
        self._bytes_since_entry = 0
        self.largest_timestamp, self._last_of_largest = self.time_index.last
        if not self.size:
            self.created_ms, self.first_timestamp = now_ms, UNKNOWN_TIME
        for place in self.places(self.offset_index.lookup(self._last_of_largest)):
            self.note_timestamp(place)

    def note_timestamp(self, place: Place) -> None:
        """Notes the largest timestamp of a batch that has no index entry."""
        if place.max_timestamp > self.largest_timestamp:
            self.largest_timestamp, self._last_of_largest = place.max_timestamp, place.last_offset

    def note(self, place: Place) -> None:
        """Indexes the next batch that the file has already."""
        if not place.position:
            self.first_timestamp = place.max_timestamp
        self._note(place.position, place.size, place.last_offset, place.max_timestamp)

    def forget_indexes(self) -> None:
        """Begins to index it anew."""
        self._is_flushed = False
        self._remove_index_files()
        self.offset_index.truncate(self.base_offset)
        self.time_index.truncate(self.base_offset)
        self.largest_timestamp, self._last_of_largest = UNKNOWN_TIME, self.base_offset

    def restore(self, offset_entries: list[tuple[int, int]], time_entries: list[tuple[int, int]]) -> None:
        """Takes over the entries of the index files of a segment that was flushed."""
        self._is_flushed = True
        for entry in offset_entries:
            self.offset_index.append(*entry)
        for timestamp, offset in time_entries:
            self.time_index.append(timestamp, offset)
        self.largest_timestamp, self._last_of_largest = self.time_index.last
        first = next(self.places(0), None)
        self.first_timestamp = UNKNOWN_TIME if first is None else first.max_timestamp

    def flush(self, aborted: list[AbortedTxn]) -> None:
        """Syncs the batches and writes the index files, unless nothing has changed since. `aborted`: the aborted transactions whose markers
        are in the segment."""
        if self._is_flushed:
            return
        if not self.size:
            for kind in (INDEX, TIME_INDEX):
                self._directory.open(file_name(self.base_offset, kind) + self._suffix)
            return
        self.file.sync()
        self.file.modified_ms = self.modified_ms
        self._write(INDEX, write_offset_index(self.base_offset, self.offset_index.entries))
        self._write(TIME_INDEX, write_time_index(self.base_offset, self.time_index.entries))
        if aborted:
            self._write(TXN_INDEX, write_txn_index(aborted))
        else:
            self._directory.remove(file_name(self.base_offset, TXN_INDEX) + self._suffix)
        self._is_flushed = True

    def rename(self, suffix: str) -> None:
        """Gives its files another suffix."""
        there = {*self._directory.names()}
        for kind in SUFFIXES:
            name = file_name(self.base_offset, kind)
            if name + self._suffix in there:
                self._directory.rename(name + self._suffix, name + suffix)
        self._suffix = suffix

    def delete(self, *, delay_ms: int) -> None:
        """Removes its files. `is_deleted` tells it to code that reads the segment in steps."""
        self.is_deleted = True
        for kind in SUFFIXES:
            self._directory.remove(file_name(self.base_offset, kind) + self._suffix, delay_ms=delay_ms)

    def _remove_index_files(self) -> None:
        """Removes those that no longer are about what the segment has. `flush` writes others."""
        for kind in (INDEX, TIME_INDEX, TXN_INDEX):
            self._directory.remove(file_name(self.base_offset, kind) + self._suffix)

    def _write(self, kind: str, data: bytes) -> None:
        self._directory.write(file_name(self.base_offset, kind) + self._suffix, data)

    def _first_reaching(self, offset: int, position: int) -> Place | None:
        """The same among the batches from that position on, whose headers are read window by window."""
        end, file, unpack = self.file.size, self.file, _HEADER.unpack_from
        while position < end:
            window = file.read(position, _WINDOW_BYTES)
            at, last_header = 0, len(window) - _HEADER.size
            while at <= last_header:
                base_offset, length, delta, max_timestamp = unpack(window, at)
                if length < _LENGTH_MIN:
                    return None  # no batch
                if base_offset + delta >= offset:
                    return Place(position + at, length + _LENGTH_END, base_offset, base_offset + delta, max_timestamp)
                at += length + _LENGTH_END
            if not at:
                return None  # a torn batch
            position += at
        return None

    def _note(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        self._is_flushed = False
        if max_timestamp > self.largest_timestamp:
            self.largest_timestamp, self._last_of_largest = max_timestamp, last_offset
        if self._bytes_since_entry > self._index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.append(self.largest_timestamp, self._last_of_largest)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size
