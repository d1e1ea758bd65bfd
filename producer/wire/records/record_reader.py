"""Reads the records of one batch, uncompressed and without the batch header.

It reads what Kafka's clients read: any negative key or value length is null, and a header name that is not UTF-8 gets replacement
characters. It refuses, with `CorruptBatch`, lengths that do not add up, fewer records than announced, and bytes after the last one. If the
caller does not want the headers, it skips them unread. Compiled by mypyc. The caller passes the function that makes a record, because
Structs are not compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from mypy_extensions import i64

from fencepost.producer.foundations.counted import counted
from fencepost.producer.wire.codecs.codec import CorruptBatch
from fencepost.producer.wire.schema.varint import VarintError, read_signed, read_signed_long

T = TypeVar("T")
Headers = tuple[tuple[str, bytes | None], ...]

RECORD_BYTES_MIN: Final = 7
TIMESTAMP_MAX: Final = 0x7FFFFFFFFFFFFFFF


def parse_records(
    data: bytes,
    count: i64,
    *,
    base_offset: i64,
    base_timestamp: i64,
    append_time: int | None,
    base_sequence: i64,
    make: Callable[[int, int, bytes | None, bytes | None, Headers, int], T],
    with_headers: bool = True,
) -> list[T]:
    """Each record as `make(offset, timestamp, key, value, headers, sequence)`. An append time replaces every record's timestamp."""
    if count < 0 or count * RECORD_BYTES_MIN > len(data):
        raise CorruptBatch(f"{counted(count, 'record')} in {counted(len(data), 'byte')}")
    records: list[T] = []
    at: i64 = 0
    index: i64 = 0
    try:
        while index < count:
            length, at = read_signed(data, at)
            stop: i64 = at + length
            if length < 0 or stop > len(data):
                raise CorruptBatch(f"record {index} claims {counted(length, 'byte')}, {len(data) - at} are there")
            timestamp_delta, at = read_signed_long(data, at + 1)
            offset_delta, at = read_signed(data, at)
            key, at = _read_sized(data, at, stop)
            value, at = _read_sized(data, at, stop)
            headers: Headers = ()
            if at >= stop:
                raise CorruptBatch(f"record {index} claims {counted(length, 'byte')} and ends before its headers")
            if data[at] == 0:
                at += 1
            elif not with_headers:
                at = stop
            else:
                headers, at = _read_headers(data, at, stop)
            if at != stop:
                raise CorruptBatch(f"record {index} claims {counted(length, 'byte')}, its fields take {length + at - stop}")
            timestamp: int
            if append_time is not None:
                timestamp = append_time
            elif base_timestamp > 0 and timestamp_delta > TIMESTAMP_MAX - base_timestamp:
                raise CorruptBatch(f"record {index} has a timestamp above 2^63 - 1")
            elif base_timestamp < 0 and timestamp_delta < -TIMESTAMP_MAX - 1 - base_timestamp:
                raise CorruptBatch(f"record {index} has a timestamp below -2^63")
            else:
                timestamp = base_timestamp + timestamp_delta
            sequence: i64 = -1
            if base_sequence >= 0:
                sequence = (base_sequence + offset_delta) & 0x7FFFFFFF
            records.append(make(base_offset + offset_delta, timestamp, key, value, headers, sequence))
            index += 1
    except VarintError as error:
        raise CorruptBatch(f"record {index}: {error}") from None
    if at != len(data):
        raise CorruptBatch(f"{counted(len(data) - at, 'byte')} after the last record")
    return records


def _read_sized(data: bytes, start: i64, stop: i64) -> tuple[bytes | None, i64]:
    length, at = read_signed(data, start)
    if length < 0:
        return None, at
    end: i64 = at + length
    if end > stop:
        raise CorruptBatch(f"{counted(length, 'byte')} at byte {at}, {stop - at} are there")
    return data[at:end], end


def _read_headers(data: bytes, start: i64, stop: i64) -> tuple[Headers, i64]:
    count, at = read_signed(data, start)
    if count < 0 or count > stop - at:
        raise CorruptBatch(f"{counted(count, 'header')} in {counted(stop - at, 'byte')}")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _read_sized(data, at, stop)
        if name is None:
            raise CorruptBatch(f"a header without a name before byte {at}")
        value, at = _read_sized(data, at, stop)
        headers.append((name.decode(errors="replace"), value))
    return tuple(headers), at
