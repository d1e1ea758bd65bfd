"""The scan of a batch's records: which records it accepts, which it refuses, and what it reports of those that it accepts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.broker_stub.log.record_scan import EndlessLength, InvalidRecords, RecordScan
from fencepost.producer.wire.records import CorruptBatch, Record, encode_batch, read_records
from fencepost.producer.wire.records.batch_header import pack_batch
from fencepost.producer.wire.schema.varint import encode_signed

HEADER = 61
FIVE_BYTE_NULL = bytes.fromhex("ffffffff0f")  # -2147483648


def record(
    *,
    delta: bytes = b"\x00",
    offset: bytes = b"\x00",
    key: bytes = b"\x02k",
    value: bytes = b"\x02v",
    headers: bytes = b"\x00",
    length: int | None = None,
) -> bytes:
    """One record from the bytes of its fields."""
    body = b"\x00" + delta + offset + key + value + headers
    return encode_signed(len(body) if length is None else length) + body


def walked(payload: bytes, count: int) -> RecordScan:
    walk = RecordScan(payload, 0)
    walk.advance(count)
    return walk


@pytest.mark.parametrize(
    "payload",
    [
        record(),
        record(key=b"\x01", value=b"\x01"),
        record(key=FIVE_BYTE_NULL),  # any negative length is null
        record(value=b"\x03"),
        record(value=b"\x00"),
        record(delta=encode_signed(-(2**63))),
        record(delta=encode_signed(2**63 - 1)),
        record(key=b"\x82\x00k"),  # a length in more bytes than it needs
        record(key=b"\x82\x80\x80\x80\x70k"),  # bits above the 32nd are dropped, as in Java
        record(headers=b"\x02\x02h\x01"),
        record(headers=b"\x04\x00\x00\x02h\x02x"),  # an empty header name is one
        record(headers=b"\x02\x02\xff\x01"),  # and need not be UTF-8
        record(value=encode_signed(9000) + b"v" * 9000),
    ],
)
def test_what_kafka_reads_passes(payload: bytes) -> None:
    """A record that Kafka's reader takes is taken, to its last byte."""
    walk = walked(payload, 1)
    assert (walk.index, walk.position) == (1, len(payload))


@pytest.mark.parametrize("size", [63, 64, 65, 127, 128, 8191, 8192])
def test_numbers_of_any_length_pass(size: int) -> None:
    """Where a number takes one more byte, and where its first byte says nothing but that: of bytes, of headers, of time, of records."""
    number = encode_signed(size)
    bodies = [
        record(key=number + b"k" * size),
        record(value=number + b"v" * size),
        record(delta=number),
        record(offset=number),
        record(headers=number + b"\x02h\x01" * size),
        record(headers=b"\x02" + number + b"h" * size + b"\x01"),
        record(headers=b"\x02\x02h" + number + b"x" * size),
    ]
    for padding in range(64):
        bodies.append(record(value=encode_signed(size + padding) + b"v" * (size + padding)))
    for skipping in (False, True):
        walk = RecordScan(b"".join(bodies), 0, skipping=skipping)
        walk.advance(len(bodies))
        assert (walk.index, walk.position) == (len(bodies), len(b"".join(bodies)))
        assert (walk.delta_min, walk.delta_max, walk.null_keys) == (0, size, 0)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x80",
        b"\x80\x80\x80\x80\x80\x00",  # a sixth byte
        b"\x00",
        b"\x01",  # length -1
        record()[:-1],
        record(length=8),
        record(length=6),
        record(length=-5),
        record(length=10),
        record() + record(length=20),
        record(delta=b"\x80" * 10 + b"\x00"),  # an eleventh byte
        record(key=b"\x04k"),
        record(key=encode_signed(2**31 - 1) + b"k"),
        record(value=encode_signed(2**31 - 1) + b"v"),
        record(headers=b"\x01"),  # -1 headers
        record(headers=b"\x02"),
        record(headers=encode_signed(2**31 - 1)),
        record(headers=b"\x02\x01\x00"),  # a header without a name
        record(headers=b"\x02\x02h"),
        record(headers=b"\x02\x02h\x7e"),
        record(headers=b"\x02\x02h\x7e", length=74),  # a value beyond the batch, as its record says
        record(headers=b"\x00\x00"),
    ],
)
def test_what_kafka_cannot_read_is_refused(payload: bytes) -> None:
    """Bytes that are no record end the scan, for every kind of damage, and the error names the record."""
    with pytest.raises(InvalidRecords) as refused:
        walked(payload, 2)
    assert refused.value.index == (1 if payload[: len(record())] == record() else 0)


def test_a_length_without_end_is_told_apart() -> None:
    """Only a record's own length, too long in itself, is the damage that Kafka answers differently."""
    for payload, endless in (
        (b"\x80\x80\x80\x80\x80\x00", True),
        (b"\xff\xff\xff\xff\x0f", False),
        (record(key=b"\x80\x80\x80\x80\x80\x00"), False),
    ):
        with pytest.raises(InvalidRecords) as refused:
            walked(payload, 1)
        assert isinstance(refused.value, EndlessLength) == endless


def test_skipping_does_not_compare_lengths() -> None:
    """What a record says of its own length is not looked at then; everything else is, and the data must still hold its fields."""
    for wrong in (record(length=3), record(length=200), record(length=-9)):
        walk = RecordScan(wrong + record(offset=b"\x02"), 0, skipping=True)
        walk.advance(2)
        assert (walk.position, walk.consecutive) == (len(walk.data), True)
    for payload in (record()[:-1], record(headers=b"\x01"), record(headers=b"\x02\x01\x00"), record(delta=b"\x80" * 11)):
        with pytest.raises(InvalidRecords):
            RecordScan(payload, 0, skipping=True).advance(1)
    beyond = RecordScan(record(headers=b"\x02\x02h\x7e"), 0, skipping=True)
    beyond.advance(1)
    assert beyond.position > len(beyond.data)


def test_it_tells_what_validation_asks() -> None:
    """Timestamp deltas from least to most, keyless records, and whether offsets count up from 0."""
    walk = walked(
        record(delta=encode_signed(5)) + record(delta=encode_signed(-300), offset=b"\x02", key=b"\x01") + record(offset=b"\x04"), 3
    )
    assert (walk.delta_min, walk.delta_max, walk.null_keys, walk.consecutive) == (-300, 5, 1, True)
    assert not walked(record(offset=b"\x02"), 1).consecutive
    assert not walked(record() + record(offset=b"\x01"), 2).consecutive


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        *((encode_signed(number), number) for number in (0, -1, 63, -64, 64, 2**31, -(2**40), 2**62, 2**63 - 1, -(2**63))),
        (b"\xff" * 9 + b"\x7f", -(2**63)),  # what the tenth byte says above the 64th bit is dropped
        (b"\x80" * 9 + b"\x7e", 0),
    ],
)
def test_a_timestamp_delta_has_64_bits(delta: bytes, expected: int) -> None:
    """Every delta there is comes out as it went in, compiled and not."""
    walk = walked(record(delta=delta), 1)
    assert (walk.delta, walk.delta_min, walk.delta_max) == (expected, expected, expected)


def test_it_can_be_done_in_parts() -> None:
    """A long batch is walked a part at a time, with the same result, so that it never keeps other threads out for long."""
    payload = b"".join(record(delta=encode_signed(n % 7), offset=encode_signed(n)) for n in range(1000))
    whole, parts = walked(payload, 1000), RecordScan(payload, 0)
    for _ in range(10):
        parts.advance(100)
    for name in ("position", "index", "delta", "delta_min", "delta_max", "null_keys", "consecutive"):
        assert getattr(whole, name) == getattr(parts, name)


sizes = st.integers(0, 200)
texts = st.one_of(st.none(), st.builds(bytes, sizes))
records = st.lists(
    st.tuples(
        st.integers(0, 2**41),
        texts,
        texts,
        st.lists(st.tuples(st.sampled_from(["", "h", "é" * 40]), texts), max_size=3),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=300)
@given(records, st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255), st.sampled_from(["set", "cut", "insert"])), max_size=3))
def test_it_agrees_with_the_reader_of_records(
    content: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]], damage: list[tuple[int, int, str]]
) -> None:
    """Damaged or not, a batch passes the walk just when its records can be read, and then both say the same of them."""
    payload = bytearray(encode_batch(content)[HEADER:])
    for place, byte, kind in damage:
        at = place % len(payload) if payload else 0
        payload[at : at + (kind != "insert")] = b"" if kind == "cut" else bytes([byte])
    batch = pack_batch(
        bytes(payload),
        attributes=0,
        last_offset_delta=len(content) - 1,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=len(content),
    )
    read = _read(batch)
    walk = RecordScan(batch, HEADER)
    try:
        walk.advance(len(content))
        passes = walk.position == len(batch)
    except InvalidRecords:
        passes = False
    assert passes == (read is not None)
    if read is not None:
        timestamps = [one.timestamp for one in read]
        assert (walk.delta_min, walk.delta_max) == (min(timestamps), max(timestamps))
        assert walk.null_keys == sum(one.key is None for one in read)
        assert walk.consecutive == ([one.offset for one in read] == list(range(len(read))))


def _read(batch: bytes) -> list[Record] | None:
    try:
        return read_records(batch)
    except CorruptBatch:
        return None
