"""The loop that appends a bulk's rows one by one.

It stops at the first row that finds no room, and returns its number. The rows have been checked before.
"""

from __future__ import annotations

from mypy_extensions import i64

from fencepost.producer.accumulator.accumulator import ROW_BYTES, Accumulator, TopicQueues
from fencepost.producer.bulk.bulk import BulkFuture
from fencepost.producer.bulk.rows import Row
from fencepost.producer.wire.records.sizes import BATCH_OVERHEAD, record_bound


class Target:
    """Where all rows of a bulk go. `partition`: for rows that name none; -1 lets the partitioner choose."""

    def __init__(self, accumulator: Accumulator, topic: TopicQueues, bulk: BulkFuture, partition: i64) -> None:
        self.accumulator = accumulator
        self.topic = topic
        self.bulk = bulk
        self.partition: i64 = partition

    def append_rows(self, rows: list[object], start: i64, end: i64, row_number: i64, now_ms: i64) -> i64:
        """Append rows[start:end] until one finds no room. Returns the place of the first row that was not appended. `rows` are as
        `check_rows` leaves them; `row_number` is the number of rows[0] in the bulk."""
        accumulator = self.accumulator
        try:
            with accumulator.shared.region:
                accumulator.bring_in()
                place: i64 = self._append_rows(rows, start, end, row_number, now_ms)
            accumulator.wake_if_due()
        except BaseException:
            accumulator.wake_if_due()  # Ctrl-C may have struck before the other call.
            raise
        return place

    def _append_rows(self, rows: list[object], start: i64, end: i64, row_number: i64, now_ms: i64) -> i64:
        """`append_rows`, in the region. A function of its own: where a loop inside `with` jumps back, CPython 3.12 to 3.14 may run a signal
        handler outside the block, and what it raises would leave the lock taken."""
        accumulator = self.accumulator
        place: i64 = start
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
            need = record_bound(key, value, headers)
            if not accumulator.room_for(need):
                break
            if partition >= 0:
                queue = self.topic.queues[partition]
            else:
                queue = self.topic.queue_for(key, self.topic.partitions)
            batch = accumulator.begin_record(queue, need)
            part = self.bulk._part_of(batch)
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
            # The row is in the batch. Only the last statement that counts it is a call: uncompiled, Ctrl-C can strike at each call.
            size: i64 = batch.size - begun
            batch.kept += ROW_BYTES
            accumulator.used += overhead + size + ROW_BYTES
            queue.queued_bytes += overhead + size
            self.bulk.accepted += 1
            place += 1
            if partition < 0 and key is None and self.topic.rotation is None:
                self.topic.sticky.spend(size)
        return place
