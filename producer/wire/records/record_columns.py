"""Finds keys, values and headers in the records of batches, and returns their positions in buffers for Arrow's columns.

It makes no object per row, and does not copy the bytes. It skips records outside the wanted offsets. It refuses what `record_reader`
refuses, but does not read headers that the caller does not want. Compiled by mypyc.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from fencepost.producer.foundations.counted import counted
from fencepost.producer.foundations.runtime import BytesWriter, write_i64_le
from fencepost.producer.wire.codecs.codec import CorruptBatch
from fencepost.producer.wire.records.record_reader import RECORD_BYTES_MIN, TIMESTAMP_MAX
from fencepost.producer.wire.schema.varint import VarintError, read_signed, read_signed_long

ENDS_MAX: Final = (1 << 31) - 1
"""The highest position that Arrow's 32-bit offsets can hold."""


class RecordColumns:
    """The rows of several batches, whose records lie end to end in one piece of memory.

    - `pieces`: four 32-bit numbers a row: where its key begins and ends, and where its value begins and ends.
    - `nulls`: one byte a row: 1 if the key is null, 2 if the value is null, 3 if both are.
    - `offsets`, `timestamps`: one 64-bit number a row; timestamps are in milliseconds since 1970.
    - `header_pieces`: four 32-bit numbers a header, for its name and its value.
    - `header_ends`: one 64-bit number a row: how many headers this row and the rows before it have.
    - `header_nulls`: one byte a header: 1 if its value is null.
    """

    def __init__(self, *, with_headers: bool = False) -> None:
        self.rows: i64 = 0
        self.headers: i64 = 0
        self.null_keys: i64 = 0
        self.null_values: i64 = 0
        self.null_header_values: i64 = 0
        self.pieces = BytesWriter()
        self.offsets = BytesWriter()
        self.timestamps = BytesWriter()
        self.nulls = BytesWriter()
        self.header_pieces = BytesWriter()
        self.header_ends = BytesWriter()
        self.header_nulls = BytesWriter()
        self._with_headers = with_headers

    def append(
        self,
        data: bytes,
        count: i64,
        *,
        place: i64,
        base_offset: i64,
        base_timestamp: i64,
        append_time: int | None,
        first: i64,
        until: i64,
    ) -> None:
        """Add the rows of a batch of `count` records at `place`, from offset `first` to before `until`.

        An append time replaces every record's timestamp.
        """
        if count < 0 or count * RECORD_BYTES_MIN > len(data):
            raise CorruptBatch(f"{counted(count, 'record')} in {counted(len(data), 'byte')}")
        if place + len(data) > ENDS_MAX:
            raise ValueError(f"{counted(len(data), 'byte')} at {place}: positions above {ENDS_MAX} do not fit")
        at: i64 = 0
        index: i64 = 0
        fixed_time: i64 = append_time if append_time is not None else 0
        size: i64 = len(data)
        begun: i64 = self.rows
        room: i64 = until - first if first > 0 else until  # The wanted range has so many offsets.
        try:
            while index < count:
                length, at = read_signed(data, at)
                stop: i64 = at + length
                if length < 0 or stop > size:
                    raise CorruptBatch(f"record {index} claims {counted(length, 'byte')}, {size - at} are there")
                timestamp, at = read_signed_long(data, at + 1)
                delta, at = read_signed(data, at)
                key_length, key_begin = read_signed(data, at)
                key_end: i64 = key_begin + key_length if key_length > 0 else key_begin
                if key_end > stop:
                    raise CorruptBatch(f"record {index}: a key of {counted(key_length, 'byte')}, {stop - key_begin} are there")
                value_length, value_begin = read_signed(data, key_end)
                value_end: i64 = value_begin + value_length if value_length > 0 else value_begin
                if value_end > stop:
                    raise CorruptBatch(f"record {index}: a value of {counted(value_length, 'byte')}, {stop - value_begin} are there")
                if value_end >= stop:
                    raise CorruptBatch(f"record {index} claims {counted(length, 'byte')} and ends before its headers")
                if data[value_end] == 0 and value_end + 1 != stop:
                    raise CorruptBatch(f"record {index} claims {counted(length, 'byte')}, its fields take {length + value_end + 1 - stop}")
                offset: i64 = base_offset + delta
                if first <= offset < until:
                    if self.rows - begun >= room:
                        raise CorruptBatch(f"record {index} repeats an offset")
                    if append_time is not None:
                        timestamp = fixed_time
                    elif base_timestamp > 0 and timestamp > TIMESTAMP_MAX - base_timestamp:
                        raise CorruptBatch(f"record {index} has a timestamp above 2^63 - 1")
                    elif base_timestamp < 0 and timestamp < -TIMESTAMP_MAX - 1 - base_timestamp:
                        raise CorruptBatch(f"record {index} has a timestamp below -2^63")
                    else:
                        timestamp += base_timestamp
                    write_i64_le(self.pieces, (place + key_begin) | (place + key_end) << 32)
                    write_i64_le(self.pieces, (place + value_begin) | (place + value_end) << 32)
                    write_i64_le(self.offsets, offset)
                    write_i64_le(self.timestamps, timestamp)
                    nulls: int = 0
                    if key_length < 0:
                        nulls = 1
                        self.null_keys += 1
                    if value_length < 0:
                        nulls += 2
                        self.null_values += 1
                    self.nulls.append(nulls)
                    self.rows += 1
                    if self._with_headers:
                        self._append_headers(data, value_end, stop, place)
                at = stop
                index += 1
        except VarintError as error:
            raise CorruptBatch(f"record {index}: {error}") from None
        if at != size:
            raise CorruptBatch(f"{counted(size - at, 'byte')} after the last record")

    def _append_headers(self, data: bytes, start: i64, stop: i64, place: i64) -> None:
        count, at = read_signed(data, start)
        if count < 0 or count > stop - at:
            raise CorruptBatch(f"{counted(count, 'header')} in {counted(stop - at, 'byte')}")
        index: i64 = 0
        while index < count:
            name_length, name_begin = read_signed(data, at)
            if name_length < 0:
                raise CorruptBatch(f"a header without a name before byte {name_begin}")
            name_end: i64 = name_begin + name_length
            if name_end > stop:
                raise CorruptBatch(f"{counted(name_length, 'byte')} at byte {name_begin}, {stop - name_begin} are there")
            value_length, value_begin = read_signed(data, name_end)
            at = value_begin + value_length if value_length > 0 else value_begin
            if at > stop:
                raise CorruptBatch(f"{counted(value_length, 'byte')} at byte {value_begin}, {stop - value_begin} are there")
            write_i64_le(self.header_pieces, (place + name_begin) | (place + name_end) << 32)
            write_i64_le(self.header_pieces, (place + value_begin) | (place + at) << 32)
            null: int = 0
            if value_length < 0:
                null = 1
                self.null_header_values += 1
            self.header_nulls.append(null)
            index += 1
        if at != stop:
            raise CorruptBatch(f"the headers end at byte {at}, the record at {stop}")
        self.headers += count
        write_i64_le(self.header_ends, self.headers)
