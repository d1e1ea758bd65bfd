"""Writes records of format v2 straight into an open batch: the hot path of the producer.

It refuses what the format cannot hold: a timestamp below -1, a record of 2 GiB, and anything after the batch was closed. A
refused record leaves the batch as it was. It does not lock: the owner of a builder keeps other threads out.

Compiled by mypyc; it writes the same bytes uncompiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mypy_extensions import i64

from fencepost.producer.foundations.runtime import BytesWriter, write_i64_le
from fencepost.producer.wire.codecs.codec import Codec, compress
from fencepost.producer.wire.records.batch_header import NO_TIMESTAMP
from fencepost.producer.wire.records.record_prefix import SMALL_BYTES, write_long_prefix
from fencepost.producer.wire.records.sizes import BATCH_OVERHEAD
from fencepost.producer.wire.schema.varint import write_signed

Headers = Sequence[tuple[str, bytes | None]]

COPIED_BYTES_MAX: Final = 8192
"""Encoded records of at most this many bytes are copied, because a piece of their own costs more."""

PIECES_MAX: Final = 4
"""A batch with more pieces than this is joined: the checksum and the write handle each piece on its own, and copying is cheaper."""


def write_sized(writer: BytesWriter, content: bytes | None) -> None:
    """Append a nullable byte string with its length in front, -1 for null."""
    if content is None:
        writer.append(1)
    else:
        write_signed(writer, len(content))
        writer.write(content)


def pack_headers(headers: Headers) -> bytes:
    """Encode headers as in a record, with their count in front. A name that UTF-8 cannot encode raises UnicodeEncodeError.

    Callers pack headers before they lock a batch, to hold the lock for a short time.
    """
    writer = BytesWriter()
    write_signed(writer, len(headers))
    for name, content in headers:
        write_sized(writer, name.encode())
        write_sized(writer, content)
    return writer.getvalue()


def write_record(
    writer: BytesWriter, offset_delta: i64, timestamp_delta: i64, key: bytes | None, value: bytes | None, headers: bytes | None
) -> i64:
    """Append one record and return how many bytes it took. `headers`: packed. If this raises, the writer is unchanged."""
    # These are statements, because mypyc boxes the value of a conditional expression of two integer types.
    key_length: i64 = 0
    key_field: i64 = 1
    if key is not None:
        key_length = len(key)
        key_field = key_length << 1
    value_length: i64 = 0
    value_field: i64 = 1
    if value is not None:
        value_length = len(value)
        value_field = value_length << 1
    content: i64 = key_length + value_length
    if headers is None:
        content += 1
    else:
        content += len(headers)
    start: i64 = len(writer)
    timestamp_field: i64 = (timestamp_delta << 1) ^ (timestamp_delta >> 63)
    offset_field: i64 = offset_delta << 1
    try:
        if 0 <= timestamp_field < 16384 and 0 <= offset_field < 16384 and key_field < 128 and content < SMALL_BYTES:
            # Nearly every record. Its prefix fits eight bytes: they are put together in one word, lowest byte first, and written at once,
            # because a call for each byte is expensive. For the same reason this is not a call of `write_prefix`, which does the same.
            word: i64 = timestamp_field << 8
            bits: i64 = 16
            if timestamp_field >= 128:
                word = (timestamp_field & 0x7F | 0x80 | timestamp_field >> 7 << 8) << 8
                bits = 24
            if offset_field < 128:
                word |= offset_field << bits
                bits += 8
            else:
                word |= (offset_field & 0x7F | 0x80 | offset_field >> 7 << 8) << bits
                bits += 16
            word |= key_field << bits
            body_field: i64 = content + (bits >> 3) + 2 << 1
            if value_field >= 128:
                body_field += 2
            if body_field < 128:
                word = word << 8 | body_field
                bits += 16
            else:
                word = word << 16 | body_field & 0x7F | 0x80 | body_field >> 7 << 8
                bits += 24
            end: i64 = start + (bits >> 3)
            write_i64_le(writer, word)
            writer.truncate(end)
            if key is not None:
                writer.write(key)
            if value_field < 128:
                low: int = value_field
                writer.append(low)
            else:
                write_i64_le(writer, value_field & 0x7F | 0x80 | value_field >> 7 << 8)
                writer.truncate(end + key_length + 2)
            if value is not None:
                writer.write(value)
        else:
            write_long_prefix(writer, offset_delta, timestamp_delta, key_field, value_field, content)
            if key is not None:
                writer.write(key)
            write_sized(writer, value)
        if headers is None:
            writer.append(0)
        else:
            writer.write(headers)
        size: i64 = len(writer)
    except BaseException:
        writer.truncate(start)
        raise
    return size - start


class BatchBuilder:
    """An open batch of records without their header.

    `count`, `base_timestamp` (the first record's; -1 while there is none) and `max_timestamp` go into the header. `size` is the exact size
    of the batch so far in bytes, uncompressed and with the header's 61 bytes.
    """

    def __init__(self) -> None:
        self._writer = BytesWriter()
        self._pieces: list[bytes | memoryview] = []
        self._closed: bool = False
        self.count: i64 = 0
        self.size: i64 = BATCH_OVERHEAD
        self.base_timestamp: i64 = NO_TIMESTAMP
        self.max_timestamp: i64 = NO_TIMESTAMP

    def append(self, timestamp: i64, key: bytes | None, value: bytes | None, headers: bytes | None) -> None:
        """Add one record with packed headers. The timestamp is in milliseconds since 1970, -1 for none. Timestamps may decrease."""
        if self._closed:
            raise ValueError("the batch is closed")
        # The second half is for plain Python: an i64 is never above 2^63-1. mypyc would convert a constant of 2^63-1 at every record.
        if timestamp < NO_TIMESTAMP or timestamp >> 63 > 0:
            raise ValueError(f"{timestamp} is not a timestamp: the lowest is -1, the highest 2^63 - 1")
        count: i64 = self.count
        base: i64 = timestamp if count == 0 else self.base_timestamp
        self.size += write_record(self._writer, count, timestamp - base, key, value, headers)
        self.count = count + 1
        self.base_timestamp = base
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp

    def extend(self, records: bytes | memoryview, count: i64, size: i64, base_timestamp: i64, max_timestamp: i64) -> None:
        """Add records that were encoded for this place, large ones without a copy. `size` and the timestamps become those of the batch."""
        if self._closed:
            raise ValueError("the batch is closed")
        writer = self._writer
        begun: i64 = len(writer)
        if len(records) <= COPIED_BYTES_MAX:
            try:
                writer.write(records if isinstance(records, bytes) else bytes(records))
            except BaseException:
                writer.truncate(begun)
                raise
        elif begun > 0:
            head, rest = writer.getvalue(), BytesWriter()
            self._pieces += [head, records]
            self._writer = rest
        else:
            self._pieces += [records]
        self.count += count
        self.size = size
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp

    def pieces(self) -> list[bytes | memoryview]:
        """Close the batch and return its records, uncompressed, end to end, in a few pieces."""
        if self._closed:
            raise ValueError("the batch is closed")
        self._closed = True
        pieces = self._pieces
        if len(self._writer) > 0 or not pieces:
            pieces.append(self._writer.getvalue())
        # The sender keeps the batch until its outcome is known. The builder drops its copy of the bytes.
        self._writer, self._pieces = BytesWriter(), []
        return pieces if len(pieces) <= PIECES_MAX else [b"".join(pieces)]

    def payload(self, codec: Codec, level: int | None = None) -> bytes:
        """Close the batch and return its records in one piece, compressed."""
        return compress(codec, joined(self.pieces()), level=level)


def joined(pieces: list[bytes | memoryview]) -> bytes:
    """The pieces as one bytes object."""
    first = pieces[0]
    return first if len(pieces) == 1 and isinstance(first, bytes) else b"".join(pieces)
