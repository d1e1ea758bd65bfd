"""Columns of bytes from Arrow tables and record batches, for `send_arrow`.

Types are checked before any row is appended. A row becomes a Python object only if there are headers. Only this module and `arrow_append`
import pyarrow, so that programs without `send_arrow` do not need it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.producer.bulk.arrow_append import PADDING, ArrowChunk, content
from fencepost.producer.bulk.arrow_plan import largest_row
from fencepost.producer.bulk.columns import Column, Columns
from fencepost.producer.bulk.rows import packed_headers
from fencepost.producer.errors import RecordTooLarge
from fencepost.producer.wire.records.sizes import RECORD_BOUND

CHUNK_ROWS = 65_536
SLOW_CHUNK_ROWS = 4_096
"""Rows of a chunk if Python code runs for each row."""
NOTHING = b""
BINARY = pa.binary()


def arrow_chunks(
    data: Any,
    *,
    value: str,
    key: str | None,
    partition: str | None,
    headers: str | None,
    timestamp: str | None,
    rows_max: int,
    largest: int,
    setting: str,
) -> Iterator[ArrowChunk]:
    """Chunks of a Table, RecordBatch or RecordBatchReader. Raises TypeError for a column of the wrong type, ValueError for a missing column
    or a number out of range, and RecordTooLarge with the number of the row."""
    first = 0
    for batch in batches_of(data, rows_max):
        values = binary_column(batch, value, "value")
        keys = binary_column(batch, key, "key") if key is not None else None
        columns = Columns(
            batch.num_rows,
            offsets_column(values),
            offsets_column(keys) if keys is not None else None,
            numbers(batch, partition, pa.int32(), "partition") if partition is not None else None,
            numbers(batch, timestamp, pa.int64(), "timestamp") if timestamp is not None else None,
            headers_column(batch, headers, first) if headers is not None else None,
        )
        if columns.key is not None and keys is not None:
            columns.key.data = content(keys)
        check_sizes(columns, first, largest, setting)
        highest = pc.max(batch.column(partition)).as_py() if partition is not None else None
        yield ArrowChunk(columns, first, -1 if highest is None else int(highest), keys=keys, values=values)
        first += batch.num_rows


def batches_of(data: Any, rows_max: int) -> Iterator[pa.RecordBatch]:
    """Record batches of at most so many rows."""
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        yield from data.to_batches(max_chunksize=rows_max)
    elif isinstance(data, pa.RecordBatchReader):
        for batch in data:
            yield from batches_of(batch, rows_max)
    elif hasattr(data, "__arrow_c_stream__"):
        yield from batches_of(pa.RecordBatchReader.from_stream(data), rows_max)
    else:
        raise TypeError(f"data must be a pyarrow Table, RecordBatch or RecordBatchReader, not {type(data).__name__}")


def column(batch: pa.RecordBatch, name: str, role: str) -> Any:
    """The column of that name, decoded if it is a dictionary."""
    place = batch.schema.get_field_index(name)
    if place < 0:
        raise ValueError(f"{role}={name!r}: there is no such column (or several); the columns are {', '.join(batch.schema.names)}")
    found = batch.column(place)
    return found.dictionary_decode() if pa.types.is_dictionary(found.type) else found


def binary_column(batch: pa.RecordBatch, name: str, role: str) -> Any:
    """A column of strings or binaries of any kind, as a binary array."""
    return binary_array(column(batch, name, role), name, role)


def binary_array(found: Any, name: str, role: str) -> Any:
    """`binary_column` of an array. `name` and `role` are for the error."""
    if found.type == BINARY:
        return found
    kinds = (
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_fixed_size_binary,
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_binary_view,
        pa.types.is_string_view,
        pa.types.is_null,
    )
    if not any(kind(found.type) for kind in kinds):
        raise TypeError(f"{role}={name!r} must be a string or binary column, not {found.type}: encode it first")
    return found.cast(pa.string() if pa.types.is_string_view(found.type) else pa.binary()).cast(pa.binary())


def offsets_column(column: Any) -> Column:
    """The offsets and nulls of a binary array, without its bytes."""
    count = len(column)
    if count == 0:
        return Column(PADDING, PADDING, None)
    ends = column.buffers()[1].slice(column.offset * 4, (count + 1) * 4)
    begin = int.from_bytes(ends[:4].to_pybytes(), "little")
    if begin:
        shifted = pc.subtract(pa.Array.from_buffers(pa.int32(), count + 1, [None, ends]), pa.scalar(begin, pa.int32()))
        ends = shifted.buffers()[1].slice(0, (count + 1) * 4)
    valid = column.is_valid().cast(pa.uint8()).buffers()[1].to_pybytes() if column.null_count else None
    return Column(NOTHING, ends.to_pybytes() + PADDING, valid)


def numbers(batch: pa.RecordBatch, name: str, kind: pa.DataType, role: str) -> bytes:
    """Partitions, or timestamps in ms; -1 for null."""
    found = column(batch, name, role)
    if role == "timestamp" and pa.types.is_timestamp(found.type):
        found = pc.floor_temporal(found, unit="millisecond").cast(pa.timestamp("ms", found.type.tz), safe=False)
        found = found.cast(pa.int64())
    if not pa.types.is_integer(found.type):
        raise TypeError(f"{role}={name!r} must be a column of integers{' or timestamps' if role == 'timestamp' else ''}, not {found.type}")
    lowest = pc.min(found).as_py()
    if lowest is not None and lowest < 0:
        raise ValueError(f"{role}={name!r} has {lowest}: from 0 on, or null")
    filled = pc.fill_null(found.cast(kind), pa.scalar(-1, kind))
    width = kind.bit_width // 8
    return bytes(filled.buffers()[1].slice(filled.offset * width, len(filled) * width).to_pybytes()) + PADDING


def headers_column(batch: pa.RecordBatch, name: str, first: int) -> list[bytes | None]:
    """Headers, packed: each a list of structs (key, value), as in Spark, or a map."""
    found = column(batch, name, "headers")
    headers: list[bytes | None] = []
    for row in found.to_pylist():
        if row is None:
            headers.append(None)
            continue
        pairs = [
            (each.get("key"), each.get("value")) if isinstance(each, dict) else each for each in (row if isinstance(row, list) else [row])
        ]
        headers.append(packed_headers(pairs, f"row {first + len(headers)}: headers={name!r}"))
    return headers


def check_sizes(columns: Columns, first: int, largest: int, setting: str) -> None:
    """Raise RecordTooLarge, with the number of the row, if the largest row exceeds the limit."""
    most, row = largest_row(columns)
    if most + RECORD_BOUND > largest:
        raise RecordTooLarge(f"row {first + row}: a record of up to {most + RECORD_BOUND} bytes exceeds {setting}")
