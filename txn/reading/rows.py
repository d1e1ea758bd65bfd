"""Record batches of the log as Arrow columns, those of Spark's Kafka source. No row and no header becomes a Python object.

`RowBuilder` decodes one record batch after another into one piece of columns. `committed` decides which batches count.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.producer.wire.codecs.codec import CorruptBatch, decompress
from fencepost.producer.wire.records.batch_header import BatchHeader, check_crc
from fencepost.producer.wire.records.record_columns import RecordColumns
from fencepost.producer.wire.records.sizes import BATCH_OVERHEAD

HEADERS: Final = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))
SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
    ]
)
SCHEMA_WITH_HEADERS: Final = SCHEMA.append(pa.field("headers", HEADERS))

PIECES: Final = 4
"""The pieces of a row: the bytes before the key, the key, the bytes between, the value."""

UNCHECKED: Final = pc.TakeOptions(boundscheck=False)
MS_MAX: Final = ((1 << 63) - 1) // 1000
"""The last millisecond that fits Spark's timestamps, which count microseconds."""


class RowBuilder:
    """One piece of columns of one partition. `opened`: the bytes of records that were decoded into it."""

    def __init__(self, topic: str, partition: int, *, include_headers: bool) -> None:
        self.opened = 0
        self._topic = topic
        self._partition = partition
        self._include_headers = include_headers
        self._columns = RecordColumns(with_headers=include_headers)
        self._parts: list[bytes] = []
        self._types: list[tuple[int, int]] = []

    @property
    def rows(self) -> int:
        return int(self._columns.rows)

    def add(self, header: BatchHeader, batch: memoryview, first: int, until: int) -> None:
        """The records from offset `first` to before `until`. Raises CorruptBatch."""
        if not check_crc(batch):
            raise CorruptBatch("the checksum does not match")
        if header.records_count == 0:
            return
        data = decompress(header.codec, batch[BATCH_OVERHEAD:])
        before = self.rows
        self._columns.append(
            data,
            header.records_count,
            place=self.opened,
            base_offset=header.base_offset,
            base_timestamp=header.base_timestamp,
            append_time=header.max_timestamp if header.timestamp_type else None,
            first=first,
            until=until,
        )
        self._parts.append(data)
        self.opened += len(data)
        self._types.append((header.timestamp_type, self.rows - before))

    def finish(self) -> Any:
        """The columns, as a record batch with SCHEMA or SCHEMA_WITH_HEADERS."""
        columns, rows = self._columns, self.rows
        data = pa.py_buffer(self._parts[0] if len(self._parts) == 1 else b"".join(self._parts))
        nulls = columns.nulls.getvalue() if columns.null_keys or columns.null_values else b""
        pieces = columns.pieces.getvalue()
        arrays = [
            _picked(pieces, data, rows, 1, _valid(nulls, 1) if columns.null_keys else None),
            _picked(pieces, data, rows, 3, _valid(nulls, 2) if columns.null_values else None),
            pa.repeat(pa.scalar(self._topic, pa.string()), rows),
            pa.repeat(pa.scalar(self._partition, pa.int32()), rows),
            _numbers(pa.int64(), columns.offsets.getvalue(), rows),
            self._timestamps(rows),
            _runs(self._types),
        ]
        if self._include_headers:
            arrays.append(_headers(columns, data))
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA_WITH_HEADERS if self._include_headers else SCHEMA)

    def _timestamps(self, rows: int) -> Any:
        ms = _numbers(pa.timestamp("ms", "UTC"), self._columns.timestamps.getvalue(), rows)
        try:
            return ms.cast(pa.timestamp("us", "UTC"))
        except pa.ArrowInvalid:
            raise CorruptBatch(f"a record has a timestamp beyond {MS_MAX} ms, which fits no timestamp of microseconds") from None


def _picked(pieces: bytes, data: Any, rows: int, which: int, valid: Any) -> Any:
    """A binary column of every fourth piece, from `which` on."""
    if rows == 0:
        return pa.array([], pa.binary())
    # The first piece begins with the data; each other piece begins where the previous one ends.
    ends = pa.py_buffer(b"\0\0\0\0" + pieces)
    pool = pa.Array.from_buffers(pa.binary(), PIECES * rows, [None, ends, data])
    places = _places(which, 1 << (rows - 1).bit_length()).slice(0, rows)
    if valid is not None:
        places = pc.if_else(valid, places, pa.scalar(None, pa.int32()))
    return pc.call_function("take", [pool, places], UNCHECKED)


@lru_cache(maxsize=32)
def _places(which: int, rows: int) -> Any:
    return _numbers(pa.int32(), array("i", range(which, PIECES * rows, PIECES)).tobytes(), rows)


def _valid(nulls: bytes, bit: int) -> Any:
    """Booleans: true where the bit is not set."""
    flags = pa.Array.from_buffers(pa.uint8(), len(nulls), [None, pa.py_buffer(nulls)])
    return pc.equal(pc.bit_wise_and(flags, pa.scalar(bit, pa.uint8())), pa.scalar(0, pa.uint8()))


def _numbers(kind: Any, data: bytes, rows: int) -> Any:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(data)])


def _runs(types: list[tuple[int, int]]) -> Any:
    """0 or 1 for each row; a batch has one timestamp type for all its rows."""
    found = {kind for kind, count in types if count}
    rows = sum(count for _, count in types)
    if len(found) <= 1:
        return pa.repeat(pa.scalar(found.pop() if found else 0, pa.int32()), rows)
    return pa.concat_arrays([pa.repeat(pa.scalar(kind, pa.int32()), count) for kind, count in types])


def _headers(columns: RecordColumns, data: Any) -> Any:
    """Lists of (name, value); null for a record without headers, as in Spark's source."""
    rows, count = int(columns.rows), int(columns.headers)
    pieces = columns.header_pieces.getvalue()
    names = _picked(pieces, data, count, 1, None)
    flags = columns.header_nulls.getvalue()
    values = _picked(pieces, data, count, 3, _valid(flags, 1) if columns.null_header_values else None)
    try:
        texts = names.cast(pa.string())
    except pa.ArrowInvalid:
        # Invalid UTF-8 gets replacement characters, as in Kafka's clients.
        texts = pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())
    ends = _numbers(pa.int64(), bytes(8) + columns.header_ends.getvalue(), rows + 1).cast(pa.int32())
    empty = pc.equal(ends.slice(1), ends.slice(0, rows))
    starts = pc.if_else(pa.concat_arrays([empty, pa.array([False])]), pa.scalar(None, pa.int32()), ends)
    return pa.ListArray.from_arrays(starts, pa.StructArray.from_arrays([texts, values], fields=list(HEADERS.value_type)), type=HEADERS)
