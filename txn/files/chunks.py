"""Rows that were read together, for `send_many`. Each has its line number and its original bytes.

A chunk contains what has arrived; it does not wait to be full. A line that is no record is listed in its chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from fencepost.producer import BulkFuture, Producer
from fencepost.txn.files.lines import Lines

ROW_BYTES_MAX: Final = 8 * 1024 * 1024
"""The limit for a record that is parsed: a JSON line with fields, or a row of CSV. Parsed, it takes up to 30 times its size."""
ROW_BYTES: Final = 128
"""The memory that a row takes beside its bytes."""

Row = Any
Convert = Callable[[bytes], Row]


class RowChunk:
    """Rows that can be sent, and the lines that are no records. `next`: the line after the chunk; `made`: bytes of values that are not in
    `raws`. `end`: the offset of the byte after the chunk. `offset_of`: the offset of the first byte of a line with a row or a bad line."""

    unit = "line"

    def __init__(
        self,
        rows: list[Row],
        numbers: Sequence[int],
        raws: list[bytes],
        bad: list[tuple[int, bytes, str]],
        *,
        next: int,
        end: int,
        offset_of: Callable[[int], int],
        made: int = 0,
    ) -> None:
        self.next = next
        self.end = end
        self.offset_of = offset_of
        self.rows = rows
        self.numbers = numbers
        self.raws = raws
        self.bad = bad
        self.size = sum(map(len, raws)) + len(raws) * ROW_BYTES + made

    def __len__(self) -> int:
        return len(self.rows)

    def send(self, producer: Producer, topic: str, begin: int, end: int) -> BulkFuture:
        return producer.send_many(topic, self.rows[begin:end] if begin or end < len(self.rows) else self.rows)


def line_chunks(lines: Lines) -> Iterator[RowChunk]:
    """Every line is a value."""
    begin = lines.offset
    while batch := lines.batch():
        first = lines.number - len(batch) + 1
        yield RowChunk(
            list(batch),
            range(first, lines.number + 1),
            batch,
            [],
            next=lines.number + 1,
            end=lines.offset,
            offset_of=offsets_in(batch, first, begin),
        )
        begin = lines.offset


def offsets_in(batch: list[bytes], first: int, begin: int) -> Callable[[int], int]:
    """The offset of a line of these, which begin with line `first` at the offset `begin`."""
    return lambda number: begin + sum(map(len, batch[: number - first])) + number - first
