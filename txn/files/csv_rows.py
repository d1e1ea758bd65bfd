"""CSV as chunks of rows, as Python's csv module reads it: a cell may contain newlines. A row that does not fit the first line is bad."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from fencepost.producer.foundations.counted import counted
from fencepost.txn.files.chunks import ROW_BYTES_MAX, Row, RowChunk
from fencepost.txn.files.errors import BadInput, InputBroken
from fencepost.txn.files.fields import Fields, named
from fencepost.txn.files.lines import LINE_BYTES_MAX, Lines

HEADER_BYTES_MAX: Final = 1024 * 1024
"""The limit for the first line of a CSV file, because every record repeats its names."""
CSV_ROWS_MAX: Final = 4_096
CSV_BYTES_MAX: Final = 1024 * 1024
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

OfCells = Callable[[list[str]], tuple[Row, int]]
"""Makes a row of a row of cells, and says how many bytes it takes beside them. It raises ValueError."""


class CsvLines:
    """Lines for the csv module, and the bytes that it took for a row. A row has at most `largest` bytes. `begin`, `begin_offset`: the line
    in which the row begins, and the offset of its first byte."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self._taken = bytearray()
        self.largest = HEADER_BYTES_MAX
        self.begin = lines.number + 1
        self.begin_offset = lines.offset

    @property
    def taken(self) -> bytes:
        return bytes(self._taken[:-1])

    def next_row(self) -> None:
        self._taken = bytearray()
        self.begin = self.lines.number + 1
        self.begin_offset = self.lines.offset

    def __iter__(self) -> CsvLines:
        return self

    def __next__(self) -> str:
        raw = self.lines.take()
        if raw is None:
            raise StopIteration
        self._taken += raw + b"\n"
        if len(self._taken) > self.largest:
            raise InputBroken(
                f"line {self.begin}: the row that begins there is longer than {self.largest >> 20} MiB: is a quote in it never closed?"
            )
        if self.lines.number == 1:
            raw = raw.removeprefix(BYTE_ORDER_MARK)
        return raw.decode("utf-8", "surrogateescape") + "\n"


def csv_header(source: CsvLines, fields: Fields) -> list[str]:
    """The names of the columns; none if the first line is not finished yet. Raises BadInput for a file without the columns that are
    wanted."""
    csv.field_size_limit(LINE_BYTES_MAX)
    try:
        header = next(csv.reader(source, strict=True), [])
    except csv.Error as error:
        if source.lines.cut_short:
            return []
        raise BadInput(f"line 1: the names of the columns cannot be read: {error}") from None
    except (InputBroken, OSError) as error:
        raise BadInput(str(error)) from None
    if source.lines.cut_short:
        return []
    for how, name in fields.wanted:
        if name not in header:
            raise BadInput(f"{how}: the first line has no such column, but {named(header)}")
    seen: set[str] = set()
    for name in header:
        if name in seen:
            raise BadInput(f"the first line names the column {named([name])!r} twice")
        seen.add(name)
    return header


def csv_chunks(lines: Lines, source: CsvLines, convert: OfCells) -> Iterator[RowChunk]:
    """Every row is a record."""
    source.largest = ROW_BYTES_MAX
    reader = csv.reader(source, strict=True)
    broken: InputBroken | OSError | None = None
    over, after, end = False, lines.number + 1, lines.offset
    while not over:
        rows: list[Row] = []
        numbers: list[int] = []
        raws: list[bytes] = []
        bad: list[tuple[int, bytes, str]] = []
        offsets: dict[int, int] = {}
        made = held = 0
        while len(rows) + len(bad) < CSV_ROWS_MAX and made + held < CSV_BYTES_MAX:
            source.next_row()
            try:
                cells = next(reader, None)
                row, extra = convert(cells) if cells else (None, 0)
            except (csv.Error, ValueError) as error:
                if lines.cut_short:
                    continue
                bad.append((source.begin, source.taken, str(error)))
                offsets[source.begin] = source.begin_offset
            except (InputBroken, OSError) as error:
                # The rows before the broken one are sent first.
                broken, over = error, True
                break
            else:
                if cells is None:
                    over = True
                    break
                if row is not None:
                    rows.append(row)
                    numbers.append(source.begin)
                    raws.append(source.taken)
                    offsets[source.begin] = source.begin_offset
                    made += extra
            held += len(source.taken)
            after, end = lines.number + 1, lines.offset
            if not lines.ready:
                break
        yield RowChunk(rows, numbers, raws, bad, next=after, end=end, offset_of=offsets.__getitem__, made=made)
    if broken is not None:
        raise broken


def csv_converter(header: list[str], fields: Fields) -> OfCells:
    """A function that makes a row to send: its value is one column, or the whole row as a JSON object."""
    place = {name: number for number, name in enumerate(header)}

    def cell(cells: list[str], name: str) -> bytes:
        return cells[place[name]].encode("utf-8", "surrogateescape")

    def convert(cells: list[str]) -> tuple[Row, int]:
        _refuse_other(cells, header)
        key = cell(cells, fields.key) if fields.key is not None else None
        if fields.value is not None:
            value = cell(cells, fields.value)
        else:
            try:
                value = msgspec.json.encode(dict(zip(header, cells, strict=True)))
            except UnicodeEncodeError as error:
                byte = ord(error.object[error.start]) & 0xFF  # as "surrogateescape" has kept it
                other = fields.said("value", "").split("=")[0].strip()
                raise ValueError(f"byte 0x{byte:02x} is not UTF-8, which JSON needs; {other} sends a column as it is") from None
        if fields.headers:
            return (key, value, [(name, cell(cells, name)) for name in fields.headers]), len(value)
        return (key, value), len(value)

    return convert


def csv_dicts(header: list[str]) -> OfCells:
    """A function that makes a dictionary of a row, for a program's own function."""

    def convert(cells: list[str]) -> tuple[Row, int]:
        _refuse_other(cells, header)
        return dict(zip(header, cells, strict=True)), 0

    return convert


def _refuse_other(cells: list[str], header: list[str]) -> None:
    if len(cells) != len(header):
        raise ValueError(f"{counted(len(cells), 'cell')} where the first line names {counted(len(header), 'column')}")
