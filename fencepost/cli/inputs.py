"""Lines, JSON lines and CSV as chunks of rows for `send_many`. Each row has its line number and its original bytes.

A chunk contains what has arrived; it does not wait to be full. A line that is no record is listed in its chunk, and the other lines are
sent. Memory holds one chunk of the input. A line or row above its limit ends the reading, after the rows before it are sent.
"""

from __future__ import annotations

import csv
import os
import re
import select
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from fencepost.cli.error_lines import CommandError
from fencepost.cli.sending import InputBroken
from fencepost.cli.stopping import Stop
from fencepost.producer import BulkFuture, Producer
from fencepost.producer.foundations.counted import counted

BLOCK_BYTES: Final = 256 * 1024
LINE_BYTES_MAX: Final = 64 * 1024 * 1024
ROW_BYTES_MAX: Final = 8 * 1024 * 1024
"""The limit for a record that is parsed: a JSON line with fields, or a row of CSV. Parsed, it takes up to 30 times its size."""
HEADER_BYTES_MAX: Final = 1024 * 1024
"""The limit for the first line of a CSV file, because every record repeats its names."""
CSV_ROWS_MAX: Final = 4_096
CSV_BYTES_MAX: Final = 1024 * 1024
ROW_BYTES: Final = 128
"""The memory that a row takes beside its bytes."""
NAMES_MAX: Final = 20
NAME_CHARACTERS_MAX: Final = 40
TICK_S: Final = 0.2
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
ESCAPES: Final = re.compile(rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u(?P<half>[dD][89a-fA-F][0-9a-fA-F]{2})|\\.")
"""A surrogate pair in JSON, one half of a pair, or another escape."""

Row = Any
Convert = Callable[[bytes], Row]


class Fields(msgspec.Struct, frozen=True):
    """Which fields of a record become its key, its value (None: the whole record) and its headers."""

    key: str | None = None
    value: str | None = None
    headers: tuple[str, ...] = ()

    @property
    def none(self) -> bool:
        return self.key is None and self.value is None and not self.headers


class RowChunk:
    """Rows that can be sent, and the lines that are no records. `next`: the line after the chunk; `made`: bytes of values that are not in
    `raws`."""

    unit = "line"

    def __init__(
        self, rows: list[Row], numbers: Sequence[int], raws: list[bytes], bad: list[tuple[int, bytes, str]], *, next: int, made: int = 0
    ) -> None:
        self.next = next
        self.rows = rows
        self.numbers = numbers
        self.raws = raws
        self.bad = bad
        self.size = sum(map(len, raws)) + len(raws) * ROW_BYTES + made

    def __len__(self) -> int:
        return len(self.rows)

    def send(self, producer: Producer, topic: str, begin: int, end: int) -> BulkFuture:
        return producer.send_many(topic, self.rows[begin:end] if begin or end < len(self.rows) else self.rows)


class Lines:
    """The lines of a file or a pipe without their newlines. After a signal it stops reading, and drops an unfinished line."""

    def __init__(self, fd: int, stop: Stop, tick: Callable[[], None]) -> None:
        self._fd = fd
        self._stop = stop
        self._tick = tick
        self._held = bytearray()  # the beginning of an unfinished line
        self.ready: deque[bytes] = deque()
        self.bytes_read = 0
        self.number = 0  # the number of the line that was taken last
        self.over = False

    @property
    def cut_short(self) -> bool:
        """Whether a signal ended the reading. Then the unfinished record is no record."""
        return self.over and bool(self._stop.signal)

    def batch(self) -> list[bytes]:
        """All lines that have arrived, at least one; none at the end."""
        while not self.ready and not self.over:
            self._more()
        lines = list(self.ready)
        self.ready.clear()
        self.number += len(lines)
        return lines

    def take(self) -> bytes | None:
        """The next line, None at the end."""
        while not self.ready and not self.over:
            self._more()
        if not self.ready:
            return None
        self.number += 1
        return self.ready.popleft()

    def _more(self) -> None:
        block = self._read()
        self.bytes_read += len(block)
        if not block:
            self.over = True
            if self._held and not self._stop.signal:
                self.ready.append(bytes(self._held))
            return
        first, newline, rest = block.partition(b"\n")
        self._held += first
        if len(self._held) > LINE_BYTES_MAX:
            raise InputBroken(
                f"line {self.number + len(self.ready) + 1} is longer than {LINE_BYTES_MAX >> 20} MiB: is this a file of lines?"
            )
        if newline:
            lines = [bytes(self._held), *rest.split(b"\n")]
            self._held = bytearray(lines.pop())
            self.ready.extend(lines)

    def _read(self) -> bytes:
        while not self._stop.signal:
            able, _, _ = select.select([self._fd, self._stop.fd], [], [], TICK_S)
            if self._fd in able and not self._stop.signal:
                return os.read(self._fd, BLOCK_BYTES)
            self._tick()
        return b""


def line_chunks(lines: Lines) -> Iterator[RowChunk]:
    """Every line is a value."""
    while batch := lines.batch():
        yield RowChunk(list(batch), range(lines.number - len(batch) + 1, lines.number + 1), batch, [], next=lines.number + 1)


def json_chunks(lines: Lines, fields: Fields) -> Iterator[RowChunk]:
    """Every line is a JSON value; with fields, an object. Blank lines are skipped."""
    convert = json_converter(fields)
    while batch := lines.batch():
        rows, numbers, raws, bad = [], [], [], []
        for number, raw in enumerate(batch, lines.number - len(batch) + 1):
            if not raw.strip():
                continue
            try:
                rows.append(convert(raw))
            except ValueError as error:  # msgspec's errors are subclasses
                bad.append((number, raw, half_of_a_pair(raw) or str(error)))
            except RecursionError:
                bad.append((number, raw, "brackets are nested too deeply"))
            else:
                numbers.append(number)
                raws.append(raw)
        yield RowChunk(rows, numbers, raws, bad, next=lines.number + 1)


def json_converter(fields: Fields) -> Convert:
    """A function that makes a row of a line. It raises ValueError."""
    if fields.none:
        check = msgspec.json.Decoder(msgspec.Raw)
        return lambda raw: check.decode(raw) and raw.strip()
    decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])

    def convert(raw: bytes) -> Row:
        if len(raw) > ROW_BYTES_MAX:
            raise ValueError(f"{len(raw):,} bytes are more than {ROW_BYTES_MAX >> 20} MiB, the limit for a line of which fields are taken")
        found = decoder.decode(raw)
        key = as_bytes(found, fields.key) if fields.key is not None else None
        value = as_bytes(found, fields.value) if fields.value is not None else raw.strip()
        return (key, value, [(name, as_bytes(found, name)) for name in fields.headers]) if fields.headers else (key, value)

    return convert


def half_of_a_pair(raw: bytes) -> str | None:
    """What is wrong with a line that escapes one half of a surrogate pair. msgspec calls such a line truncated if it ends soon after."""
    for escape in ESCAPES.finditer(raw):
        if escape["half"]:
            return f"\\u{escape['half'].decode()} (byte {escape.start()}) is one half of a surrogate pair: alone it is no character"
    return None


def as_bytes(found: dict[str, msgspec.Raw], name: str) -> bytes | None:
    """A string's text, None for null, and any other value as its JSON text."""
    raw = found.get(name)
    if raw is None:
        raise ValueError(f"there is no field {name!r}; the fields are {named(found)}")
    text = bytes(raw)
    if text.startswith(b'"'):
        return msgspec.json.decode(text, type=str).encode()
    return None if text == b"null" else text


def named(names: Iterable[str]) -> str:
    """The first names, each cut to a length that fits into a message."""
    every = list(names)
    words = [name if len(name) <= NAME_CHARACTERS_MAX else f"{name[:NAME_CHARACTERS_MAX]}..." for name in every[:NAMES_MAX]]
    more = f" and {counted(len(every) - NAMES_MAX, 'other', spec=',')}" if len(every) > NAMES_MAX else ""
    return f"{', '.join(words)}{more}" if every else "none"


class CsvLines:
    """Lines for the csv module, and the bytes that it took for a row. A row has at most `largest` bytes."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self._taken = bytearray()
        self.largest = HEADER_BYTES_MAX
        self.begin = 1  # the line in which the row begins

    @property
    def taken(self) -> bytes:
        return bytes(self._taken[:-1])

    def next_row(self) -> None:
        self._taken = bytearray()
        self.begin = self.lines.number + 1

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
    """The names of the columns. Refuses a file without the columns that the options name."""
    csv.field_size_limit(LINE_BYTES_MAX)
    try:
        header = next(csv.reader(source, strict=True), [])
    except csv.Error as error:
        if source.lines.cut_short:
            return []
        raise CommandError(f"line 1: the names of the columns cannot be read: {error}") from None
    except (InputBroken, OSError) as error:
        raise CommandError(str(error)) from None
    if source.lines.cut_short:
        return []
    for option, name in [
        ("--key-field", fields.key),
        ("--value-field", fields.value),
        *(("--header-field", each) for each in fields.headers),
    ]:
        if name is not None and name not in header:
            raise CommandError(f"{option} {name}: the first line has no such column, but {named(header)}")
    seen: set[str] = set()
    for name in header:
        if name in seen:
            raise CommandError(f"the first line names the column {named([name])!r} twice")
        seen.add(name)
    return header


def csv_chunks(lines: Lines, source: CsvLines, header: list[str], fields: Fields) -> Iterator[RowChunk]:
    """Every row is a record; its value is one column, or the whole row as a JSON object."""
    source.largest = ROW_BYTES_MAX
    reader = csv.reader(source, strict=True)
    convert = csv_converter(header, fields)
    broken: InputBroken | OSError | None = None
    over, after = False, lines.number + 1
    while not over:
        rows: list[Row] = []
        numbers: list[int] = []
        raws: list[bytes] = []
        bad: list[tuple[int, bytes, str]] = []
        made = held = 0
        while len(rows) + len(bad) < CSV_ROWS_MAX and made + held < CSV_BYTES_MAX:
            source.next_row()
            try:
                cells = next(reader, None)
                row = convert(cells) if cells else None
            except (csv.Error, ValueError) as error:
                if lines.cut_short:
                    continue
                bad.append((source.begin, source.taken, str(error)))
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
                    made += len(row[1])
            held += len(source.taken)
            after = lines.number + 1
            if not lines.ready:
                break
        yield RowChunk(rows, numbers, raws, bad, next=after, made=made)
    if broken is not None:
        raise broken


def csv_converter(header: list[str], fields: Fields) -> Callable[[list[str]], Row]:
    """A function that makes a row to send of a row of cells. It raises ValueError."""
    place = {name: number for number, name in enumerate(header)}

    def cell(cells: list[str], name: str) -> bytes:
        return cells[place[name]].encode("utf-8", "surrogateescape")

    def convert(cells: list[str]) -> Row:
        if len(cells) != len(header):
            raise ValueError(f"{counted(len(cells), 'cell')} where the first line names {counted(len(header), 'column')}")
        key = cell(cells, fields.key) if fields.key is not None else None
        if fields.value is not None:
            value = cell(cells, fields.value)
        else:
            try:
                value = msgspec.json.encode(dict(zip(header, cells, strict=True)))
            except UnicodeEncodeError as error:
                byte = ord(error.object[error.start]) & 0xFF  # as "surrogateescape" has kept it
                raise ValueError(f"byte 0x{byte:02x} is not UTF-8, which JSON needs; --value-field sends a column as it is") from None
        return (key, value, [(name, cell(cells, name)) for name in fields.headers]) if fields.headers else (key, value)

    return convert
