"""Columns of bytes from Arrow tables and record batches, for `send_arrow`.

Types are checked before anything is appended; no row becomes a Python object, but where there are headers. pyarrow is imported here only,
so that nobody needs it who does not use it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from producer.chunks import Chunk
from producer.core.bulk_append import Column, Columns
from producer.core.errors import RecordTooLarge
from producer.core.rows import RECORD_BOUND, is_header

CHUNK_ROWS = 65_536
PADDING = bytes(8)


def arrow_chunks(
    data: Any,
    *,
    value: str,
    key: str | None,
    partition: str | None,
    headers: str | None,
    timestamp: str | None,
    largest: int,
    setting: str,
) -> Iterator[Chunk]:
    """Chunks of a Table, RecordBatch or RecordBatchReader. Raises TypeError for a column of the wrong type, ValueError for one that is not
    there or numbers out of range, RecordTooLarge with the number of the row."""
    first = 0
    for batch in batches_of(data):
        columns = Columns(
            batch.num_rows,
            binary_column(batch, value, "value"),
            binary_column(batch, key, "key") if key is not None else None,
            numbers(batch, partition, pa.int32(), "partition") if partition is not None else None,
            numbers(batch, timestamp, pa.int64(), "timestamp") if timestamp is not None else None,
            headers_column(batch, headers) if headers is not None else None,
        )
        check_sizes(batch, value, key, first, largest, setting)
        highest = pc.max(batch.column(partition)).as_py() if partition is not None else None
        yield Chunk(columns, batch.num_rows, first, -1 if highest is None else int(highest))
        first += batch.num_rows


def batches_of(data: Any) -> Iterator[pa.RecordBatch]:
    """Record batches of at most CHUNK_ROWS rows."""
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        yield from data.to_batches(max_chunksize=CHUNK_ROWS)
    elif isinstance(data, pa.RecordBatchReader):
        for batch in data:
            yield from batches_of(batch)
    elif hasattr(data, "__arrow_c_stream__"):
        yield from batches_of(pa.RecordBatchReader.from_stream(data))
    else:
        raise TypeError(f"data must be a pyarrow Table, RecordBatch or RecordBatchReader, not {type(data).__name__}")


def column(batch: pa.RecordBatch, name: str, role: str) -> Any:
    """The column of that name, dictionaries resolved."""
    place = batch.schema.get_field_index(name)
    if place < 0:
        raise ValueError(f"{role}={name!r}: there is no such column (or several); the columns are {', '.join(batch.schema.names)}")
    found = batch.column(place)
    return found.dictionary_decode() if pa.types.is_dictionary(found.type) else found


def binary_column(batch: pa.RecordBatch, name: str, role: str) -> Column:
    """Strings and binaries of every kind as bytes end to end."""
    found = column(batch, name, role)
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
    plain = found.cast(pa.string() if pa.types.is_string_view(found.type) else pa.binary()).cast(pa.binary())
    _, offsets, content = plain.buffers()
    count = len(plain)
    if count == 0:
        return Column(PADDING, PADDING, None)
    ends = offsets.slice(plain.offset * 4, (count + 1) * 4).to_pybytes()
    begin, end = int.from_bytes(ends[:4], "little"), int.from_bytes(ends[-4:], "little")
    if begin:
        shifted = pc.subtract(pa.Array.from_buffers(pa.int32(), count + 1, [None, pa.py_buffer(ends)]), pa.scalar(begin, pa.int32()))
        ends = shifted.buffers()[1].to_pybytes()[: (count + 1) * 4]
    data = content.slice(begin, end - begin).to_pybytes() if content is not None else b""
    valid = None
    if plain.null_count:
        valid = plain.is_valid().cast(pa.uint8()).buffers()[1].to_pybytes()
    return Column(data + PADDING, ends + PADDING, valid)


def numbers(batch: pa.RecordBatch, name: str, kind: pa.DataType, role: str) -> bytes:
    """Partitions, or timestamps in ms; -1 where there is none."""
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


def headers_column(batch: pa.RecordBatch, name: str) -> list[Any]:
    """Headers as Spark and Kafka have them: a list of structs (key, value), or a map."""
    found = column(batch, name, "headers")
    headers: list[Any] = []
    for row in found.to_pylist():
        if row is None:
            headers.append(None)
            continue
        pairs = [(each["key"], each["value"]) if isinstance(each, dict) else (each[0], each[1]) for each in row]
        for pair in pairs:
            if not is_header(pair):
                raise TypeError(f"headers={name!r} must hold string names with binary values, not {pair!r}")
        headers.append(pairs)
    return headers


def check_sizes(batch: pa.RecordBatch, value: str, key: str | None, first: int, largest: int, setting: str) -> None:
    """RecordTooLarge with the number of the first row that is; headers are not counted, the broker refuses what they make too large."""
    size = pc.fill_null(pc.binary_length(as_binary(column(batch, value, "value"))), 0)
    if key is not None:
        size = pc.add(size, pc.fill_null(pc.binary_length(as_binary(column(batch, key, "key"))), 0))
    most = pc.max(size).as_py()
    if most is not None and most + RECORD_BOUND > largest:
        row = pc.index(size, most).as_py()
        raise RecordTooLarge(f"row {first + row}: a record of up to {most + RECORD_BOUND} bytes exceeds {setting}")


def as_binary(found: Any) -> Any:
    """What `binary_length` can take."""
    if pa.types.is_string_view(found.type):
        return found.cast(pa.string())
    return found.cast(pa.binary()) if pa.types.is_null(found.type) or pa.types.is_binary_view(found.type) else found
