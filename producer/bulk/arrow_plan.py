"""The plan of a step of a bulk's columns: the batch and the place of each row, and the bytes that stand between keys and values.

A plan copies no key and no value. The `picks` of a `Draft` are numbers: they say in which order the keys, the values and the bytes between
them stand in a batch, so that `ArrowChunk` copies all in one go. A plan is made from a snapshot of the open batches, without the lock.
`commit` takes it if these batches have not changed. Plans cannot do headers and round-robin: `Target.append_rows` appends such rows.

Compiled by mypyc.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i32, i64

from fencepost.producer.accumulator.accumulator import ROW_BYTES, PartitionQueue
from fencepost.producer.accumulator.batch import Batch
from fencepost.producer.accumulator.partitioner import murmur2
from fencepost.producer.bulk.append import Target
from fencepost.producer.bulk.columns import Columns
from fencepost.producer.errors import again
from fencepost.producer.foundations.runtime import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_le
from fencepost.producer.wire.records.batch_header import NO_TIMESTAMP
from fencepost.producer.wire.records.record_prefix import write_prefix
from fencepost.producer.wire.records.sizes import BATCH_OVERHEAD, RECORD_OVERHEAD_MAX
from fencepost.producer.wire.schema.varint import encode_signed, write_signed

EMPTY: Final[i64] = 0
TAIL: Final[i64] = 1
NULL: Final[i64] = 2
LENGTHS: Final[i64] = 3
LENGTHS_KNOWN: Final[i64] = 8192
"""The numbers of the items to pick: no bytes; a record's count of headers, which is 0; the length of a null; LENGTHS_KNOWN lengths from 0
on. After these come the step's keys, its values, and the plan's leads."""

NOTHING: Final = b""


def known_pieces() -> list[bytes]:
    """The items before keys, values and leads."""
    return [b"", b"\x00", encode_signed(-1), *[encode_signed(length) for length in range(int(LENGTHS_KNOWN))]]


class Draft:
    """Rows for one batch. `batch`: the open batch, None for a new one. `begun`: the number of records that it has already. `queued`: the
    partition's queued bytes, as the sticky partitioner counts them."""

    def __init__(self, queue: PartitionQueue, batch: Batch | None) -> None:
        self.queue = queue
        self.queued: i64 = queue.queued_bytes
        self.batch = batch
        self.begun: i64 = 0
        self.count: i64 = 0
        self.size: i64 = BATCH_OVERHEAD
        self.base_timestamp: i64 = NO_TIMESTAMP
        self.max_timestamp: i64 = NO_TIMESTAMP
        self.picks = BytesWriter()
        self.pairs = BytesWriter()
        if batch is not None and batch.builder is not None:
            self.begun = self.count = batch.count
            self.size = batch.size
            self.base_timestamp = batch.builder.base_timestamp
            self.max_timestamp = batch.builder.max_timestamp


class Plan:
    """The result of `make_plan`. `reached`: the first row that is not in it. `leads` holds `pieces` leads of records, end to end."""

    def __init__(self, target: Target, room: i64, *, fresh: bool) -> None:
        self.made: list[Draft] = []
        self.reached: i64 = 0
        self.pieces: i64 = 0
        self.leads = BytesWriter()
        self.lead_offsets = BytesWriter()
        self.room: i64 = room
        self.sticky = target.topic.sticky.copy()
        self.keyless = False
        self.drafts = [Draft(queue, None if fresh else queue.open) for queue in target.topic.queues]

    @property
    def partitions(self) -> int:
        """The number of partitions that get a row."""
        return len({draft.queue for draft in self.made})

    @property
    def picks(self) -> list[bytes]:
        """For each batch the numbers of its items, 32 bits each."""
        return [draft.picks.getvalue() for draft in self.made]

    def lead_columns(self) -> tuple[bytes, bytes]:
        """The leads, and the offsets at which they begin, 32 bits each, and the end."""
        write_i32_le(self.lead_offsets, i32(len(self.leads)))
        return self.leads.getvalue(), self.lead_offsets.getvalue()


def make_plan(target: Target, columns: Columns, start: i64, end: i64, row_number: i64, now_ms: i64, *, fresh: bool) -> Plan:
    """Plan rows start to end, as many as the budget has room for. `fresh`: begin new batches only. `row_number`: the number of the columns'
    first row."""
    accumulator = target.accumulator
    topic = target.topic
    with accumulator.shared.region:
        accumulator.bring_in()
        if accumulator.refusal is not None:
            raise again(accumulator.refusal)
        plan = Plan(target, accumulator.room(), fresh=fresh)
    drafts, sticky = plan.drafts, plan.sticky
    leads, lead_offsets = plan.leads, plan.lead_offsets
    key_column, value_column = columns.key, columns.value
    keys = key_column.data if key_column is not None else NOTHING
    timestamps, partitions = columns.timestamps, columns.partitions
    count: i64 = topic.partitions
    batch_size: i64 = accumulator.batch_size
    room: i64 = plan.room
    key_at: i64 = LENGTHS + LENGTHS_KNOWN - start
    value_at: i64 = key_at
    if key_column is not None:
        value_at += end - start
    lead_at: i64 = value_at + end
    key_ends, key_valid = (key_column.offsets, key_column.valid) if key_column is not None else (NOTHING, None)
    value_ends, value_valid = (value_column.offsets, value_column.valid) if value_column is not None else (NOTHING, None)
    key_end: i64 = 0
    if key_column is not None:
        key_end = i64(read_i32_le(key_ends, start * 4))
    value_end: i64 = 0
    if value_column is not None:
        value_end = i64(read_i32_le(value_ends, start * 4))
    row: i64 = start
    while row < end:
        key_start: i64 = key_end
        key_length: i64 = -1
        value_length: i64 = -1
        content: i64 = 0
        if key_column is not None:
            key_end = i64(read_i32_le(key_ends, row * 4 + 4))
            if key_valid is None or key_valid[row] != 0:
                key_length = key_end - key_start
                content = key_length
        if value_column is not None:
            value_start: i64 = value_end
            value_end = i64(read_i32_le(value_ends, row * 4 + 4))
            if value_valid is None or value_valid[row] != 0:
                value_length = value_end - value_start
                content += value_length
        partition: i64 = target.partition
        if partitions is not None:
            chosen: i64 = i64(read_i32_le(partitions, row * 4))
            if chosen >= 0:
                partition = chosen
        keyless: bool = False
        if partition < 0:
            if key_length >= 0:
                # `partition_for_range`, without one call more for each row.
                partition = (murmur2(keys, key_start, key_length) & 0x7FFFFFFF) % count
            else:
                keyless = True
                partition = sticky.current
                if partition < 0 or partition >= count:
                    partition = sticky.choose(topic.available, int(count), [int(draft.queued) for draft in drafts[:count]])
        draft = drafts[partition]
        need: i64 = content + RECORD_OVERHEAD_MAX
        closing: bool = draft.count > 0 and draft.size + need > batch_size
        if room < need + BATCH_OVERHEAD:
            if row == start:
                accumulator.keep_room(need + BATCH_OVERHEAD)
            break
        if closing:
            full = draft
            draft = drafts[partition] = Draft(full.queue, None)
            draft.queued = full.queued
        if draft.count == draft.begun:
            plan.made.append(draft)
            if draft.batch is None:
                room -= BATCH_OVERHEAD
        timestamp: i64 = now_ms
        if timestamps is not None:
            given_ms: i64 = read_i64_le(timestamps, row * 8)
            if given_ms >= 0:
                timestamp = given_ms
        if draft.count == 0:
            draft.base_timestamp = timestamp
        if timestamp > draft.max_timestamp:
            draft.max_timestamp = timestamp
        write_i32_le(lead_offsets, i32(len(leads)))
        # A lead is the count of headers of the record before, which is 0, and the prefix of this one.
        leads.append(0)
        size = write_prefix(leads, draft.count, timestamp - draft.base_timestamp, key_length, value_length, 1)
        picks = draft.picks
        value_pick: i64 = EMPTY
        if value_length > 0:
            value_pick = value_at + row
        if key_length > 0:
            write_i64_le(picks, (lead_at + plan.pieces) | (key_at + row) << 32)
            plan.pieces += 1
            if value_length < 0:
                write_i64_le(picks, NULL | value_pick << 32)
            elif value_length < LENGTHS_KNOWN:
                write_i64_le(picks, (LENGTHS + value_length) | value_pick << 32)
            else:
                write_i32_le(lead_offsets, i32(len(leads)))
                write_signed(leads, value_length)
                write_i64_le(picks, (lead_at + plan.pieces) | value_pick << 32)
                plan.pieces += 1
        else:
            # No key bytes stand between the two lengths, so the length of the value is part of the lead.
            write_signed(leads, value_length)
            write_i64_le(picks, (lead_at + plan.pieces) | value_pick << 32)
            plan.pieces += 1
        write_i64_le(draft.pairs, draft.count << 32 | row_number + row)
        draft.count += 1
        draft.size += size
        room -= size + ROW_BYTES
        if keyless:
            plan.keyless = True
            sticky.spend(size)
            draft.queued += size
        row += 1
    plan.reached = row
    for draft in plan.made:
        write_i32_le(draft.picks, i32(TAIL))
    return plan


def step_end(columns: Columns, start: i64, end: i64, bytes_max: i64) -> i64:
    """The end of a step from `start` to at most `end`, so that its keys and values take at most `bytes_max`. It has at least one row."""
    low: i64 = start + 1
    high: i64 = end
    if low > high:
        return end
    while low < high:
        middle: i64 = (low + high + 1) >> 1
        size: i64 = 0
        for column in (columns.key, columns.value):
            if column is not None:
                size += i64(read_i32_le(column.offsets, middle * 4)) - i64(read_i32_le(column.offsets, start * 4))
        if size <= bytes_max:
            low = middle
        else:
            high = middle - 1
    return low


def largest_row(columns: Columns) -> tuple[int, int]:
    """The bytes of key, value and headers of the largest row, and its number; 0 and the first row if all are empty."""
    key, value, all_headers = columns.key, columns.value, columns.headers
    key_ends, key_valid = (key.offsets, key.valid) if key is not None else (NOTHING, None)
    value_ends, value_valid = (value.offsets, value.valid) if value is not None else (NOTHING, None)
    key_end: i64 = 0
    most: i64 = 0
    place: i64 = 0
    row: i64 = 0
    end: i64 = columns.rows
    while row < end:
        size: i64 = 0
        if key is not None:
            size = -key_end
            key_end = i64(read_i32_le(key_ends, row * 4 + 4))
            size += key_end
            if key_valid is not None and key_valid[row] == 0:
                size = 0
        if value is not None and (value_valid is None or value_valid[row] != 0):
            size += i64(read_i32_le(value_ends, row * 4 + 4)) - i64(read_i32_le(value_ends, row * 4))
        if all_headers is not None:
            headers = all_headers[row]
            if headers is not None:
                size += len(headers)
        if size > most:
            most = size
            place = row
        row += 1
    return int(most), int(place)


def commit(target: Target, plan: Plan, blocks: list[bytes | memoryview]) -> bool:
    """Append all rows of the plan. Returns False and appends none if the plan no longer fits the open batches or the budget. `blocks`: the
    records of each batch in the order of its picks, without the first byte, which belongs to the record before."""
    # All that can be interrupted comes first.
    batches = [draft.batch if draft.batch is not None else target.accumulator.new_batch(draft.queue) for draft in plan.made]
    pairs = [draft.pairs.getvalue() for draft in plan.made]
    try:
        committed = _commit(target, plan, blocks, batches, pairs)
        target.accumulator.wake_if_due()
    except BaseException:
        target.accumulator.wake_if_due()  # Ctrl-C may have struck before the other call.
        raise
    return committed


def _commit(target: Target, plan: Plan, blocks: list[bytes | memoryview], batches: list[Batch], pairs: list[bytes]) -> bool:
    with target.accumulator.shared.region:
        return _commit_held(target, plan, blocks, batches, pairs)


def _commit_held(target: Target, plan: Plan, blocks: list[bytes | memoryview], batches: list[Batch], pairs: list[bytes]) -> bool:
    """The caller is in the region. A function of its own, as `Target._append_rows`."""
    accumulator = target.accumulator
    if accumulator.refusal is not None:
        raise again(accumulator.refusal)
    total: i64 = -ROW_BYTES  # A row that fits the budget is not kept out by its ROW_BYTES.
    for place, draft in enumerate(plan.made):
        batch = batches[place]
        total += draft.size - batch.size + (draft.count - draft.begun) * ROW_BYTES
        if draft.batch is None:
            total += BATCH_OVERHEAD
        elif draft.queue.open is not batch or batch.count != draft.begun:
            return False
    if total > accumulator.room():
        return False
    for place, draft in enumerate(plan.made):
        batch = batches[place]
        queue = draft.queue
        added: i64 = draft.count - draft.begun
        part = target.bulk._part_of(batch)
        noted: i64 = part.count
        size: i64 = batch.size
        try:
            part.extend(pairs[place], added)
            batch.extend(blocks[place], added, draft.size, draft.base_timestamp, draft.max_timestamp)
            if draft.batch is None:
                accumulator.line_up(queue, batch)
                size = 0
        except BaseException:
            part.take_back(noted)
            raise
        # The rows are in the batch. They are counted without calls: uncompiled, Ctrl-C can strike at each.
        size = batch.size - size
        batch.kept += added * ROW_BYTES
        accumulator.used += size + added * ROW_BYTES
        queue.queued_bytes += size
        target.bulk.accepted += added
    if plan.keyless:
        target.topic.sticky.follow(plan.sticky)
    return True
