"""Record batches: the reference bytes, every field, and what reading accepts because Kafka does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.producer.wire.records import (
    BatchHeader,
    Codec,
    ControlType,
    CorruptBatch,
    Record,
    UnsupportedMagic,
    check_crc,
    decrement_sequence,
    encode_batch,
    encode_marker,
    increment_sequence,
    iter_batches,
    read_header,
    read_marker,
    read_records,
    with_offset,
    with_timestamps,
)
from fencepost.producer.wire.records.batch_header import compute_crc
from tests.producer.wire.records.changed_batches import compacted, placed

TWO: list[Any] = [(1000, b"k", b"v"), (1005, None, b"w", [("h", None)])]
TWO_BYTES = "10 00 00 00 02 6b 02 76 00 14 00 0a 02 01 02 77 02 02 68 01"
PLAIN = bytes.fromhex(
    "0000000000000000 00000045 ffffffff 02 2f57ae52 0000 00000001 00000000000003e8 00000000000003ed ffffffffffffffff ffff ffffffff 00000002"
    + TWO_BYTES
)
STORED = bytes.fromhex(
    "0000000000000007 00000045 00000003 02 0dc2e13d 0010 00000001 00000000000003e8 00000000000003ed 0000000000000fa0 0002 7fffffff 00000002"
    + TWO_BYTES
)
COMMIT = bytes.fromhex(
    "0000000000000009 00000042 00000003 02 713402ad 0030 00000000 00000000000007d0 00000000000007d0 0000000000000fa0 0002 ffffffff 00000001"
    "20 00 00 00 08 0000 0001 0c 0000 00000005 00"
)
ABORT = bytes.fromhex(
    "0000000000000009 00000042 00000003 02 850ad4e5 0030 00000000 00000000000007d0 00000000000007d0 0000000000000fa0 0002 ffffffff 00000001"
    "20 00 00 00 08 0000 0000 0c 0000 00000005 00"
)

BLOBS = st.none() | st.binary(max_size=100)
HEADERS = st.lists(st.tuples(st.text(max_size=8), BLOBS), max_size=4).map(tuple)
RECORDS = st.lists(st.tuples(st.integers(-1, 2**63 - 2), BLOBS, BLOBS, HEADERS), max_size=20)


def resealed(batch: bytes, at: int, patch: bytes) -> bytes:
    """The batch with other bytes somewhere, and a checksum that matches them."""
    changed = bytearray(batch)
    changed[at : at + len(patch)] = patch
    changed[17:21] = compute_crc(changed).to_bytes(4, "big")
    return bytes(changed)


def raw(records: str, *, count: int = 1) -> bytes:
    """A well-formed header and checksum around any bytes as records."""
    payload = bytes.fromhex(records)
    head = bytearray(compacted(encode_batch([]), last_offset_delta=max(count - 1, 0)))
    head[8:12] = (49 + len(payload)).to_bytes(4, "big")
    head[57:61] = count.to_bytes(4, "big", signed=True)
    head[27:35] = bytes(8)
    return resealed(bytes(head) + payload, 0, b"")


def test_plain_batch_vector() -> None:
    """The plain reference batch, read and written."""
    assert encode_batch(TWO) == PLAIN
    assert read_records(PLAIN) == [Record(0, 1000, b"k", b"v"), Record(1, 1005, None, b"w", (("h", None),))]


def test_stored_batch_vector() -> None:
    """The stored, transactional reference batch, read and written. The sequence wraps within it."""
    batch = encode_batch(
        TWO, base_offset=7, leader_epoch=3, producer_id=4000, producer_epoch=2, base_sequence=2147483647, transactional=True
    )
    assert batch == STORED
    assert read_records(STORED) == [
        Record(7, 1000, b"k", b"v", (), 2147483647),
        Record(8, 1005, None, b"w", (("h", None),), 0),
    ]
    header = read_header(STORED)
    assert header == BatchHeader(7, 69, 3, 2, 0x0DC2E13D, 16, 1, 1000, 1005, 4000, 2, 2147483647, 2)
    assert (header.size, header.last_offset, header.last_sequence) == (81, 8, 0)
    assert (header.is_transactional, header.is_control, header.timestamp_type) == (True, False, 0)


@pytest.mark.parametrize(("kind", "vector"), [(ControlType.COMMIT, COMMIT), (ControlType.ABORT, ABORT)])
def test_marker_vectors(kind: ControlType, vector: bytes) -> None:
    """The reference markers, read and written."""
    marker = encode_marker(kind, producer_id=4000, producer_epoch=2, coordinator_epoch=5, timestamp=2000)
    assert placed(marker, 9, 3) == vector
    assert read_marker(vector) == (kind, 5, 0)
    header = read_header(vector)
    assert (header.is_control, header.is_transactional, header.last_sequence, header.last_offset) == (True, True, -1, 9)


def test_checksum_vectors() -> None:
    """CRC-32C is the Castagnoli one."""
    assert compute_crc(bytes(21) + b"123456789") == 0xE3069283
    assert compute_crc(bytes(21 + 32)) == 0x8A9136AA


@given(RECORDS, st.sampled_from(list(Codec)), st.booleans())
def test_round_trip(entries: list[Any], codec: Codec, transactional: bool) -> None:
    """Records are read as they were written: nulls, empty values, any timestamps in any order, headers in order, sequences modulo 2^31."""
    batch = encode_batch(
        entries,
        base_offset=2**40,
        leader_epoch=9,
        producer_id=77,
        producer_epoch=3,
        base_sequence=2**31 - 5,
        codec=codec,
        transactional=transactional,
    )
    assert check_crc(batch)
    assert read_records(memoryview(batch)) == [
        Record(2**40 + index, timestamp, key, value, headers, (2**31 - 5 + index) % 2**31)
        for index, (timestamp, key, value, headers) in enumerate(entries)
    ]
    header = read_header(batch)
    assert header.size == len(batch)
    assert header.records_count == len(entries)
    assert header.last_offset_delta == max(len(entries) - 1, 0)
    if entries:
        assert header.base_timestamp == entries[0][0]
        assert header.max_timestamp == max(entry[0] for entry in entries)
        assert (header.codec, header.is_transactional) == (codec, transactional)


def test_big_values() -> None:
    """Values beyond every varint boundary are read back, compressed and uncompressed."""
    entries: list[Any] = [(5, None, bytes([size % 251]) * size) for size in (8191, 8192, 70_000, 2_100_000)]
    for codec in Codec:
        assert [record.value for record in read_records(encode_batch(entries, codec=codec))] == [entry[2] for entry in entries]


def test_offsets_with_gaps() -> None:
    """A compacted batch keeps its offsets, its last offset and its sequences, with fewer records."""
    survivors = [Record(12, 50, b"a", b"1"), Record(15, 40, b"b", b"2")]
    whole = encode_batch(survivors, base_offset=10, producer_id=1, producer_epoch=0, base_sequence=2147483646)
    batch = compacted(whole, last_offset_delta=9)
    header = read_header(batch)
    assert (header.records_count, header.last_offset, header.last_sequence) == (2, 19, 7)
    assert [(record.offset, record.sequence) for record in read_records(batch)] == [(12, 0), (15, 3)]


@pytest.mark.parametrize("offsets", [[5, 5], [6, 5], [4], [10 + 2**31]])
def test_offsets_that_do_not_rise_are_refused(offsets: list[int]) -> None:
    """Offsets in a batch rise from its base on, and fit their fields."""
    with pytest.raises(ValueError, match="offset"):
        encode_batch([Record(offset, 0, None, None) for offset in offsets], base_offset=5)


def test_timestamps_below_none_are_refused() -> None:
    """-1 is a record without a timestamp. Lower ones are refused."""
    assert read_records(encode_batch([(-1, None, b"v")]))[0].timestamp == -1
    with pytest.raises(ValueError, match="timestamp"):
        encode_batch([(-2, None, b"v")])


def test_header_only_batch() -> None:
    """A batch without records is valid: 61 bytes, also if a compressed one was emptied."""
    emptied = bytearray(compacted(encode_batch([], base_offset=4, producer_id=3, producer_epoch=1, base_sequence=8), last_offset_delta=6))
    with_timestamps(emptied, 99, log_append_time=False)
    batch = bytes(emptied)
    header = read_header(batch)
    assert (len(batch), header.records_count, header.last_offset, header.base_timestamp, header.max_timestamp) == (61, 0, 10, -1, 99)
    assert header.last_sequence == 14
    assert read_records(batch) == []
    assert read_records(resealed(batch, 21, b"\0\3")) == []


def test_log_append_time() -> None:
    """With append time every record has the batch's maximum. Setting it changes the checksum only if something changed."""
    batch = bytearray(encode_batch(TWO))
    with_timestamps(batch, 1005, log_append_time=False)
    assert batch == PLAIN
    with_timestamps(batch, 777, log_append_time=True)
    assert [record.timestamp for record in read_records(batch)] == [777, 777]
    assert read_header(batch).timestamp_type == 1
    assert batch == resealed(PLAIN, 21, b"\0\x08" + PLAIN[23:35] + (777).to_bytes(8, "big"))
    with_timestamps(batch, 1005, log_append_time=False)
    assert batch == PLAIN


def test_offset_and_epoch_are_outside_of_the_checksum() -> None:
    """A leader writes them in place, and the batch stays valid."""
    batch = bytearray(PLAIN)
    with_offset(batch, 2**40 + 1, 12)
    assert check_crc(batch)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch) == (2**40 + 1, 12)
    with_offset(batch, 0, -1)
    assert batch == PLAIN


def test_delete_horizon() -> None:
    """Bit 6 gives the base timestamp a second meaning. The records' timestamps are still relative to it."""
    batch = resealed(PLAIN, 21, b"\0\x40")
    assert read_header(batch).base_timestamp == 1000
    assert read_records(batch)[1].timestamp == 1005


@pytest.mark.parametrize(
    ("start", "step", "end"),
    [(0, 1, 1), (2**31 - 1, 1, 0), (2**31 - 3, 5, 2), (7, 2**31 - 1, 6), (0, 0, 0)],
)
def test_sequence_ring(start: int, step: int, end: int) -> None:
    """Sequences count modulo 2^31, in both directions."""
    assert increment_sequence(start, step) == end
    assert decrement_sequence(end, step) == start


def test_iterating_batches() -> None:
    """Batches come one after the other, without a copy; a partial tail of any length ends it quietly."""
    data = PLAIN + COMMIT + STORED
    headers = [header for header, _ in iter_batches(data)]
    assert [(header.base_offset, header.size) for header in headers] == [(0, 81), (9, 78), (7, 81)]
    for cut in range(1, len(STORED) + 1):
        views = [batch for _, batch in iter_batches(data[:-cut])]
        assert [bytes(view) for view in views] == [PLAIN, COMMIT]
    assert list(iter_batches(b"")) == []


@pytest.mark.parametrize("length", [-1, 0, 48, -(2**31)])
def test_iterating_stops_at_an_impossible_length(length: int) -> None:
    """A length below the header's is damage. The reader does not loop."""
    broken = bytearray(PLAIN)
    broken[8:12] = length.to_bytes(4, "big", signed=True)
    batches = iter_batches(STORED + broken)
    next(batches)
    with pytest.raises(CorruptBatch, match="length"):
        next(batches)


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_other_formats_are_named(magic: int) -> None:
    """Old and future formats are refused by name, also if they are shorter than a v2 header."""
    other = PLAIN[:16] + bytes([magic]) + PLAIN[17:]
    for data in (other, other[:30]):
        with pytest.raises(UnsupportedMagic) as caught:
            read_header(data)
        assert caught.value.magic == magic


def test_codecs_by_number() -> None:
    """Unassigned codec numbers are corrupt, and so is a codec's number on records that it did not compress."""
    for number, reason in ((1, "gzip"), (2, "snappy"), (3, "lz4"), (4, "zstd"), (5, "codec 5"), (6, "codec 6"), (7, "codec 7")):
        with pytest.raises(CorruptBatch, match=reason):
            read_records(resealed(PLAIN, 21, bytes((0, number))))


def test_unknown_attribute_bits_mean_nothing() -> None:
    """Bits 7 to 15 are ignored, as in Kafka."""
    assert read_records(resealed(PLAIN, 21, b"\xff\x80")) == read_records(PLAIN)


def test_read_as_kafka_reads() -> None:
    """Negative lengths are null, integers may be longer than needed, record attributes are ignored, bad UTF-8 in a name is replaced."""
    [record] = read_records(raw("0c 7f 00 00 05 09 00"))
    assert (record.key, record.value, record.headers) == (None, None, ())
    [record] = read_records(raw("928000 00 00 00 8100 02 78 8000"))
    assert (record.key, record.value, record.headers) == (None, b"x", ())
    [record] = read_records(raw("14 00 00 00 01 01 02 04 fffe 03"))
    assert record.headers == (("\ufffd\ufffd", None),)


@pytest.mark.parametrize(
    ("records", "count", "reason"),
    [
        ("", 1, "1 record in 0 bytes"),
        ("0c 00 00 00 01 01 00", 2, "2 records"),
        ("0c 00 00 00 01 01 00", -1, "-1 records"),
        ("0c 00 00 00 01 01 00", 2**31 - 1, "records in 7 bytes"),
        ("0c 00 00 00 01 01 00 00", 1, "1 byte after the last record"),
        ("0c 00 00 00 01 01 00 0c 00 00 00 01 01", 2, "2 records in 13 bytes"),
        ("0c 00 00 00 01 01 00 10 00 00 00 01 02 78", 2, "record 1 claims 8 bytes, 6 are there"),
        ("0c 00 00 00 01 01 00 00 00 00 00 01 01 00", 2, "record 1 claims 0 bytes"),
        ("0e 00 00 00 01 01 00", 1, "claims 7 bytes"),
        ("01 00 00 00 01 01 00", 1, "claims -1 bytes"),
        ("00 00 00 00 01 01 00", 1, "claims 0 bytes"),
        ("0a 00 00 00 01 01 00", 1, "claims 5 bytes"),
        ("0c 00 00 00 08 01 00", 1, "4 bytes"),
        ("0c 00 00 00 01 08 00", 1, "4 bytes"),
        ("0c 00 00 00 01 01 01", 1, "-1 headers"),
        ("0c 00 00 00 01 01 feffffff0f", 1, "headers in"),
        ("10 00 00 00 01 01 02 01 01", 1, "without a name"),
        ("10 00 00 00 01 01 02 08 01", 1, "4 bytes"),
        ("ffffffffff 00 00 00 01 01 00", 1, "does not end"),
        ("0c 00 ffffffffffffffffffff", 1, "does not end"),
        ("ff", 1, "1 record in 1 byte"),
    ],
)
def test_lengths_that_do_not_add_up(records: str, count: int, reason: str) -> None:
    """Under a valid checksum, every length and count inside is compared with the remaining bytes."""
    with pytest.raises(CorruptBatch, match=reason):
        read_records(raw(records, count=count))


def test_timestamps_beyond_time() -> None:
    """A delta that exceeds 64 bits is damage. It never wraps."""
    late = resealed(raw("1e 00 feffffffffffffffff01 00 01 01 00"), 27, (1).to_bytes(8, "big"))
    with pytest.raises(CorruptBatch, match="above"):
        read_records(late)
    early = resealed(raw("1e 00 ffffffffffffffffff01 00 01 01 00"), 27, (-1).to_bytes(8, "big", signed=True))
    with pytest.raises(CorruptBatch, match="below"):
        read_records(early)


@pytest.mark.parametrize(
    "batch",
    [PLAIN, resealed(COMMIT, 66, b"\xff\xff"), resealed(COMMIT, 71, b"\xff\xff"), encode_batch([(5, None, b"")], control=True)],
)
def test_what_is_no_marker(batch: bytes) -> None:
    """A batch of records, a negative version, or a missing key is not a marker."""
    with pytest.raises(CorruptBatch):
        read_marker(batch)


def test_marker_kinds() -> None:
    """Other types of control records are returned by number, also unknown ones. Only two types can be written."""
    for number in (2, 6, 99):
        batch = encode_batch([(5, b"\0\0" + number.to_bytes(2, "big"), b"anything")], control=True)
        assert read_marker(batch) == (number, -1, 0)
    later = encode_batch([(5, b"\0\4\0\1", b"\0\1\0\0\0\7 more")], control=True)
    assert read_marker(later) == (1, 7, 4)
    with pytest.raises(ValueError, match="LEADER_CHANGE"):
        encode_marker(ControlType.LEADER_CHANGE, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=0)


def test_exactly_one_batch() -> None:
    """Reading takes exactly one whole batch, and first checks its checksum."""
    for data in (PLAIN[:-1], PLAIN + b"\0", PLAIN + PLAIN, b""):
        with pytest.raises(CorruptBatch):
            read_records(data)
    damaged = bytearray(PLAIN)
    damaged[-1] ^= 1
    assert not check_crc(damaged)
    assert not check_crc(PLAIN[:40])
    with pytest.raises(CorruptBatch, match="checksum"):
        read_records(damaged)
    with pytest.raises(CorruptBatch, match="more than 19 bytes"):
        read_records(PLAIN, limit=19)
    assert len(read_records(PLAIN, limit=20)) == 2
