"""The builder that the producer appends to: exact sizes, exact bytes, and nothing half-written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fencepost.producer.wire.codecs.codec import Codec
from fencepost.producer.wire.records import check_crc, read_header, read_records
from fencepost.producer.wire.records.batch_builder import BatchBuilder, pack_headers
from fencepost.producer.wire.records.batch_header import TRANSACTIONAL, pack_batch
from fencepost.producer.wire.records.record_prefix import SMALL_BYTES
from fencepost.producer.wire.records.sizes import RECORD_OVERHEAD_MAX
from fencepost.producer.wire.schema.varint import signed_size
from tests.producer.wire.records.built import built

BLOBS = st.none() | st.binary(max_size=200) | st.integers(8000, 8400).map(lambda size: bytes(size))
HEADERS = st.none() | st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=80)), max_size=4)
# The last millisecond after none at all (-1) would be a difference that has no form on the wire.
TIMESTAMPS = st.integers(-1, 2**63 - 2) | st.integers(1_700_000_000_000, 1_700_000_020_000)
ENTRIES = st.lists(st.tuples(TIMESTAMPS, BLOBS, BLOBS, HEADERS), min_size=1, max_size=12)
Entry = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]


def signed(n: int) -> bytes:
    """A zigzag varint by a plain implementation."""
    n = (n << 1) ^ (n >> 63)
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes((*out, n))


def sized(content: bytes | None) -> bytes:
    return signed(-1) if content is None else signed(len(content)) + content


def record(offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None, headers: Any) -> bytes:
    """A record by a plain implementation, for comparison."""
    pairs = headers or []
    body = b"\0" + signed(timestamp_delta) + signed(offset_delta) + sized(key) + sized(value) + signed(len(pairs))
    for name, content in pairs:
        body += sized(name.encode()) + sized(content)
    return signed(len(body)) + body


def test_worked_bytes() -> None:
    """The plain reference batch of two records is built byte for byte."""
    builder = BatchBuilder()
    builder.append(1000, b"k", b"v", None)
    builder.append(1005, None, b"w", pack_headers([("h", None)]))
    assert (builder.count, builder.size, builder.base_timestamp, builder.max_timestamp) == (2, 81, 1000, 1005)
    assert built(builder) == bytes.fromhex(
        "0000000000000000 00000045 ffffffff 02 2f57ae52 0000 00000001 00000000000003e8 00000000000003ed ffffffffffffffff ffff ffffffff"
        "00000002 10 00 00 00 02 6b 02 76 00 14 00 0a 02 01 02 77 02 02 68 01"
    )


@given(ENTRIES)
@example([(0, b"k" * 63, b"v" * 63, None), (8191, b"k" * 64, b"v" * 64, None), (8192, None, b"", [])])
@example([(2**63 - 1, None, None, None), (-1, b"", b"", None)])
@example([(0, None, b"v" * (SMALL_BYTES - 2), None), (0, None, b"v" * (SMALL_BYTES - 1), None), (0, None, b"v" * SMALL_BYTES, None)])
def test_bytes_are_by_the_book(entries: list[Entry]) -> None:
    """For all lengths, deltas and headers, records have the bytes of a plain implementation. Sizes and timestamps are exact."""
    builder = BatchBuilder()
    expected = b""
    for index, (timestamp, key, value, headers) in enumerate(entries):
        before = builder.size
        packed = None if headers is None else pack_headers(headers)
        builder.append(timestamp, key, value, packed)
        expected += record(index, timestamp - entries[0][0], key, value, headers)
        assert builder.size == 61 + len(expected)
        lengths = [len(data) + signed_size(len(data)) if data is not None else 1 for data in (key, value)]
        assert builder.size - before <= RECORD_OVERHEAD_MAX + sum(lengths) + (1 if packed is None else len(packed))
    assert builder.count == len(entries)
    assert builder.base_timestamp == entries[0][0]
    assert builder.max_timestamp == max(entry[0] for entry in entries)
    assert builder.payload(Codec.NONE) == expected


def test_every_length_near_a_varint_boundary() -> None:
    """Keys, values and offsets at which a length field grows by a byte: the fast path has no boundaries of its own."""
    builder = BatchBuilder()
    expected = b""
    index = 0
    lengths = [None, *range(3), *range(60, 68), *range(125, 130), *range(8180, 8196)]
    for key_length in lengths[:20]:
        for value_length in lengths:
            for headers in (None, [("name", b"x" * 70)]):
                key = None if key_length is None else b"k" * key_length
                value = None if value_length is None else b"v" * value_length
                builder.append(index * 17, key, value, None if headers is None else pack_headers(headers))
                expected += record(index, index * 17, key, value, headers)
                index += 1
    assert builder.size == 61 + len(expected)
    assert builder.payload(Codec.NONE) == expected


def test_ten_thousand_records() -> None:
    """Offsets above 64 and 8192 take more bytes. The sizes stay exact, and the batch can be read back."""
    builder = BatchBuilder()
    for index in range(10_000):
        builder.append(1_700_000_000_000 + index, b"%d" % index, b"v" * (index % 90), None)
    size = builder.size
    batch = built(builder)
    assert len(batch) == size
    records = read_records(batch)
    assert [record.offset for record in records] == list(range(10_000))
    assert all(record.key == b"%d" % record.offset for record in records)


@pytest.mark.parametrize("timestamp", [-2, -(2**63)])
def test_negative_timestamps_are_refused(timestamp: int) -> None:
    """-1 means no timestamp. Lower ones are refused."""
    builder = BatchBuilder()
    with pytest.raises(ValueError, match="timestamp"):
        builder.append(timestamp, None, b"v", None)
    assert (builder.count, builder.size) == (0, 61)


@pytest.mark.parametrize(
    "arguments",
    [
        (2**63, None, b"v", None),
        (0, "key", b"v", None),
        (0, b"key", 5, None),
        (0, b"key", b"value", [("fine", b""), ("lone surrogate \ud800", b"")]),
        (0, b"key", b"value", [("name", "text")]),
        (0, b"key", b"value", [(b"name", b"")]),
        (0, b"key", b"value", [("name",)]),
        (0, b"k" * 9000, b"value", [("name", "text")]),
    ],
)
def test_a_refused_record_leaves_the_batch_as_it_was(arguments: tuple[Any, ...]) -> None:
    """A wrong type anywhere, also in the last header, is refused without a byte written."""
    builder = BatchBuilder()
    builder.append(5, b"before", b"1", None)
    with pytest.raises((TypeError, ValueError, OverflowError, AttributeError)):
        builder.append(*arguments)
    builder.append(6, b"after", b"2", None)
    size = builder.size
    batch = built(builder)
    assert len(batch) == size
    assert [record.key for record in read_records(batch)] == [b"before", b"after"]


def test_a_closed_builder_takes_nothing() -> None:
    """After the payload was taken, an append and another payload are errors."""
    builder = BatchBuilder()
    builder.append(1, None, b"v", None)
    builder.payload(Codec.LZ4)
    with pytest.raises(ValueError, match="closed"):
        builder.append(2, None, b"v", None)
    with pytest.raises(ValueError, match="closed"):
        builder.payload(Codec.NONE)
    assert builder.count == 1


def test_one_payload_many_identities() -> None:
    """The payload can be stamped again. Only the identity, the flags and the checksum differ."""
    builder = BatchBuilder()
    builder.append(1000, b"k", b"v" * 500, None)
    payload = builder.payload(Codec.LZ4)
    batches = [
        pack_batch(
            payload,
            attributes=Codec.LZ4 | (TRANSACTIONAL if transactional else 0),
            last_offset_delta=0,
            base_timestamp=1000,
            max_timestamp=1000,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            records_count=1,
        )
        for producer_id, epoch, sequence, transactional in [(4000, 0, 7, False), (4000, 1, 0, False), (2**62, 32767, 2**31 - 1, True)]
    ]
    for batch in batches:
        assert check_crc(batch)
        assert batch[61:] == payload
    last = read_header(batches[2])
    assert (last.producer_id, last.producer_epoch, last.base_sequence, last.last_sequence) == (2**62, 32767, 2**31 - 1, 2**31 - 1)
    assert last.is_transactional
    assert last.codec is Codec.LZ4
    assert not read_header(batches[1]).is_transactional
