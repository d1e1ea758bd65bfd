"""Records that lie in columns are written byte for byte as records that are objects."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from fencepost.producer.accumulator.partitioner import murmur2, murmur2_range
from fencepost.producer.wire.records.batch_builder import BatchBuilder, pack_headers
from fencepost.producer.wire.records.compression import Codec

DATA = st.none() | st.binary(max_size=300)
HEADERS = st.none() | st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=5), DATA), max_size=3)
STAMPS = st.integers(0, 2**62)


@given(st.lists(st.tuples(STAMPS, DATA, DATA, HEADERS), min_size=1, max_size=20), st.binary(max_size=9))
def test_append_range_writes_what_append_writes(
    records: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]], junk: bytes
) -> None:
    """Same bytes, size, count and timestamps, wherever in its column a record lies."""
    objects, columns = BatchBuilder(), BatchBuilder()
    for timestamp, key, value, headers in records:
        packed = None if headers is None else pack_headers(headers)
        objects.append(timestamp, key, value, packed)
        columns.append_range(
            timestamp,
            junk + (key or b"") + b"12345678",
            len(junk),
            -1 if key is None else len(key),
            junk + (value or b"") + b"12345678",
            len(junk),
            -1 if value is None else len(value),
            packed,
        )
        assert (columns.size, columns.count, columns.max_timestamp) == (objects.size, objects.count, objects.max_timestamp)
    assert columns.base_timestamp == objects.base_timestamp
    assert columns.payload(Codec.NONE) == objects.payload(Codec.NONE)


@given(st.binary(max_size=60), st.binary(max_size=10), st.binary(max_size=10))
def test_murmur2_of_a_range(key: bytes, before: bytes, after: bytes) -> None:
    """Neither what stands before nor what stands behind counts."""
    assert murmur2_range(before + key + after, len(before), len(key)) == murmur2(key)
