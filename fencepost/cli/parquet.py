"""Parquet files as chunks of columns for `send_arrow`, and as where the rows that failed are kept.

Rows count from 0. A process of its own reads the file (`parquet_reading`), so that a damaged one can neither take this one's memory nor end
it; only one batch at a time is here. It converts no types: key and value are columns of strings or binaries.
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

from fencepost.cli.complaints import Complaint
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
    """A record batch. `bad` is there for those who look for it: no row of a Parquet file is unreadable by itself."""

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
    """A file, opened and read by a process of its own, which does not outlive the block. `schema`: of all its columns."""

    def __init__(self, path: Path, stop: Stop, tick: Callable[[], None]) -> None:
        # The same modules as here, and none from the directory in which the command happens to run.
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
            raise Complaint(f"{path} is no Parquet file that can be read: {reason}") from None
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
        """Those columns of the rows, all for None, with the number of the first; InputBroken where they cannot be read."""
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
            # A stream that breaks off between two batches looks like one that has ended.
            if not self._stop.signal and self._ended():
                raise InputBroken(f"the rows from {first} on cannot be read: {self._why(None)}")

    def _ended(self) -> int:
        return self._process.wait(END_S)

    def _why(self, error: Exception | None) -> str:
        """What the process said, or how it ended."""
        code = self._ended()
        assert self._process.stderr is not None
        said = self._process.stderr.read().decode("utf-8", "replace")
        if code < 0:
            return f"reading it ended with {signal.Signals(-code).name}: it is damaged, or needs more memory than it may"
        return said or str(error)


class PatientPipe(io.RawIOBase):
    """What a process writes, as it comes; at an end as soon as the command is to stop."""

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
    """The arguments of `send_arrow`. Without a value field it is the column `value`, if there is one."""
    names = schema.names
    if len(fields.headers) > 1:
        raise Complaint("--header-field: of a Parquet file it names the one column that holds each row's headers, as a map or pairs")
    wanted = {"value": fields.value or "value", "key": fields.key, "headers": fields.headers[0] if fields.headers else None}
    options = {"value": "--value-field", "key": "--key-field", "headers": "--header-field"}
    for role, name in wanted.items():
        if name is not None and name not in names:
            raise Complaint(f"{options[role]} {name}: the file has no such column, but {named(names)}")
    columns = {role: name for role, name in wanted.items() if name is not None}
    nothing = pa.RecordBatch.from_pylist([], schema=schema)
    for role, name in columns.items():
        try:
            if role != "headers":
                binary_column(nothing, name, role)
            elif not any(kind(schema.field(name).type) for kind in (pa.types.is_map, pa.types.is_list, pa.types.is_large_list)):
                raise TypeError(f"headers={name!r} must be a map or a list of pairs, not {schema.field(name).type}")
        except (TypeError, ValueError) as error:
            raise Complaint(str(error)) from None
    return columns


def arrow_chunks(rows: ParquetRows, columns: dict[str, str], *, whole: bool) -> Iterator[ArrowChunk]:
    """`whole`: with all columns of the file, and not just those that are sent."""
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
