"""Parquet files as chunks of columns for `send_arrow`, and as where the rows that failed are kept.

Rows count from 0. Only batches of BATCH_ROWS rows are in memory. It converts no types: key and value are columns of strings or binaries.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost.cli.complaints import Complaint
from fencepost.cli.inputs import Fields
from fencepost.cli.sending import InputBroken
from fencepost.cli.stopping import Stop
from producer import BulkFuture, Producer

BATCH_ROWS: Final = 16_384


class ArrowChunk:
    """A record batch. `bad` is there for those who look for it: no row of a Parquet file is unreadable by itself."""

    unit = "row"
    bad: tuple[tuple[int, bytes, str], ...] = ()

    def __init__(self, batch: pa.RecordBatch, first: int, columns: dict[str, str]) -> None:
        self.batch = batch
        self.numbers = range(first, first + batch.num_rows)
        self.size = batch.nbytes
        self._columns = columns

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def send(self, producer: Producer, topic: str, begin: int, end: int) -> BulkFuture:
        return producer.send_arrow(topic, self.batch.slice(begin, end - begin), **self._columns)


def open_parquet(path: Path) -> Any:
    """The file, once its end has been read."""
    try:
        return pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise Complaint(f"{path} is no Parquet file: {error}") from None


def columns_of(file: Any, fields: Fields) -> dict[str, str]:
    """The arguments of `send_arrow`. Without a value field it is the column `value`, if there is one."""
    names = file.schema_arrow.names
    if len(fields.headers) > 1:
        raise Complaint("--header-field: of a Parquet file it names the one column that holds each row's headers, as a map or pairs")
    wanted = {"value": fields.value or "value", "key": fields.key, "headers": fields.headers[0] if fields.headers else None}
    options = {"value": "--value-field", "key": "--key-field", "headers": "--header-field"}
    for role, name in wanted.items():
        if name is not None and name not in names:
            raise Complaint(f"{options[role]} {name}: the file has no such column, but {', '.join(names)}")
    return {role: name for role, name in wanted.items() if name is not None}


def arrow_chunks(file: Any, columns: dict[str, str], stop: Stop) -> Iterator[ArrowChunk]:
    first = 0
    batches = file.iter_batches(batch_size=BATCH_ROWS)
    while not stop.signal:
        try:
            batch = next(batches, None)
        except pa.ArrowException as error:
            raise InputBroken(f"the rows from {first} on cannot be read: {error}") from None
        if batch is None:
            return
        yield ArrowChunk(batch, first, columns)
        first += batch.num_rows


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
