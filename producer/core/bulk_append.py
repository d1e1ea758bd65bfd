"""The two loops that append a bulk: over a list of rows, and over columns of bytes that are never made into an object for each row.

They stop at the first row that finds no room and say which. What they are given has been checked.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_le, read_i64_le
from mypy_extensions import i64

from producer.core.accumulator import BATCH_OVERHEAD, RECORD_OVERHEAD_MAX, Accumulator, PartitionQueue, TopicQueues, headers_bound
from producer.core.batch import Batch, Headers
from producer.core.bulk import BulkFuture, Part
from producer.core.partition import murmur2_range
from producer.core.rows import Row

NOTHING: Final = b""


class Column:
    """Byte strings end to end. `data` is followed by eight bytes that do not matter; `offsets` holds 32 bit little-endian numbers, one more
    than rows, `valid` one byte a row, not 0 where there is a value; None: nowhere null."""

    def __init__(self, data: bytes, offsets: bytes, valid: bytes | None) -> None:
        self.data = data
        self.offsets = offsets
        self.valid = valid

    def length(self, row: i64) -> i64:
        """Bytes of the row's value, -1 for null."""
        if self.valid is not None and self.valid[row] == 0:
            return -1
        return i64(read_i32_le(self.offsets, row * 4 + 4)) - i64(read_i32_le(self.offsets, row * 4))


class Columns:
    """Rows as columns. `partitions` (32 bit) and `timestamps` (64 bit, ms) are little-endian, -1 where there is none."""

    def __init__(
        self,
        rows: i64,
        value: Column | None,
        key: Column | None,
        partitions: bytes | None,
        timestamps: bytes | None,
        headers: list[Headers | None] | None,
    ) -> None:
        self.rows: i64 = rows
        self.value = value
        self.key = key
        self.partitions = partitions
        self.timestamps = timestamps
        self.headers = headers


class Target:
    """Where a bulk's rows go: what does not change from one slice to the next. `partition`: -1 lets the partitioner choose."""

    def __init__(self, accumulator: Accumulator, topic: TopicQueues, bulk: BulkFuture, partition: i64) -> None:
        self.accumulator = accumulator
        self.topic = topic
        self.bulk = bulk
        self.partition: i64 = partition

    def append_rows(self, rows: list[object], start: i64, end: i64, row_number: i64, now_ms: i64) -> i64:
        """Append rows[start:end] until one finds no room; returns the place of the first that was not appended. A row is as
        `check_rows` leaves it; `row_number` is the number of rows[0] in the bulk."""
        accumulator = self.accumulator
        place: i64 = start
        with accumulator.shared.lock:
            while place < end:
                given = rows[place]
                key: bytes | None = None
                headers: Headers | None = None
                timestamp: i64 = now_ms
                partition: i64 = self.partition
                value: bytes | None = None
                if isinstance(given, bytes):
                    value = given
                elif isinstance(given, tuple):
                    key, value = given[0], given[1]
                elif isinstance(given, Row):
                    key, value, headers = given.key, given.value, given.headers
                    if given.timestamp >= 0:
                        timestamp = given.timestamp
                    if given.partition >= 0:
                        partition = given.partition
                need: i64 = RECORD_OVERHEAD_MAX + BATCH_OVERHEAD
                if key is not None:
                    need += len(key)
                if value is not None:
                    need += len(value)
                if headers is not None:
                    need += headers_bound(headers)
                if not accumulator.room_for(need):
                    break
                if partition >= 0:
                    queue = self.topic.queues[partition]
                else:
                    queue = self.topic.queue_for(key, self.topic.partitions)
                batch = accumulator.open_batch(queue, need)
                before: i64 = batch.size
                self._note(batch, row_number + place)
                batch.refill(timestamp, key, value, headers)
                self._count(queue, batch, batch.size - before, partition < 0 and key is None)
                place += 1
            wake = accumulator.must_wake()
        if wake:
            accumulator.shared.rouse()
        return place

    def append_columns(self, columns: Columns, start: i64, end: i64, row_number: i64, now_ms: i64) -> i64:
        """The same for rows start to end of the columns."""
        accumulator = self.accumulator
        topic = self.topic
        key_column, value_column = columns.key, columns.value
        partitions, timestamps, all_headers = columns.partitions, columns.timestamps, columns.headers
        keys = key_column.data if key_column is not None else NOTHING
        values = value_column.data if value_column is not None else NOTHING
        place: i64 = start
        with accumulator.shared.lock:
            while place < end:
                key_start: i64 = 0
                key_length: i64 = -1
                value_start: i64 = 0
                value_length: i64 = -1
                if key_column is not None:
                    key_length = key_column.length(place)
                    key_start = i64(read_i32_le(key_column.offsets, place * 4))
                if value_column is not None:
                    value_length = value_column.length(place)
                    value_start = i64(read_i32_le(value_column.offsets, place * 4))
                need: i64 = RECORD_OVERHEAD_MAX + BATCH_OVERHEAD
                if key_length > 0:
                    need += key_length
                if value_length > 0:
                    need += value_length
                headers: Headers | None = None
                if all_headers is not None:
                    headers = all_headers[place]
                    if headers is not None:
                        need += headers_bound(headers)
                if not accumulator.room_for(need):
                    break
                timestamp: i64 = now_ms
                if timestamps is not None:
                    given_ms: i64 = read_i64_le(timestamps, place * 8)
                    if given_ms >= 0:
                        timestamp = given_ms
                partition: i64 = self.partition
                if partitions is not None:
                    chosen: i64 = i64(read_i32_le(partitions, place * 4))
                    if chosen >= 0:
                        partition = chosen
                if partition >= 0:
                    queue = topic.queues[partition]
                elif key_length >= 0 and topic.rotation is None:
                    queue = topic.queues[(murmur2_range(keys, key_start, key_length) & 0x7FFFFFFF) % topic.partitions]
                else:
                    queue = topic.queue_for(None, topic.partitions)
                batch = accumulator.open_batch(queue, need)
                before: i64 = batch.size
                self._note(batch, row_number + place)
                batch.refill_range(timestamp, keys, key_start, key_length, values, value_start, value_length, headers)
                self._count(queue, batch, batch.size - before, partition < 0 and key_length < 0)
                place += 1
            wake = accumulator.must_wake()
        if wake:
            accumulator.shared.rouse()
        return place

    def _note(self, batch: Batch, row: i64) -> None:
        newest = batch.newest_follower
        if isinstance(newest, Part) and newest.bulk is self.bulk:
            newest.add(batch.count, row)
        else:
            self.bulk.begin_part(batch).add(batch.count, row)

    def _count(self, queue: PartitionQueue, batch: Batch, size: i64, keyless: bool) -> None:
        self.accumulator.grown(queue, batch, size, 1)
        self.bulk.accepted += 1
        if keyless and self.topic.rotation is None:
            self.topic.sticky.spend(size)
