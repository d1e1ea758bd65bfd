"""The two loops that append a bulk: over a list of rows, and over columns of bytes that are never made into an object for each row.

They stop at the first row that finds no room and say which. What they are given has been checked.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_le, read_i64_le
from mypy_extensions import i64

from fencepost.producer.accumulator.accumulator import BATCH_OVERHEAD, RECORD_OVERHEAD_MAX, ROW_BYTES, Accumulator, TopicQueues
from fencepost.producer.accumulator.partitioner import murmur2_range
from fencepost.producer.bulk.bulk import BulkFuture
from fencepost.producer.bulk.rows import Row

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
    """Rows as columns. `partitions` (32 bit) and `timestamps` (64 bit, ms) are little-endian, -1 where there is none; `headers` are
    packed."""

    def __init__(
        self,
        rows: i64,
        value: Column | None,
        key: Column | None,
        partitions: bytes | None,
        timestamps: bytes | None,
        headers: list[bytes | None] | None,
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
        try:
            with accumulator.shared.region:
                accumulator.bring_in()
                while place < end:
                    given = rows[place]
                    key: bytes | None = None
                    headers: bytes | None = None
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
                        need += len(headers)
                    if not accumulator.room_for(need):
                        break
                    if partition >= 0:
                        queue = self.topic.queues[partition]
                    else:
                        queue = self.topic.queue_for(key, self.topic.partitions)
                    batch = accumulator.batch_for(queue, need)
                    part = self.bulk.part_of(batch)
                    noted: i64 = part.count
                    begun: i64 = batch.size
                    overhead: i64 = 0
                    try:
                        part.add(batch.count, row_number + place)
                        batch.refill(timestamp, key, value, headers)
                        if queue.open is not batch:
                            accumulator.line_up(queue, batch)
                            overhead = BATCH_OVERHEAD
                    except BaseException:
                        part.take_back(noted)
                        raise
                    # The row is in. From here on it is counted without a call but the last: uncompiled, Ctrl-C can strike at any.
                    size: i64 = batch.size - begun
                    batch.kept += ROW_BYTES
                    accumulator.used += overhead + size + ROW_BYTES
                    queue.queued_bytes += overhead + size
                    self.bulk.accepted += 1
                    place += 1
                    if partition < 0 and key is None and self.topic.rotation is None:
                        self.topic.sticky.spend(size)
            accumulator.wake_if_due()
        except BaseException:
            accumulator.wake_if_due()  # Also where Ctrl-C struck on the way there.
            raise
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
        try:
            with accumulator.shared.region:
                accumulator.bring_in()
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
                    headers: bytes | None = None
                    if all_headers is not None:
                        headers = all_headers[place]
                        if headers is not None:
                            need += len(headers)
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
                    batch = accumulator.batch_for(queue, need)
                    part = self.bulk.part_of(batch)
                    noted: i64 = part.count
                    begun: i64 = batch.size
                    overhead: i64 = 0
                    try:
                        part.add(batch.count, row_number + place)
                        batch.refill_range(timestamp, keys, key_start, key_length, values, value_start, value_length, headers)
                        if queue.open is not batch:
                            accumulator.line_up(queue, batch)
                            overhead = BATCH_OVERHEAD
                    except BaseException:
                        part.take_back(noted)
                        raise
                    size: i64 = batch.size - begun
                    batch.kept += ROW_BYTES
                    accumulator.used += overhead + size + ROW_BYTES
                    queue.queued_bytes += overhead + size
                    self.bulk.accepted += 1
                    place += 1
                    if partition < 0 and key_length < 0 and topic.rotation is None:
                        topic.sticky.spend(size)
            accumulator.wake_if_due()
        except BaseException:
            accumulator.wake_if_due()  # Also where Ctrl-C struck on the way there.
            raise
        return place
