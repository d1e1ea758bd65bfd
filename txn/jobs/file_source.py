"""Files as a source: lines, JSON lines, CSV and Parquet, several in the given order. `fencepost.txn.files` reads them.

The position has a place for each file: the offset after the last record, or the row. So files may be added, and files of lines may grow. A
file is known by its absolute path: under another name it is another file.
"""

from __future__ import annotations

import logging
import os
import stat
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from fencepost.producer.errors import ConfigError
from fencepost.txn.files.chunks import RowChunk, line_chunks
from fencepost.txn.files.csv_rows import CsvLines, csv_chunks, csv_converter, csv_dicts, csv_header
from fencepost.txn.files.errors import BadInput, InputBroken
from fencepost.txn.files.fields import Fields
from fencepost.txn.files.formats import PARQUET_NEEDS, Format, format_of, is_compressed
from fencepost.txn.files.json_lines import json_chunks, json_converter, json_value
from fencepost.txn.files.lines import Lines
from fencepost.txn.files.patience import NoInterrupt, block_reader
from fencepost.txn.jobs.errors import SourceChanged
from fencepost.txn.jobs.file_check import FilePlace, check_before, check_whole, looks_like, refuse_changed
from fencepost.txn.jobs.source import BadItem, Piece, PieceSource, raw_of

log = logging.getLogger("fencepost.job")

RESET: Final = "read everything again after `fencepost jobs reset JOB --to-start --execute`"

Places = dict[str, FilePlace]


class FilePosition(Struct, frozen=True, forbid_unknown_fields=True):
    """The position of a job in files: the place in each, by path."""

    files: Places = {}


def places_in(position: Any) -> Places:
    """The place in each file. Raises BadInput if this is no position in files."""
    try:
        places = dict(msgspec.convert(position, FilePosition).files) if position is not None else {}
    except msgspec.ValidationError as error:
        raise BadInput(f"position={position!r:.300} is no position in files: {error}") from None
    relative = [path for path in places if not os.path.isabs(path)]
    if relative:
        raise BadInput(f"position={position!r:.300} is no position in files: {relative[0]!r} is no absolute path")
    return places


class FileProgress(Struct):
    """How far one file is read. `before`: lines or rows that earlier runs have committed. `number`: lines or rows that are read.
    `unfinished`: bytes of a last record that is not finished, and not read. `unit`: "line" or "row". `bytes`: of the file, about."""

    unit: str
    before: int = 0
    number: int = 0
    unfinished: int = 0
    bytes: int = 0


class FileSource(PieceSource):
    """Lines, JSON lines, CSV or Parquet, of one file or several in this order.

    `format`: "lines", "json", "csv" or "parquet"; None: by each file's suffix, lines for other suffixes. Compressed files (.gz, .bz2, .xz)
    are read as what they contain. `key_field`, `value_field`, `header_fields`: the fields or columns that become the key, the value (None:
    the whole record) and headers. Without a `transform` the job sends these records. A `transform` gets bytes (lines), any JSON value
    (json), or a dictionary of the columns (csv, parquet).

    A file of lines may grow: the next run continues it. So a last line without a newline may still be being written, and is left to a later
    run, with a warning. `complete=True` says that the files are finished: then it is a record. `progress` tells how far each file is read.
    """

    kind = "files"

    def __init__(
        self,
        *paths: str | os.PathLike[str],
        format: str | None = None,
        key_field: str | None = None,
        value_field: str | None = None,
        header_fields: Sequence[str] = (),
        complete: bool = False,
    ) -> None:
        self._paths = [os.path.abspath(os.fspath(each)) for each in paths]
        if not self._paths:
            raise ConfigError("FileSource(): name at least one file")
        twice = [path for path, times in Counter(self._paths).items() if times > 1]
        if twice:
            raise ConfigError(f"FileSource: {twice[0]!r} is named twice")
        try:
            self._format = Format(format) if format is not None else None
        except ValueError:
            raise ConfigError(f"format={format!r}: one of {', '.join(repr(each.value) for each in Format)}, or None") from None
        if isinstance(header_fields, str):
            raise ConfigError(f"header_fields={header_fields!r}: a single name: write [name]")
        self._fields = Fields(key_field, value_field, tuple(header_fields), as_options=False)
        self._complete = complete
        self.progress: dict[str, FileProgress] = {}
        for path in self._paths:
            if self._format_of(path) is Format.LINES and not self._fields.none:
                raise ConfigError(
                    f"{path}: key_field, value_field and header_fields are for records with fields: set format='json' or 'csv'"
                )

    def __repr__(self) -> str:
        return f"FileSource({', '.join(map(repr, self._paths))})"

    def name_options(self) -> None:
        """Have errors about fields name the options of the command `produce`."""
        self._fields = msgspec.structs.replace(self._fields, as_options=True)

    def open(self, position: Any) -> Iterator[tuple[Any, Any] | None]:
        """The records, each with the position after it."""
        for piece in self.pieces(position, plain=False):
            for index, item in enumerate(piece.items):
                yield item, piece.before(index + 1)

    def pieces(self, position: Any, *, plain: bool) -> Iterator[Piece]:
        """The records of all files from the position on, many at once."""
        places = places_in(position)
        self._refuse_all_changed(places)
        for path in self._paths:
            for piece in self._pieces_of(path, places, plain):
                places[path] = piece.end
                yield piece

    # -- one file --------------------------------------------------------------------------------------------------------

    def _format_of(self, path: str) -> Format:
        return self._format or format_of(path)

    def _unit(self, path: str) -> str:
        return "row" if self._format_of(path) is Format.PARQUET else "line"

    def _grows(self, path: str) -> bool:
        return self._format_of(path) is not Format.PARQUET and not is_compressed(path)

    def _refuse_all_changed(self, places: Places) -> None:
        """Check every file before anything of the first is sent."""
        for path in self._paths:
            fd = _opened(path)
            try:
                if path in places:
                    refuse_changed(path, fd, places[path], grows=self._grows(path), reset=RESET)
                else:
                    self._refuse_renamed(path, fd, places)
            finally:
                os.close(fd)

    def _refuse_renamed(self, path: str, fd: int, places: Places) -> None:
        """Refuse a file that begins as one that the job has read under another name, where that is no more: its records would be sent
        again."""
        unit = self._unit(path)
        for other, place in places.items():
            if place.at and place.check and looks_like(fd, place, grows=self._grows(path)) and not self._is_still(other, place):
                raise SourceChanged(
                    f"{path} begins as {other} did, which the job has read up to {unit} {place.number} and which is not there any more: if"
                    f" it was renamed, its records would be sent again. Give the file its old name. If it is another one, {RESET}"
                )

    def _is_still(self, path: str, place: FilePlace) -> bool:
        try:
            fd = _opened(path)
        except BadInput:
            return False
        try:
            return looks_like(fd, place, grows=self._grows(path))
        finally:
            os.close(fd)

    def _pieces_of(self, path: str, places: Places, plain: bool) -> Iterator[FilePiece]:
        begin = places.get(path)
        unit = self._unit(path)
        number = begin.number if begin is not None else 0
        progress = self.progress.setdefault(path, FileProgress(unit, before=number))
        progress.number = number
        fd = _opened(path)
        try:
            if begin is not None:
                refuse_changed(path, fd, begin, grows=self._grows(path), reset=RESET)
            make = self._parquet_pieces if unit == "row" else self._line_pieces
            for piece in make(path, fd, begin, dict(places), plain, progress):
                progress.number = piece.end.number
                yield piece
        except InputBroken as error:
            raise InputBroken(f"{path}: {error}") from None
        except OSError as error:
            raise InputBroken(f"{path}: {error}") from error
        except BadInput as error:
            raise error if path in str(error) else BadInput(f"{path}: {error}") from None
        finally:
            os.close(fd)

    def _line_pieces(
        self, path: str, fd: int, begin: FilePlace | None, places: Places, plain: bool, progress: FileProgress
    ) -> Iterator[FilePiece]:
        kind, grows = self._format_of(path), self._grows(path)
        whole = None if grows else check_whole(fd)
        at, number = (begin.at, begin.number) if begin is not None else (0, 0)
        header: list[str] = []
        if kind is Format.CSV:
            first = self._lines(path, fd, 0, 0)
            source = CsvLines(first)
            header = csv_header(source, self._fields if plain else Fields(as_options=False))
            if not header:
                progress.unfinished = first.unfinished
                return
            at, number = max(at, first.offset), max(number, first.number)
        lines = self._lines(path, fd, at, number)
        end = at
        for chunk in self._chunks(lines, kind, header, plain):
            progress.bytes = end = chunk.end

            def place_at(offset: int, number: int) -> FilePlace:
                return FilePlace(offset, number, whole if whole is not None else check_before(fd, offset))

            yield LinesPiece(path, places, chunk, place_at)
        progress.unfinished = lines.offset + lines.unfinished - end
        if progress.unfinished:
            log.warning(
                "%s: the record from line %d on (%d bytes so far) is not finished, so it may still be being written: it is left to a later"
                " run. complete=True says that the file is finished",
                path,
                progress.number + 1,
                progress.unfinished,
            )

    def _lines(self, path: str, fd: int, at: int, number: int) -> Lines:
        """The lines from this place on. A compressed file is read again from its start."""
        compressed = is_compressed(path)
        os.lseek(fd, 0 if compressed else at, os.SEEK_SET)
        read = block_reader(path, fd, NoInterrupt(), lambda: None)
        return Lines(_skipping(read, at) if compressed else read, complete=self._complete or compressed, offset=at, number=number)

    def _chunks(self, lines: Lines, kind: Format, header: list[str], plain: bool) -> Iterator[RowChunk]:
        if kind is Format.JSON:
            return json_chunks(lines, json_converter(self._fields) if plain else json_value)
        if kind is Format.CSV:
            return csv_chunks(lines, CsvLines(lines), csv_converter(header, self._fields) if plain else csv_dicts(header))
        return line_chunks(lines)

    def _parquet_pieces(
        self, path: str, fd: int, begin: FilePlace | None, places: Places, plain: bool, progress: FileProgress
    ) -> Iterator[FilePiece]:
        try:
            from fencepost.txn.files.parquet import ParquetRows, arrow_chunks, columns_of
        except ImportError:
            raise BadInput(PARQUET_NEEDS) from None
        whole = check_whole(fd)
        row = begin.number if begin is not None else 0
        with closing(ParquetRows(Path(path), NoInterrupt(), lambda: None)) as rows:
            if row >= rows.count:
                return
            columns = columns_of(rows.schema, self._fields) if plain else {}
            for chunk in arrow_chunks(rows, columns, whole=not plain, first=row):
                progress.bytes = os.fstat(fd).st_size * chunk.next // max(1, rows.count)
                yield RowsPiece(path, places, chunk, columns, whole, plain)


class FilePiece:
    """Records of one file. `end`: the place after them."""

    items: Sequence[Any] = ()
    bad: Sequence[BadItem] = ()

    def __init__(self, path: str, places: Places, end: FilePlace) -> None:
        self.path = path
        self.end = end
        self._places = places

    def _position(self, place: FilePlace) -> FilePosition:
        return FilePosition({**self._places, self.path: place})

    def before(self, index: int) -> Any:
        """The position before the record."""
        raise NotImplementedError

    def place(self, index: int) -> str:
        """The file, and the line or row."""
        raise NotImplementedError

    def raw(self, index: int) -> bytes:
        """The record's own bytes."""
        raise NotImplementedError

    def send(self, transaction: Any, topic: str, begin: int, end: int) -> Any:
        """Send rows as they are."""
        return transaction.send_many(topic, self.items[begin:end])


class LinesPiece(FilePiece):
    """Of a file of lines."""

    def __init__(self, path: str, places: Places, chunk: RowChunk, place_at: Callable[[int, int], FilePlace]) -> None:
        super().__init__(path, places, place_at(chunk.end, chunk.next - 1))
        self.items = chunk.rows
        self._chunk = chunk
        self._place_at = place_at
        if chunk.bad:
            self.bad = [
                BadItem(
                    bisect_left(chunk.numbers, number),
                    f"{path}, line {number}",
                    reason,
                    raw,
                    lambda number=number: self._before_line(number),  # type: ignore[misc]  # it takes what it is bound to
                )
                for number, raw, reason in chunk.bad
            ]

    def before(self, index: int) -> Any:
        return self._before_line(self._chunk.numbers[index]) if index < len(self.items) else self._position(self.end)

    def place(self, index: int) -> str:
        return f"{self.path}, line {self._chunk.numbers[index]}"

    def raw(self, index: int) -> bytes:
        return self._chunk.raws[index]

    def _before_line(self, number: int) -> FilePosition:
        return self._position(self._place_at(self._chunk.offset_of(number), number - 1))


class RowsPiece(FilePiece):
    """Of a Parquet file."""

    def __init__(self, path: str, places: Places, chunk: Any, columns: dict[str, str], check: str, plain: bool) -> None:
        super().__init__(path, places, FilePlace(chunk.next, chunk.next, check))
        self.items = chunk.numbers if plain else chunk.batch.to_pylist()
        self._chunk = chunk
        self._columns = columns
        self._check = check

    def before(self, index: int) -> Any:
        row = self._chunk.numbers[0] + index
        return self._position(FilePlace(row, row, self._check))

    def place(self, index: int) -> str:
        return f"{self.path}, row {self._chunk.numbers[index]}"

    def raw(self, index: int) -> bytes:
        return raw_of(self._chunk.batch.slice(index, 1).to_pylist()[0])

    def send(self, transaction: Any, topic: str, begin: int, end: int) -> Any:
        return transaction.send_arrow(topic, self._chunk.batch.slice(begin, end - begin), **self._columns)


def _opened(path: str) -> int:
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise BadInput(f"{path} is no regular file: a job must be able to read its source again")
    return fd


def _skipping(read: Callable[[], bytes], size: int) -> Callable[[], bytes]:
    """What reads on after so many bytes."""

    def block() -> bytes:
        nonlocal size
        data = read()
        while size and data:
            data, size = data[size:], max(0, size - len(data))
            if not data:
                data = read()
        return data

    return block
