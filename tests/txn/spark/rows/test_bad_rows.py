"""Rows of one Arrow batch that can be written, and rows that never can, without Spark and without a broker."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

from fencepost.producer.wire.codecs.codec import Codec
from fencepost.txn.spark.rows.bad_rows import RowCheck
from fencepost.txn.spark.rows.columns import NO_TIME
from fencepost.txn.spark.rows.routing import Routes, with_routes
from fencepost.txn.spark.rows.row_placement import PLACED, Placer
from fencepost.txn.spark.rows.task_summary import Summary
from fencepost.txn.spark.rows.topic_limits import Limits, TopicLimits

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
HOUR_MS = 3_600_000
ROUTES = Routes.of({"t": 3})


def place(
    rows: int,
    *,
    routes: Routes = ROUTES,
    limits: TopicLimits | None = None,
    kept_bytes: int = 1 << 20,
    bad_row_limit: int = 1000,
    **columns: Any,
) -> tuple[list[tuple[Any, ...]], list[Summary]]:
    """The rows that go out, value and partition, and those that do not. `columns`: beside a value for each row."""
    values = columns.pop("value", [f"v{row}" for row in range(rows)])
    kinds = {"headers": HEADERS, "timestamp": pa.int64(), "key": pa.string(), "topic": pa.string(), "partition": pa.int32()}
    given = {name: column if isinstance(column, pa.Array) else pa.array(column, kinds[name]) for name, column in columns.items()}
    batch = pa.RecordBatch.from_pydict({"value": values if isinstance(values, pa.Array) else pa.array(values), **given})
    check = RowCheck(
        routes,
        topic=None if "topic" in columns else routes.topics[0],
        largest=2000,
        limited_by="max_request_size=2000",
        limits=limits or TopicLimits(),
        kept_bytes=kept_bytes,
        bad_row_limit=bad_row_limit,
    )
    placer = Placer(check, routes.every)
    portions, bad = placer.place(with_routes(batch, routes) if {"key", "partition"} & columns.keys() else batch)
    out = [(portion.topic, row["value"], row[PLACED]) for portion in portions for row in portion.rows.select(["value", PLACED]).to_pylist()]
    return out, bad


def headers(*rows: Any) -> Any:
    return pa.array(
        [
            [None if pair is None else dict(zip(("key", "value"), pair, strict=True)) for pair in row] if row is not None else None
            for row in rows
        ],
        HEADERS,
    )


def not_utf8(*texts: bytes) -> Any:
    """Strings as Spark makes them of any bytes."""
    return pa.StringArray.from_buffers(len(texts), *pa.array(texts, pa.binary()).buffers()[1:])


@pytest.mark.parametrize("first", [0, 2])
def test_headers_that_kafka_has_no_form_for(first: int) -> None:
    """A null among the headers, or for a name, and a name that is no UTF-8: found by row, also in a slice; null values, and rows without
    headers, are fine."""
    given = headers([("a", b"1")], None, [("b", None), ("c", b"")], [None], [], [("d", b"1"), (None, b"2")], [("e", b"")])
    given = given.slice(first)
    out, bad = place(len(given), headers=given)
    assert [value for _, value, _ in out] == [f"v{row - first}".encode() for row in (0, 1, 2, 4, 6) if row >= first]
    assert [each.value for each in bad] == [f"v{row - first}".encode() for row in (3, 5)]
    assert {each.reason for each in bad} == {"a header that is null, or whose key is"}
    struct = pa.StructArray.from_arrays([not_utf8(b"good", b"b\xffd"), pa.array([b"", b""])], names=["key", "value"])
    out, bad = place(2, headers=pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), struct))
    assert [value for _, value, _ in out] == [b"v0"]
    assert [each.reason for each in bad] == ["a header whose key is no UTF-8: b'b\\xffd'"]


def test_texts_that_are_no_utf8() -> None:
    """Spark's strings may hold any bytes: keys and values are written as they are, and a topic like that is a bad row like others."""
    out, bad = place(2, value=not_utf8(b"\xff1", b"2"), key=not_utf8(b"\xfe", b"k"))
    assert sorted(value for _, value, _ in out) == [b"2", b"\xff1"]
    assert bad == []
    columns: list[dict[str, Any]] = [{}, {"partition": [0, 0]}]
    for more in columns:
        out, bad = place(2, topic=not_utf8(b"t", b"\xff"), **more)
        assert [(topic, value) for topic, value, _ in out] == [("t", b"v0")]
        assert [(each.topic, each.value) for each in bad] == [("\\xff", b"v1")]


def test_times_that_are_none() -> None:
    """Before 1970, and beyond all numbers; null is now."""
    out, bad = place(4, timestamp=[0, -1, NO_TIME, None])
    assert [value for _, value, _ in out] == [b"v0", b"v3"]
    assert [each.reason for each in bad] == ["timestamp -1 ms is before 1970", "a timestamp that is no time"]


def test_what_topics_take() -> None:
    """Each topic's own limits, told with the config's name and value; where nothing is known of a topic, nothing is refused."""
    now = int(time.time() * 1000)
    limits = TopicLimits({"a": Limits(bytes_max=200, before_max_ms=HOUR_MS, after_max_ms=HOUR_MS), "b": Limits(keyed=True)})
    routes = Routes.of({"a": 1, "b": 2, "c": 1})
    values = [b"x" * 150, b"y" * 50, b"z" * 50, b"now", b"tombless", b"keyed", b"x" * 150]
    out, bad = place(
        7,
        routes=routes,
        limits=limits,
        value=pa.array(values),
        topic=["a", "a", "a", "a", "b", "b", "c"],
        timestamp=[None, now - 2 * HOUR_MS, now + 2 * HOUR_MS, now, -0, None, now + 2 * HOUR_MS],
        key=[None, None, None, None, None, "k", None],
    )
    assert [(topic, value) for topic, value, _ in out] == [("a", b"now"), ("b", b"keyed"), ("c", b"x" * 150)]
    said = {each.value: each.reason or "" for each in bad}
    assert said[values[0]].endswith("bytes exceeds max.message.bytes=200 of topic 'a'")
    assert f"longer ago than topic 'a' takes (message.timestamp.before.max.ms={HOUR_MS})" in said[values[1]]
    assert f"further ahead than topic 'a' takes (message.timestamp.after.max.ms={HOUR_MS})" in said[values[2]]
    assert said[values[4]] == "topic 'b' is compacted (cleanup.policy), and takes no record without a key"


@pytest.mark.parametrize("column", [{}, {"headers": headers([("h", b"1" * 60)])}])
def test_a_records_size_is_exact(column: Any) -> None:
    """What just fits is written, and a byte more is not: a bound on what a record may take would refuse rows that brokers take."""
    (_, bad) = place(1, limits=TopicLimits({"t": Limits(bytes_max=1)}), value=[b"x" * 100], **column)
    size = int((bad[0].reason or "").split()[3])
    assert place(1, limits=TopicLimits({"t": Limits(bytes_max=size)}), value=[b"x" * 100], **column)[1] == []
    assert len(place(1, limits=TopicLimits({"t": Limits(bytes_max=size - 1)}), value=[b"x" * 100], **column)[1]) == 1


def test_what_packs_well_is_no_bad_row() -> None:
    """Brokers look at packed bytes, and so is the row, with the producers' codec."""
    limits = {"t": Limits(bytes_max=200)}
    assert len(place(1, limits=TopicLimits(limits), value=[b"x" * 1000])[1]) == 1
    assert place(1, limits=TopicLimits(limits, Codec.GZIP), value=[b"x" * 1000])[1] == []


def test_bad_rows_are_cut() -> None:
    """All that is kept of keys and values is within the limit, however many there are, no row is left without, and whether one was cut is
    told; where they are not to be kept, nothing is."""
    values = [b"x" * 600] * 50
    out, bad = place(50, value=pa.array(values), timestamp=[-1] * 50, kept_bytes=4000)
    assert (out, len(bad)) == ([], 50)
    assert sum(len(each.value or b"") for each in bad) <= 4000
    assert [each.cut for each in bad[:3]] == [False] * 3
    assert bad[-1].cut is True
    assert all(each.value for each in bad[:8])
    assert {each.size for each in bad} == {600}
    assert {each.value for each in place(50, value=pa.array(values), timestamp=[-1] * 50, kept_bytes=0)[1]} == {b""}


@pytest.mark.parametrize("limit", [0, 5, 50])
def test_more_bad_rows_than_may_be_are_counted(limit: int) -> None:
    """The batch fails for them: as many are described as a message or the topic of bad rows can use, the others stand in one row of their
    own, and nothing is placed any more."""
    check = RowCheck(
        ROUTES,
        topic="t",
        largest=2000,
        limited_by="max_request_size=2000",
        limits=TopicLimits({"t": Limits(keyed=True)}),
        kept_bytes=0,
        bad_row_limit=limit,
    )
    placer = Placer(check, ROUTES.every)
    keys = pa.array([None] * 30_000 + ["k"] * 10)
    batch = with_routes(pa.RecordBatch.from_pydict({"value": pa.array(["v"] * len(keys)), "key": keys}), ROUTES)
    described = max(10, limit + 1)
    for _ in range(2):
        portions, bad = placer.place(batch)
        assert portions == []
        assert {each.records for each in bad} <= {1}
        assert len(bad) == described
        described = 0
    (rest,) = check.rest()
    assert (rest.records, rest.reason) == (60_000 - max(10, limit + 1), None)
