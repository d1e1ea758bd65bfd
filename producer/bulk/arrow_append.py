"""A chunk of Arrow columns as it is appended: in steps, each planned without touching keys and values, put together by Arrow, committed.

Arrow copies with the interpreter's lock given away, and nothing interpreted is done for each row. Other rows become objects, which are
appended one by one (`producer.bulk.append`): those with headers, those of a producer that rotates or has the caller's partitioner, and
those of a chunk too small for a plan to pay.
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
"""Rows after which other threads, or an event loop's other tasks, get their turn: about a millisecond."""

STEP_BYTES: Final = 2 << 20
"""Bytes of keys and values in a step: what is held twice while they are copied."""

TURN_TIMEOUT_S: Final = 0.1
PLANNED_ROWS_MIN: Final = 256
PLANNED_ROWS_PER_PARTITION_MIN: Final = 32
"""Chunks of fewer rows are appended one by one."""

PICK_BYTES: Final = 4
PADDING: Final = bytes(8)
UNCHECKED: Final = pc.TakeOptions(boundscheck=False)
COPIES: Final = pa.system_memory_pool()
"""Where the copies that live for a step are made. Arrow's default keeps a third of a small buffer's size of them, for no less time."""


class ArrowChunk(Chunk):
    """See the module. `keys` and `values` are the columns as binary arrays; `columns` has no bytes of the values."""

    def __init__(self, columns: Columns, first_row: int, partition_max: int, *, keys: Any, values: Any) -> None:
        super().__init__([], int(columns.rows), first_row, partition_max)
        self._columns = columns
        self._keys = keys
        self._values = values

    def choose(self, choose: Chooser, partitions: int, available: list[int]) -> None:
        """Fill in the partition of every row that names none."""
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
            # A single record appended meanwhile spoils the first attempt. The second asks for nothing but room.
            for fresh in (False, True):
                if (outcome := self._attempt(target, now_ms, fresh=fresh)) is not False:
                    return outcome
            return None
        finally:
            if held:
                planning.release()

    def _attempt(self, target: Target, now_ms: int, *, fresh: bool) -> bool | None:
        """Plan, copy, commit. False where the plan was spoilt, None where nothing finds room."""
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
        # Left in one piece, a batch that waits for its leader would keep the others' bytes; those of one partition wait for one another.
        return [*pieces] if plan.partitions == 1 else [bytes(each) for each in pieces]

    def _become_rows(self) -> None:
        """Make the rows objects that are appended one by one."""
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
    """The numbers of a column, -1 for each row where there is none."""
    if column is None:
        return repeat(-1, count)
    found = array(kind)
    found.frombytes(column[: count * found.itemsize])
    if sys.byteorder != "little":
        found.byteswap()
    return found


def woven(columns: list[Any], picks: list[bytes]) -> list[memoryview]:
    """What is picked for each batch of the columns, one after the other, end to end, but for its first byte; taken at once, which is
    cheaper than batch by batch."""
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
    """So many byte strings without a null among them, of buffers that Arrow has or that are bytes."""
    buffers = [None, *(pa.py_buffer(each) if isinstance(each, bytes) else each for each in (offsets, data))]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


def without_nulls(column: Any) -> Any:
    """A binary array with whatever lies where its nulls are."""
    _, offsets, data = column.buffers()
    if not len(column):
        return pa.array([], pa.binary())
    return pa.Array.from_buffers(pa.binary(), len(column), [None, offsets, data or pa.py_buffer(b"")], offset=column.offset)


def content(column: Any) -> bytes:
    """The bytes of a binary array, end to end, and eight that do not matter."""
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
    """What is picked from before a step's keys, values and leads."""
    return pa.array(known_pieces(), pa.binary())
