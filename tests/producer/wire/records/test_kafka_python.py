"""kafka-python reads this project's batches, and this project reads kafka-python's: independent code does not share its mistakes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import ControlRecord, DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from fencepost.producer.wire.records import Codec, ControlType, encode_batch, encode_marker, iter_batches, read_header, read_records
from fencepost.producer.wire.records.batch_builder import BatchBuilder, pack_headers
from tests.producer.wire.records.built import built
from tests.producer.wire.records.changed_batches import placed

BLOBS = st.none() | st.binary(max_size=150)
HEADERS = st.lists(st.tuples(st.text(max_size=8), BLOBS), max_size=3)
TIMESTAMPS = st.integers(0, 2**62) | st.integers(1_700_000_000_000, 1_700_000_020_000)
ENTRIES = st.lists(st.tuples(TIMESTAMPS, BLOBS, BLOBS, HEADERS), min_size=1, max_size=15)
CODECS = st.sampled_from(list(Codec))


def stranger_writes(entries: list[Any], codec: Codec, **identity: int) -> bytes:
    builder = DefaultRecordBatchBuilder(
        2,
        codec,
        identity.get("transactional", False),
        identity.get("producer_id", -1),
        identity.get("producer_epoch", -1),
        identity.get("base_sequence", -1),
        1 << 30,
    )
    for index, (timestamp, key, value, headers) in enumerate(entries):
        assert builder.append(index, timestamp, key, value, headers) is not None
    return bytes(builder.build())


def stranger_reads(batch: bytes) -> list[Any]:
    stranger = DefaultRecordBatch(batch)
    assert stranger.validate_crc()
    return [(record.offset, record.timestamp, record.key, record.value, record.headers) for record in stranger]


def build(entries: list[Any], codec: Codec) -> bytes:
    builder = BatchBuilder()
    for timestamp, key, value, headers in entries:
        builder.append(timestamp, key, value, pack_headers(headers))
    return built(builder, codec, pid=4000, epoch=7, sequence=2**31 - 2)


@given(ENTRIES, CODECS)
def test_a_stranger_reads_what_we_write(entries: list[Any], codec: Codec) -> None:
    """Records, headers, nulls, timestamps that go back, and the whole header arrive unchanged, from the builder and from `encode_batch`."""
    expected = [(index, *entry) for index, entry in enumerate(entries)]
    for batch in (build(entries, codec), encode_batch(entries, codec=codec)):
        assert stranger_reads(batch) == expected
    stranger = DefaultRecordBatch(build(entries, codec))
    header = read_header(build(entries, codec))
    assert (stranger.producer_id, stranger.producer_epoch, stranger.base_sequence) == (4000, 7, 2**31 - 2)
    assert (stranger.first_timestamp, stranger.max_timestamp) == (header.base_timestamp, header.max_timestamp)
    assert (stranger.last_offset, stranger.last_sequence) == (header.last_offset, header.last_sequence)
    assert (stranger.compression_type, stranger.is_transactional, stranger.is_control_batch) == (codec, False, False)


@given(ENTRIES, CODECS, st.booleans())
def test_we_read_what_a_stranger_writes(entries: list[Any], codec: Codec, transactional: bool) -> None:
    """Our reader gets from kafka-python's bytes the records, with their offsets and sequences."""
    batch = stranger_writes(entries, codec, producer_id=11, producer_epoch=2, base_sequence=40, transactional=transactional)
    assert [
        (record.timestamp, record.key, record.value, list(record.headers), record.offset, record.sequence) for record in read_records(batch)
    ] == [(*entry, index, 40 + index) for index, entry in enumerate(entries)]
    header = read_header(batch)
    assert header.is_transactional is transactional
    assert header.max_timestamp == max(entry[0] for entry in entries)


@given(ENTRIES)
def test_uncompressed_bytes_are_equal(entries: list[Any]) -> None:
    """Both implementations write the same bytes."""
    ours = encode_batch(entries, leader_epoch=0, producer_id=11, producer_epoch=2, base_sequence=40, transactional=True)
    assert ours == stranger_writes(entries, Codec.NONE, producer_id=11, producer_epoch=2, base_sequence=40, transactional=1)


@pytest.mark.parametrize("size", [64, 8192, 65_530, 1_000_000])
def test_big_values(size: int) -> None:
    """Values of up to a megabyte are read in both directions, also compressed."""
    entries: list[Any] = [(5, b"k" * (size // 3), b"v" * size, []), (4, None, bytes(range(256)) * (size // 256), [])]
    for codec in Codec:
        assert stranger_reads(encode_batch(entries, codec=codec)) == [(index, *entry) for index, entry in enumerate(entries)]
        assert [record.value for record in read_records(stranger_writes(entries, codec))] == [entry[2] for entry in entries]


def test_a_stranger_walks_a_log() -> None:
    """Data and markers one after the other: kafka-python finds the same batches, types and offsets."""
    log = (
        encode_batch(
            [(1, b"a", b"1"), (2, b"b", None)], base_offset=10, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True
        )
        + placed(encode_marker(ControlType.ABORT, producer_id=5, producer_epoch=0, coordinator_epoch=3, timestamp=9), 12)
        + placed(encode_marker(ControlType.COMMIT, producer_id=6, producer_epoch=4, coordinator_epoch=3, timestamp=9), 13)
        + encode_batch([(3, None, b"x" * 300)], base_offset=14, codec=Codec.LZ4)
    )
    records = MemoryRecords(log)
    seen = []
    while (batch := records.next_batch()) is not None:
        assert batch.validate_crc()
        kinds = [record.abort if isinstance(record, ControlRecord) else None for record in batch]
        seen.append((batch.base_offset, batch.last_offset, batch.is_control_batch, kinds))
    assert seen == [(10, 11, False, [None, None]), (12, 12, True, [True]), (13, 13, True, [False]), (14, 14, False, [None])]
    assert [(header.base_offset, header.last_offset, header.is_control) for header, _ in iter_batches(log)] == [entry[:3] for entry in seen]
