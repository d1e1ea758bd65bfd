"""Writes the bytes before the key of a record: its length, attributes, deltas, and the length of its key.

It does not write keys, values or headers: `batch_builder` writes whole records, and Arrow copies keys and values after the prefixes.
Compiled by mypyc.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from fencepost.producer.foundations.counted import counted
from fencepost.producer.foundations.runtime import BytesWriter, write_i64_le
from fencepost.producer.wire.schema.varint import signed_size, unsigned_size, write_signed, write_unsigned

BODY_BYTES_MAX: Final = 0x7FFFFFFF
SMALL_BYTES: Final = 8180
"""If key, value and headers together take fewer bytes than this, the lengths of record and value take at most two bytes each."""


def write_prefix(
    writer: BytesWriter, offset_delta: i64, timestamp_delta: i64, key_length: i64, value_length: i64, headers_length: i64
) -> i64:
    """Append the prefix of a record and return how many bytes the whole record takes. A key or value of length -1 is null.
    `headers_length` includes the count of headers."""
    # These are statements, because mypyc boxes the value of a conditional expression of two integer types.
    content: i64 = headers_length
    key_field: i64 = 1
    if key_length >= 0:
        key_field = key_length << 1
        content += key_length
    value_field: i64 = 1
    if value_length >= 0:
        value_field = value_length << 1
        content += value_length
    timestamp_field: i64 = (timestamp_delta << 1) ^ (timestamp_delta >> 63)
    offset_field: i64 = offset_delta << 1
    if 0 <= timestamp_field < 16384 and 0 <= offset_field < 16384 and key_field < 128 and content < SMALL_BYTES:
        # Nearly every record, as in `batch_builder.write_record`.
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
        small: i64 = content + (bits >> 3) + 2
        if value_field >= 128:
            small += 1
        end: i64 = len(writer) + (bits >> 3) + 2
        if small < 64:
            write_i64_le(writer, word << 8 | small << 1)
            writer.truncate(end)
            return small + 1
        body_field: i64 = small << 1
        write_i64_le(writer, word << 16 | body_field & 0x7F | 0x80 | body_field >> 7 << 8)
        writer.truncate(end + 1)
        return small + 2
    return write_long_prefix(writer, offset_delta, timestamp_delta, key_field, value_field, content)


def write_long_prefix(writer: BytesWriter, offset_delta: i64, timestamp_delta: i64, key_field: i64, value_field: i64, content: i64) -> i64:
    """`write_prefix` for any lengths and deltas. `key_field` and `value_field`: the lengths in zigzag form. `content`: the bytes of key,
    value and headers."""
    deltas: i64 = signed_size(timestamp_delta) + signed_size(offset_delta)
    body: i64 = content + 1 + deltas + unsigned_size(key_field) + unsigned_size(value_field)
    if body > BODY_BYTES_MAX:
        raise ValueError(f"a record of {counted(body, 'byte')} does not fit the format: the limit is {BODY_BYTES_MAX} bytes")
    write_signed(writer, body)
    writer.append(0)
    write_signed(writer, timestamp_delta)
    write_signed(writer, offset_delta)
    write_unsigned(writer, key_field)
    return signed_size(body) + body
