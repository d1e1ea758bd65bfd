"""Parquet files as chunks of columns for `send_arrow`.

Rows count from 0. A separate process reads the file (`parquet_reading`), so that a damaged file cannot exhaust this process's memory or end
it. This process holds one batch at a time. It converts no types: key and value are columns of strings or binaries.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyarrow as pa

from fencepost.producer import BulkFuture, Producer
from fencepost.producer.bulk.arrow_columns import binary_column
from fencepost.txn.files.errors import BadInput, InputBroken
from fencepost.txn.files.fields import Fields, named
from fencepost.txn.files.parquet_reading import ROWS
from fencepost.txn.files.patience import Interrupt, PatientPipe

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

    def __init__(self, path: Path, interrupt: Interrupt, tick: Callable[[], None]) -> None:
        # The process imports the same modules as this one, and none from the current directory.
        code = f"import sys; sys.path[:] = {sys.path!r}; from fencepost.txn.files.parquet_reading import main; main(sys.argv[1])"
        command = [sys.executable, "-P", "-c", code, str(path)]
        # Other allocators of Arrow reserve more address space than they use, and the process has a limit of memory.
        environment = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system"}
        self._process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self._process.stdout is not None
        self._interrupt = interrupt
        self._pipe = io.BufferedReader(PatientPipe(self._process.stdout.fileno(), interrupt, tick))
        self._first = 0
        try:
            self.schema = pa.ipc.open_stream(self._pipe).read_all().schema
        except (pa.ArrowException, OSError) as error:
            reason = self._why(error)
            self.close()
            raise BadInput(f"{path} cannot be read as a Parquet file: {reason}") from None
        self.count = int(self.schema.metadata[ROWS])
        self.schema = self.schema.remove_metadata()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def batches(self, columns: list[str] | None, first: int = 0) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches with these columns (None: all) from row `first` on, and the number of each batch's first row. Raises InputBroken if they
        cannot be read."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"columns": columns, "first": first}).encode() + b"\n")
            self._process.stdin.flush()
            for batch in pa.ipc.open_stream(self._pipe):
                yield first, batch
                first += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            if not self._interrupt.signal:
                raise InputBroken(f"the rows from {first} on cannot be read: {self._why(error)}") from None
        else:
            # A stream that breaks off between two batches looks like a complete one.
            if not self._interrupt.signal and self._ended():
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


def columns_of(schema: pa.Schema, fields: Fields) -> dict[str, str]:
    """The column arguments of `send_arrow`. Without --value-field, the column `value` is the value, if there is one."""
    names = schema.names
    if len(fields.headers) > 1:
        how = "--header-field is given more than once" if fields.as_options else f"header_fields={list(fields.headers)!r}"
        raise BadInput(f"{how}: for a Parquet file it names one column, with each row's headers as a map or pairs")
    wanted = {"value": fields.value or "value", "key": fields.key, "headers": fields.headers[0] if fields.headers else None}
    for role, name in wanted.items():
        if name is not None and name not in names:
            raise BadInput(f"{fields.said(role.removesuffix('s'), name)}: the file has no such column, but {named(names)}")
    columns = {role: name for role, name in wanted.items() if name is not None}
    nothing = pa.RecordBatch.from_pylist([], schema=schema)
    for role, name in columns.items():
        try:
            if role != "headers":
                binary_column(nothing, name, role)
            elif not any(kind(schema.field(name).type) for kind in (pa.types.is_map, pa.types.is_list, pa.types.is_large_list)):
                raise TypeError(f"headers={name!r} must be a map or a list of pairs, not {schema.field(name).type}")
        except (TypeError, ValueError) as error:
            raise BadInput(str(error)) from None
    return columns


def arrow_chunks(rows: ParquetRows, columns: dict[str, str], *, whole: bool, first: int = 0) -> Iterator[ArrowChunk]:
    """From row `first` on. `whole`: with all columns of the file, not only those that are sent."""
    for begin, batch in rows.batches(None if whole else sorted(set(columns.values())), first):
        yield ArrowChunk(batch, begin, columns)
