"""A chunk of Arrow columns, and how it is appended: in steps. Each step is planned without reading values, copied by Arrow, and committed.

Arrow releases the GIL while it copies, and no Python code runs for each row. Some rows become objects instead, which are appended one by
one (`producer.bulk.append`): rows with headers, rows of a producer with round-robin or the caller's partitioner, and rows of a chunk that
is too small for a plan to pay.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from functools import cache
from itertools import repeat
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.producer.accumulator.named_partitioners import Chooser
from fencepost.producer.bulk.append import Target
from fencepost.producer.bulk.arrow_plan import Plan, commit, known_pieces, make_plan, step_end
from fencepost.producer.bulk.chunks import Chunk
from fencepost.producer.bulk.columns import Columns
from fencepost.producer.bulk.rows import Row

STEP_ROWS: Final = 10_240
"""Rows of a step: about a millisecond. Then other threads, or an event loop's other tasks, run."""

STEP_BYTES: Final = 2 << 20
"""Bytes of keys and values in a step. They are in memory twice while they are copied."""

TURN_TIMEOUT_S: Final = 0.1
PLANNED_ROWS_MIN: Final = 256
PLANNED_ROWS_PER_PARTITION_MIN: Final = 32
"""Chunks of fewer rows are appended one by one."""

PICK_BYTES: Final = 4
PADDING: Final = bytes(8)
UNCHECKED: Final = pc.TakeOptions(boundscheck=False)
COPIES: Final = pa.system_memory_pool()
"""The pool for copies that live for one step. Arrow's default pool is no faster, and keeps a third of a small buffer's size of memory."""


class ArrowChunk(Chunk):
    """See the module. `keys` and `values` are the columns as binary arrays. `columns` does not hold the bytes of the values."""

    def __init__(self, columns: Columns, first_row: int, partition_max: int, *, keys: Any, values: Any) -> None:
        super().__init__([], int(columns.rows), first_row, partition_max)
        self._columns = columns
        self._keys = keys
        self._values = values

    def choose(self, choose: Chooser, partitions: int, available: list[int]) -> None:
        """Choose the partition of every row that names none."""
        self._become_rows()
        super().choose(choose, partitions, available)

    def step(self, target: Target, now_ms: int) -> bool | None:
        """Append some more rows. True if any were appended, None if the buffer has no room."""
        if not self._can_be_planned(target):
            self._become_rows()
            return super().step(target, now_ms)
        # Plans run one at a time, because concurrent plans invalidate each other. A caller stops waiting after TURN_TIMEOUT_S: a signal
        # handler may have interrupted another step of its own thread.
        planning = target.accumulator.shared.planning
        held = planning.acquire(timeout=TURN_TIMEOUT_S)
        try:
            # One record that another thread appends meanwhile invalidates the first plan. The second plan begins new batches, so it needs
            # only room.
            outcome = self._attempt(target, now_ms, fresh=False)
            if outcome is False:
                outcome = self._attempt(target, now_ms, fresh=True)
            return outcome or None
        finally:
            if held:
                planning.release()

    def _attempt(self, target: Target, now_ms: int, *, fresh: bool) -> bool | None:
        """Plan, copy, commit. False if the plan no longer fits, None if not even one row finds room."""
        begun = self._place
        limit = min(STEP_BYTES, int(target.accumulator.room()))
        end = int(step_end(self._columns, begun, min(self.count, begun + STEP_ROWS), limit))
        plan = make_plan(target, self._columns, begun, end, self._first_row, now_ms, fresh=fresh)
        if plan.reached == begun:
            return None
        if not commit(target, plan, self._woven(plan, begun, end)):
            return False
        self._place = int(plan.reached)
        return True

    def _can_be_planned(self, target: Target) -> bool:
        rows_min = max(PLANNED_ROWS_MIN, PLANNED_ROWS_PER_PARTITION_MIN * len(target.topic.queues))
        return not self.rows and self._columns.headers is None and target.topic.rotation is None and self.count >= rows_min

    def _woven(self, plan: Plan, start: int, end: int) -> list[bytes | memoryview]:
        """The records of each of the plan's batches."""
        leads, offsets = plan.lead_columns()
        columns = [without_nulls(each.slice(start, end - start)) for each in (self._keys, self._values) if each is not None]
        pieces = woven([known(), *columns, binary(int(plan.pieces), offsets, leads)], plan.picks)
        # Copied for each batch: otherwise a batch that waits for its leader would keep the bytes of all. Batches of one partition wait for
        # each other anyway.
        return [*pieces] if plan.partitions == 1 else [bytes(each) for each in pieces]

    def _become_rows(self) -> None:
        """Make an object of each row, to append one by one."""
        if self.rows:
            return
        columns = self._columns
        keys = self._keys.to_pylist() if self._keys is not None else repeat(None)
        headers = columns.headers if columns.headers is not None else repeat(None)
        timestamps = numbers_of("q", columns.timestamps, self.count)
        partitions = numbers_of("i", columns.partitions, self.count)
        values = self._values.to_pylist()
        self.rows = [*map(Row, keys, values, headers, timestamps, partitions)]


def numbers_of(kind: str, column: bytes | None, count: int) -> Iterable[int]:
    """The numbers of a column; -1 for each row if there is no column."""
    if column is None:
        return repeat(-1, count)
    found = array(kind)
    found.frombytes(column[: count * found.itemsize])
    if sys.byteorder != "little":
        found.byteswap()
    return found


def woven(columns: list[Any], picks: list[bytes]) -> list[memoryview]:
    """For each batch, the picked items of `columns` end to end, without the first byte. One `take` for all batches is cheaper than one for
    each."""
    numbers = b"".join(picks)
    places = pa.Array.from_buffers(pa.int32(), len(numbers) // PICK_BYTES, [None, pa.py_buffer(numbers)])
    whole_columns = pa.concat_arrays(columns, memory_pool=COPIES)
    _, offsets, data = pc.call_function("take", [whole_columns, places], UNCHECKED, memory_pool=COPIES).buffers()
    del whole_columns  # before the pieces are copied once more
    ends, whole = memoryview(offsets).cast("i"), memoryview(data)
    pieces: list[memoryview] = []
    begin = place = 0
    for each in picks:
        place += len(each) // PICK_BYTES
        end = ends[place]
        pieces.append(whole[begin + 1 : end])
        begin = end
    return pieces


def binary(count: int, offsets: Any, data: Any) -> Any:
    """An array of `count` byte strings without nulls. The buffers are Arrow's or bytes."""
    buffers = [None, *(pa.py_buffer(each) if isinstance(each, bytes) else each for each in (offsets, data))]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def without_nulls(column: Any) -> Any:
    """The binary array without its null bitmap: a null becomes the bytes at its place."""
    _, offsets, data = column.buffers()
    if not len(column):
        return pa.array([], pa.binary())
    return pa.Array.from_buffers(pa.binary(), len(column), [None, offsets, data or pa.py_buffer(b"")], offset=column.offset)


def content(column: Any) -> bytes:
    """The bytes of a binary array, end to end, and eight more of any value."""
    if not len(column):
        return PADDING
    _, offsets, data = column.buffers()
    if data is None:
        return PADDING
    ends = memoryview(offsets)[column.offset * 4 : (column.offset + len(column) + 1) * 4]
    begin, end = int.from_bytes(ends[:4], "little"), int.from_bytes(ends[-4:], "little")
    # Copied once: a second copy of a large block costs many times the first, because the memory of both goes back to the system.
    return b"".join((memoryview(data)[begin:end], PADDING))


@cache
def known() -> Any:
    """The items that stand before a step's keys, values and leads."""
    return pa.array(known_pieces(), pa.binary())
