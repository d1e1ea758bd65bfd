"""A bulk's rows in chunks that can be appended.

A chunk sends nothing. If a row cannot be sent, the error is raised before any row of its chunk is appended. For a list, it is raised before
any row of the list is appended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from fencepost.producer.accumulator.accumulator import ROW_BYTES
from fencepost.producer.accumulator.named_partitioners import Chooser, chosen
from fencepost.producer.bulk.append import Target
from fencepost.producer.bulk.rows import Row, check_rows
from fencepost.producer.wire.records.sizes import record_bound

SLICE_ROWS = 512
"""Rows that are appended under the accumulator's lock at once."""

STEP_ROWS = 4_096
"""Rows that are checked together, and appended in one step: about a millisecond. Then other threads or other tasks of the loop run."""


class Chunk:
    """Rows to append. `first_row`: the number of the first row in the bulk. `partition_max`: the highest partition named, -1 for none."""

    def __init__(self, rows: list[object], count: int, first_row: int, partition_max: int) -> None:
        self.rows = rows
        self.count = count
        self.partition_max = partition_max
        self._first_row = first_row
        self._place = 0

    @property
    def done(self) -> bool:
        return self._place >= self.count

    @property
    def most_bytes(self) -> int:
        """The most bytes of the buffer that the rows take."""
        return sum(map(_most_bytes, self.rows))

    def choose(self, choose: Chooser, partitions: int, available: list[int]) -> None:
        """Choose the partition of every row that names none."""
        self.rows = [with_partition(row, choose, partitions, available) for row in self.rows]

    def step(self, target: Target, now_ms: int) -> bool | None:
        """Append some more rows. True if any were appended, None if the buffer has no room."""
        begun = self._place
        limit = min(self.count, begun + STEP_ROWS)
        while self._place < limit:
            end = min(limit, self._place + SLICE_ROWS)
            reached = int(target.append_rows(self.rows, self._place, end, self._first_row, now_ms))
            self._place = reached
            if reached < end:
                break
        return True if self._place > begun else None


def _most_bytes(row: object) -> int:
    if isinstance(row, Row):
        return int(record_bound(row.key, row.value, row.headers)) + ROW_BYTES
    key, value = row if isinstance(row, tuple) else (None, row)
    return int(record_bound(key, value, None)) + ROW_BYTES


def with_partition(row: object, choose: Chooser, partitions: int, available: list[int]) -> object:
    """The row as a `Row` with its partition; -1 if the partitioner wants the sticky partition."""
    if isinstance(row, Row):
        placed = row
    elif isinstance(row, tuple):
        placed = Row(row[0], row[1], None, -1, -1)
    else:
        placed = Row(None, row if isinstance(row, bytes) else None, None, -1, -1)
    if placed.partition < 0:
        placed.partition = chosen(choose, placed.key, partitions, available)
    return placed


def list_chunks(records: Iterable[object], *, whole: bool, largest: int, setting: str) -> Iterator[Chunk | None]:
    """Checked chunks of rows. `whole`: all rows are checked before the first chunk; until then it yields None, so that other tasks run.
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
    """Lists of `size` rows; the last one may be shorter."""
    if isinstance(rows, (list, tuple)):
        first = 0
        while taken := list(rows[first : first + size]):
            yield taken
            first += size
        return
    source = iter(rows)
    while taken := list(islice(source, size)):
        yield taken
