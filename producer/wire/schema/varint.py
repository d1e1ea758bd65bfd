"""Variable-length integers, base 128, low group first: unsigned as in compact protocol fields, or zigzag as in records.

It reads what Kafka reads: at most five bytes for 32 bits and ten for 64. It accepts longer forms than needed, and drops bits past the
width. It refuses, with `VarintError`, an integer that does not end within that many bytes or within the data. It does not know what the
numbers mean.

Compiled by mypyc. All values are 64 bits wide here: a 32-bit value is the same number, so its zigzag form is the same.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from fencepost.producer.foundations.runtime import BytesWriter, write_i64_le

WITHOUT_SIGN: Final = (1 << 57) - 1
"""Clears what an arithmetic shift right by seven drags into the top of a 64-bit value."""


class VarintError(ValueError):
    """The bytes at this place are not an integer: it has too many bytes, or the data end too early."""


def zigzag(n: i64) -> i64:
    """Fold the sign into the lowest bit: 0, -1, 1, -2 become 0, 1, 2, 3. Read the result as unsigned."""
    return (n << 1) ^ (n >> 63)


def unsigned_size(n: i64) -> i64:
    """How many bytes the unsigned form of `n` takes."""
    size: i64 = 1
    rest: i64 = (n >> 7) & WITHOUT_SIGN
    while rest:
        size += 1
        rest >>= 7
    return size


def signed_size(n: i64) -> i64:
    """How many bytes the zigzag form of `n` takes: one from -64 to 63."""
    return 1 if -64 <= n < 64 else unsigned_size(zigzag(n))


def write_unsigned(writer: BytesWriter, n: i64) -> None:
    """Append the unsigned form of `n`."""
    if 0 <= n < 128:
        low: int = n
        writer.append(low)
        return
    # Up to eight groups go into one word, which is written whole and cut to its length: one call for many.
    word: i64 = 0
    shift: i64 = 0
    rest: i64 = n
    while rest & -128 and shift < 56:
        word |= ((rest & 0x7F) | 0x80) << shift
        rest = (rest >> 7) & WITHOUT_SIGN
        shift += 8
    more: bool = (rest & -128) != 0
    end: i64 = len(writer) + (shift >> 3)
    if not more:
        word |= rest << shift
        end += 1
    write_i64_le(writer, word)
    writer.truncate(end)
    if more:
        write_unsigned(writer, rest)


def write_signed(writer: BytesWriter, n: i64) -> None:
    """Append the zigzag form of `n`: a varint or a varlong."""
    write_unsigned(writer, zigzag(n))


def encode_signed(n: int) -> bytes:
    """The zigzag form of `n`, which must be from -2^63 to 2^63-1."""
    if not -(1 << 63) <= n < 1 << 63:
        raise ValueError(f"{n} does not fit a signed varlong")
    writer = BytesWriter()
    write_signed(writer, n)
    return writer.getvalue()


def _read_groups(data: bytes, start: i64, groups_max: i64) -> tuple[i64, i64]:
    last: i64 = len(data)
    if start + groups_max < last:
        last = start + groups_max
    end: i64 = start
    value: i64 = 0
    shift: i64 = 0
    while 0 <= end < last:
        group: i64 = data[end]
        end += 1
        value |= (group & 0x7F) << shift
        if group < 128:
            return value, end
        shift += 7
    raise VarintError(f"integer at byte {start} does not end within {max(last - start, 0)} bytes")


def read_signed(data: bytes, start: i64) -> tuple[i64, i64]:
    """The zigzag 32-bit value at `start` (a varint), and where the next byte is."""
    value, end = _read_groups(data, start, 5)
    return (value >> 1) & 0x7FFFFFFF ^ -(value & 1), end


def read_signed_long(data: bytes, start: i64) -> tuple[i64, i64]:
    """The zigzag 64-bit value at `start` (a varlong), and where the next byte is."""
    value, end = _read_groups(data, start, 10)
    return (value >> 1) & 0x7FFFFFFFFFFFFFFF ^ -(value & 1), end
