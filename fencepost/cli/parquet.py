"""Parquet files as chunks of columns for `send_arrow`, and as files of failed rows.

Rows count from 0. A separate process reads the file (`parquet_reading`), so that a damaged file cannot exhaust this process's memory or end
it. This process holds one batch at a time. It converts no types: key and value are columns of strings or binaries.
"""

from __future__ import annotations

import io
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.cli.error_lines import CommandError
from fencepost.cli.inputs import Fields, named
from fencepost.cli.parquet_reading import ROWS
from fencepost.cli.sending import InputBroken
from fencepost.cli.stopping import Stop
from fencepost.producer import BulkFuture, Producer
from fencepost.producer.bulk.arrow_columns import binary_column

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

TICK_S: Final = 0.2
END_S: Final = 10.0


class ArrowChunk:
    """A record batch. `bad` is always empty, because single rows of a Parquet file are never unreadable."""

    unit = "row"
    bad: tuple[tuple[int, bytes, str], ...] = ()

    def __init__(self, batch: pa.RecordBatch, first: int, columns: dict[str, str]) -> None:
        self.batch = batch
        self.numbers = range(first, first + batch.num_rows)
        self.next = first + batch.num_rows
        self.size = batch.nbytes
        self._columns = columns

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def send(self, producer: Producer, topic: str, begin: int, end: int) -> BulkFuture:
        return producer.send_arrow(topic, self.batch.slice(begin, end - begin), **self._columns)


class ParquetRows:
    """A file that a separate process opens and reads. The process ends with the block. `schema`: of all columns."""

    def __init__(self, path: Path, stop: Stop, tick: Callable[[], None]) -> None:
        # The process imports the same modules as this one, and none from the current directory.
        code = f"import sys; sys.path[:] = {sys.path!r}; from fencepost.cli.parquet_reading import main; main(sys.argv[1])"
        command = [sys.executable, "-P", "-c", code, str(path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self._process.stdout is not None
        self._stop = stop
        self._pipe = io.BufferedReader(PatientPipe(self._process.stdout.fileno(), stop, tick))
        self._first = 0
        try:
            self.schema = pa.ipc.open_stream(self._pipe).read_all().schema
        except (pa.ArrowException, OSError) as error:
            reason = self._why(error)
            self.close()
            raise CommandError(f"{path} cannot be read as a Parquet file: {reason}") from None
        self.count = int(self.schema.metadata[ROWS])
        self.schema = self.schema.remove_metadata()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def batches(self, columns: list[str] | None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches with these columns (None: all), and the number of each batch's first row. Raises InputBroken if they cannot be read."""
        assert self._process.stdin is not None
        first = 0
        try:
            self._process.stdin.write(json.dumps(columns).encode() + b"\n")
            self._process.stdin.flush()
            for batch in pa.ipc.open_stream(self._pipe):
                yield first, batch
                first += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            if not self._stop.signal:
                raise InputBroken(f"the rows from {first} on cannot be read: {self._why(error)}") from None
        else:
            # A stream that breaks off between two batches looks like a complete one.
            if not self._stop.signal and self._ended():
                raise InputBroken(f"the rows from {first} on cannot be read: {self._why(None)}")

    def _ended(self) -> int:
        return self._process.wait(END_S)

    def _why(self, error: Exception | None) -> str:
        """The process's error text, or the signal that ended it."""
        code = self._ended()
        assert self._process.stderr is not None
        said = self._process.stderr.read().decode("utf-8", "replace")
        if code < 0:
            return f"the reading process ended with {signal.Signals(-code).name}: the file is damaged, or needs more memory than the limit"
        return said or str(error)


class PatientPipe(io.RawIOBase):
    """The output of a process, as it arrives. It ends when the command gets a signal."""

    def __init__(self, fd: int, stop: Stop, tick: Callable[[], None]) -> None:
        self._fd = fd
        self._stop = stop
        self._tick = tick

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        while not self._stop.signal:
            able, _, _ = select.select([self._fd, self._stop.fd], [], [], TICK_S)
            if self._fd in able:
                return os.readv(self._fd, [buffer])
            self._tick()
        return 0


def columns_of(schema: pa.Schema, fields: Fields) -> dict[str, str]:
    """The column arguments of `send_arrow`. Without --value-field, the column `value` is the value, if there is one."""
    names = schema.names
    if len(fields.headers) > 1:
        raise CommandError(
            "--header-field is given more than once: for a Parquet file it names one column, with each row's headers as a map or pairs"
        )
    wanted = {"value": fields.value or "value", "key": fields.key, "headers": fields.headers[0] if fields.headers else None}
    options = {"value": "--value-field", "key": "--key-field", "headers": "--header-field"}
    for role, name in wanted.items():
        if name is not None and name not in names:
            raise CommandError(f"{options[role]} {name}: the file has no such column, but {named(names)}")
    columns = {role: name for role, name in wanted.items() if name is not None}
    nothing = pa.RecordBatch.from_pylist([], schema=schema)
    for role, name in columns.items():
        try:
            if role != "headers":
                binary_column(nothing, name, role)
            elif not any(kind(schema.field(name).type) for kind in (pa.types.is_map, pa.types.is_list, pa.types.is_large_list)):
                raise TypeError(f"headers={name!r} must be a map or a list of pairs, not {schema.field(name).type}")
        except (TypeError, ValueError) as error:
            raise CommandError(str(error)) from None
    return columns


def arrow_chunks(rows: ParquetRows, columns: dict[str, str], *, whole: bool) -> Iterator[ArrowChunk]:
    """`whole`: with all columns of the file, not only those that are sent."""
    for first, batch in rows.batches(None if whole else sorted(set(columns.values()))):
        yield ArrowChunk(batch, first, columns)


class ParquetSink:
    """Failed rows in a Parquet file of the same columns."""

    def __init__(self, path: Path, schema: Any) -> None:
        self._writer = pq.ParquetWriter(path, schema)

    def keep_raw(self, raw: bytes) -> None:
        raise AssertionError("a row of a Parquet file is never a line")

    def keep(self, chunk: ArrowChunk, indexes: list[int]) -> None:
        self._writer.write_batch(chunk.batch.take(pa.array(indexes)))

    def close(self) -> None:
        self._writer.close()
