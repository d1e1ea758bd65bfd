"""Variable-length integers, against reference vectors and a model of a few lines."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fencepost.producer.foundations.runtime import BytesWriter
from fencepost.producer.wire.schema import varint

I64 = st.integers(-(2**63), 2**63 - 1)
U64 = st.integers(0, 2**64 - 1)

VECTORS = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (-2, "03"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (300, "d804"),
    (2147483647, "feffffff0f"),
    (-2147483648, "ffffffff0f"),
    (2**63 - 1, "feffffffffffffffff01"),
    (-(2**63), "ffffffffffffffffff01"),
]


def groups_of_seven(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes((*out, n))


@pytest.mark.parametrize(("n", "encoded"), VECTORS)
def test_signed_vectors(n: int, encoded: str) -> None:
    """Kafka's zigzag examples are written and read to the byte."""
    data = bytes.fromhex(encoded)
    assert varint.encode_signed(n) == data
    assert varint.signed_size(n) == len(data)
    assert varint.read_signed_long(data, 0) == (n, len(data))
    if -(2**31) <= n < 2**31:
        assert varint.read_signed(data, 0) == (n, len(data))


@given(I64)
@example(2**62)
@example(-(2**62) - 1)
def test_signed_model(n: int) -> None:
    """Every 64-bit value has the zigzag form of the model, and is read back."""
    data = groups_of_seven((n << 1) ^ (n >> 63))
    assert varint.encode_signed(n) == data
    assert varint.signed_size(n) == len(data)
    assert varint.read_signed_long(b"\xff" + data + b"\xff", 1) == (n, len(data) + 1)


@given(U64)
@example(2**63)
@example(2**56)
@example(2**56 - 1)
def test_unsigned_model(n: int) -> None:
    """Every unsigned value up to 2^64-1 is written group by group."""
    data = groups_of_seven(n)
    writer = BytesWriter()
    varint.write_unsigned(writer, n if n < 2**63 else n - 2**64)
    assert writer.getvalue() == data
    if n < 2**63:
        assert varint.unsigned_size(n) == len(data)


@given(st.lists(I64, max_size=20))
def test_appending_keeps_what_is_there(numbers: list[int]) -> None:
    """One writer takes many integers. None overwrites another, although up to eight bytes are written at a time."""
    writer = BytesWriter()
    for n in numbers:
        varint.write_signed(writer, n)
    assert writer.getvalue() == b"".join(groups_of_seven((n << 1) ^ (n >> 63)) for n in numbers)


def test_longer_forms_are_read_and_extra_bits_dropped() -> None:
    """As in Kafka a value may take more bytes than it needs, and bits past 32 or 64 are dropped."""
    assert varint.read_signed(bytes.fromhex("8000"), 0) == (0, 2)
    assert varint.read_signed(bytes.fromhex("8680808000"), 0) == (3, 5)
    assert varint.read_signed(bytes.fromhex("ffffffff7f"), 0) == (-(2**31), 5)
    assert varint.read_signed_long(b"\xff" * 9 + b"\x7f", 0) == (-(2**63), 10)


@pytest.mark.parametrize("data", ["", "80", "ffffffff", "8080808080", "808080808000"])
def test_unended_32_bit_integers_are_refused(data: str) -> None:
    """An integer that does not end within five bytes and within the data is refused."""
    with pytest.raises(varint.VarintError):
        varint.read_signed(bytes.fromhex(data), 0)


@pytest.mark.parametrize("data", ["", "80" * 9, "80" * 10, "80" * 10 + "00"])
def test_unended_64_bit_integers_are_refused(data: str) -> None:
    """An integer that does not end within ten bytes and within the data is refused."""
    with pytest.raises(varint.VarintError):
        varint.read_signed_long(bytes.fromhex(data), 0)


@pytest.mark.parametrize("start", [-1, 1, 2**40])
def test_reading_outside_of_the_data_is_refused(start: int) -> None:
    """A position before or behind the data is refused. A negative one does not count from the end."""
    with pytest.raises(varint.VarintError):
        varint.read_signed(b"\x05", start)


@pytest.mark.parametrize("n", [-(2**63) - 1, 2**63])
def test_signed_range(n: int) -> None:
    """A value without a signed 64-bit form is refused, not cut."""
    with pytest.raises(ValueError, match="signed"):
        varint.encode_signed(n)
