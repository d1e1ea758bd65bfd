"""A bulk's rows in chunks that can be appended: lists that have been checked, or columns of bytes made from Arrow.

It sends nothing. A chunk whose rows cannot be sent raises before any of them is appended; of a list, before any of its chunks is.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator
from itertools import islice

from fencepost.producer.accumulator.named_partitioners import Chooser, chosen
from fencepost.producer.bulk.append import Columns, Target
from fencepost.producer.bulk.rows import Row, check_rows

SLICE_ROWS = 512
"""Rows for which the accumulator's lock is held."""

STEP_ROWS = 4_096
"""Rows that are looked at together, and after which other threads, or an event loop's other tasks, get their turn: about a millisecond."""


class Chunk:
    """Rows to append. `first_row`: the number of its first row in the bulk; `partition_max`: the highest partition named, -1 for none."""

    def __init__(self, content: list[object] | Columns, count: int, first_row: int, partition_max: int) -> None:
        self.content = content
        self.count = count
        self.partition_max = partition_max
        self._first_row = first_row
        self._place = 0

    @property
    def done(self) -> bool:
        return self._place >= self.count

    def choose(self, choose: Chooser, partitions: int, available: list[int]) -> None:
        """Fill in the partition of every row that names none."""
        if isinstance(self.content, Columns):
            self.content.partitions = chosen_partitions(self.content, choose, partitions, available)
        else:
            self.content = [with_partition(row, choose, partitions, available) for row in self.content]

    def step(self, target: Target, now_ms: int) -> bool | None:
        """Append some more rows. True if any were appended, None if the buffer has no room."""
        begun = self._place
        limit = min(self.count, begun + STEP_ROWS)
        while self._place < limit:
            end = min(limit, self._place + SLICE_ROWS)
            if isinstance(self.content, Columns):
                reached = int(target.append_columns(self.content, self._place, end, self._first_row, now_ms))
            else:
                reached = int(target.append_rows(self.content, self._place, end, self._first_row, now_ms))
            self._place = reached
            if reached < end:
                break
        return True if self._place > begun else None


def with_partition(row: object, choose: Chooser, partitions: int, available: list[int]) -> object:
    """The row as one that names its partition, or as it is where the sticky partition is wanted."""
    if isinstance(row, Row):
        placed = row
    elif isinstance(row, tuple):
        placed = Row(row[0], row[1], None, -1, -1)
    else:
        placed = Row(None, row if isinstance(row, bytes) else None, None, -1, -1)
    if placed.partition < 0:
        placed.partition = chosen(choose, placed.key, partitions, available)
    return placed


def chosen_partitions(columns: Columns, choose: Chooser, partitions: int, available: list[int]) -> bytes:
    """The partition column, filled in; -1 where the sticky partition is wanted."""
    column, given = columns.key, columns.partitions
    found = array("i")
    for row in range(columns.rows):
        place = int.from_bytes(given[row * 4 : row * 4 + 4], "little", signed=True) if given is not None else -1
        if place < 0:
            length = column.length(row) if column is not None else -1
            start = int.from_bytes(column.offsets[row * 4 : row * 4 + 4], "little") if column is not None else 0
            key = column.data[start : start + length] if column is not None and length >= 0 else None
            place = chosen(choose, key, partitions, available)
        found.append(place)
    if sys.byteorder != "little":
        found.byteswap()
    return found.tobytes()


def list_chunks(records: Iterable[object], *, whole: bool, largest: int, setting: str) -> Iterator[Chunk | None]:
    """Checked chunks of rows; `whole`: all are checked before the first one comes, with a None in between to let others have their turn.
    Raises TypeError, ValueError or RecordTooLarge with the number of the row."""
    first = 0
    chunks: list[Chunk] = []
    for rows in iter_lists(records, STEP_ROWS):
        if chunks:
            yield None
        chunk = Chunk(rows, len(rows), first, check_rows(rows, first, largest, setting))
        first += len(rows)
        if whole:
            chunks.append(chunk)
        else:
            yield chunk
    partition_max = max((chunk.partition_max for chunk in chunks), default=-1)
    chunks.reverse()
    while chunks:
        chunk = chunks.pop()
        chunk.partition_max = partition_max
        yield chunk


def iter_lists(rows: Iterable[object], size: int) -> Iterator[list[object]]:
    """Lists of so many rows, the last one shorter."""
    if isinstance(rows, (list, tuple)):
        first = 0
        while taken := list(rows[first : first + size]):
            yield taken
            first += size
        return
    source = iter(rows)
    while taken := list(islice(source, size)):
        yield taken
