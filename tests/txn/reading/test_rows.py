"""Record batches as columns: for all contents, the same records as `read_records` gives, and the same refusals."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.producer.wire.codecs.codec import Codec, CorruptBatch
from fencepost.producer.wire.records.batch_header import read_header
from fencepost.producer.wire.records.record_batch import Record, encode_batch, read_records
from fencepost.producer.wire.records.record_columns import RecordColumns
from fencepost.producer.wire.records.sizes import BATCH_OVERHEAD
from fencepost.txn.reading.rows import SCHEMA, SCHEMA_WITH_HEADERS, RowBuilder
from tests.producer.wire.records.changed_batches import appended_at, compacted

BYTES = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3).map(tuple)
ENTRIES = st.lists(st.tuples(st.integers(0, 10**13), BYTES, BYTES, HEADERS), max_size=8)
BASE = 1_000


def row(record: Record, timestamp_type: int, *, headers: bool) -> dict[str, Any]:
    """The record as Spark's Kafka source has it."""
    found = {
        "key": record.key,
        "value": record.value,
        "topic": "flights",
        "partition": 7,
        "offset": record.offset,
        "timestamp": record.timestamp * 1000,
        "timestampType": timestamp_type,
    }
    return found | {"headers": [{"key": k, "value": v} for k, v in record.headers] or None} if headers else found


def rows_of(builder: RowBuilder) -> list[dict[str, Any]]:
    """What the columns say, timestamps in µs."""
    batch = builder.finish()
    batch.validate(full=True)
    place = batch.schema.get_field_index("timestamp")
    return list(batch.set_column(place, "timestamp", batch.column(place).cast("int64")).to_pylist())


@given(
    batches=st.lists(st.tuples(ENTRIES, st.sampled_from(Codec), st.booleans()), max_size=4),
    headers=st.booleans(),
    cut=st.tuples(st.integers(0, 30), st.integers(0, 30)),
)
def test_columns_hold_what_the_records_hold(batches: list[Any], headers: bool, cut: tuple[int, int]) -> None:
    """Keys, values, nulls, headers, offsets, timestamps and their types, of several batches in one piece, cut to a range of offsets."""
    first, until = BASE + cut[0], BASE + cut[1]
    builder = RowBuilder("flights", 7, include_headers=headers)
    expected: list[dict[str, Any]] = []
    base = BASE
    for entries, codec, appended in batches:
        batch = encode_batch(entries, base_offset=base, codec=codec)
        batch = appended_at(batch, 5) if appended else batch
        builder.add(read_header(batch), memoryview(batch), first, until)
        expected += [row(each, int(appended), headers=headers) for each in read_records(batch) if first <= each.offset < until]
        base += max(1, len(entries))
    assert builder.rows == len(expected)
    assert rows_of(builder) == expected
    assert builder.finish().schema == (SCHEMA_WITH_HEADERS if headers else SCHEMA)


def test_gaps_that_compaction_left_stay_gaps() -> None:
    """Offsets are the records' own, not counted."""
    batch = compacted(encode_batch([Record(BASE + at, 1, b"k%d" % at, b"") for at in (2, 3, 9)], base_offset=BASE), last_offset_delta=20)
    builder = RowBuilder("flights", 7, include_headers=False)
    builder.add(read_header(batch), memoryview(batch), BASE, BASE + 100)
    assert [each["offset"] - BASE for each in rows_of(builder)] == [2, 3, 9]


@given(at=st.integers(0, 400), to=st.integers(0, 255), headers=st.booleans())
def test_damage_is_refused_where_the_record_reader_refuses_it(at: int, to: int, headers: bool) -> None:
    """Any byte of the records is changed, under a checksum that fits. Both readers return the same records, or both refuse."""
    entries = [(n, b"key %d" % n, b"v" * n, (("h", b"x"),) if n % 2 else ()) for n in range(20)]
    batch = bytearray(encode_batch(entries, base_offset=BASE))
    batch[BATCH_OVERHEAD + at % (len(batch) - BATCH_OVERHEAD)] = to
    header = read_header(batch)
    builder = RowBuilder("flights", 7, include_headers=True)
    try:
        expected = [row(each, 0, headers=True) for each in read_records(batch, verify_crc=False)]
    except CorruptBatch:
        expected = []
    try:
        builder._columns.append(
            bytes(batch[BATCH_OVERHEAD:]),
            header.records_count,
            place=0,
            base_offset=BASE,
            base_timestamp=header.base_timestamp,
            append_time=None,
            first=-(1 << 62),
            until=1 << 62,
        )
    except CorruptBatch:
        assert expected == []
    else:
        assert builder.rows == len(expected) == len(entries)


def test_a_wrong_checksum_and_a_time_beyond_microseconds_are_refused() -> None:
    """Otherwise the reader would return records that no producer wrote."""
    batch = bytearray(encode_batch([(1, b"k", b"v")]))
    batch[-1] ^= 1
    with pytest.raises(CorruptBatch, match="checksum"):
        RowBuilder("flights", 7, include_headers=False).add(read_header(batch), memoryview(batch), 0, 9)
    late = encode_batch([(1 << 62, b"k", b"v")])
    builder = RowBuilder("flights", 7, include_headers=False)
    builder.add(read_header(late), memoryview(late), 0, 9)
    with pytest.raises(CorruptBatch, match="microseconds"):
        builder.finish()


def test_a_header_name_that_is_no_text_gets_replacement_characters() -> None:
    """As Kafka's clients give it; the other names stay."""
    batch = bytearray(encode_batch([(1, None, None, (("name", b"1"), ("other", None)))]))
    at = bytes(batch).index(b"name")
    batch[at] = 0xFF
    header = read_header(batch)
    builder = RowBuilder("flights", 7, include_headers=True)
    builder._columns.append(
        bytes(batch[BATCH_OVERHEAD:]), 1, place=0, base_offset=0, base_timestamp=header.base_timestamp, append_time=None, first=0, until=9
    )
    builder._parts.append(bytes(batch[BATCH_OVERHEAD:]))
    builder._types.append((0, 1))
    assert rows_of(builder)[0]["headers"] == [{"key": "\ufffdame", "value": b"1"}, {"key": "other", "value": None}]


def test_more_records_than_offsets_are_refused() -> None:
    """An offset stands for one record: a few thousand bytes cannot open to ten million rows at one offset."""
    records = bytes.fromhex("0c000000010100") * 1000  # null keys and values, all at the first offset
    columns = RecordColumns()
    with pytest.raises(CorruptBatch, match="record 10 repeats an offset"):
        columns.append(records, 1000, place=0, base_offset=5, base_timestamp=1, append_time=None, first=0, until=10)
    assert columns.rows == 10
