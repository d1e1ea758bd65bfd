"""Arrow columns: what lands in the log is what the columns say, for every type, slice and null, without an object for each row."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from fencepost.broker_stub import BrokerStub
from fencepost.producer import AsyncProducer, RecordTooLarge
from tests.producer.stub_helpers import QUICK, quick
from tests.producer.test_send_many import logged, sent

DATA = [b"", b"a", b"seven77", b"eight888", b"nine99999", None, b"x" * 300]


def stored(stub: BrokerStub, topic: str = "t") -> list[tuple[bytes | None, bytes | None]]:
    return logged(stub, topic, 1)[0]


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(),
        pa.large_binary(),
        pa.string(),
        pa.large_string(),
        pa.binary_view(),
        pa.string_view(),
        pa.dictionary(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_every_kind_of_bytes(kind: Any) -> None:
    """Strings and binaries of every layout, nulls among them, as value and as key."""
    texts = [None if item is None else item.decode() for item in DATA]
    source = pa.array(texts, pa.string())
    column = source.dictionary_encode() if pa.types.is_dictionary(kind) else pa.array(DATA if "binary" in str(kind) else texts, kind)
    with BrokerStub(default_partitions=1) as stub, quick(stub) as producer:
        deliveries = producer.send_arrow("t", pa.table({"value": column, "k": column}), key="k").result(20)
        assert deliveries.acknowledged == len(DATA)
        assert stored(stub) == [(item, item) for item in DATA]


def test_fixed_size_and_null_columns() -> None:
    """Binaries of a fixed size, and a column that is null throughout."""
    table = pa.table({"value": pa.array([b"1234", None, b"5678"], pa.binary(4)), "key": pa.nulls(3)})
    with BrokerStub(default_partitions=1) as stub, quick(stub) as producer:
        producer.send_arrow("t", table, key="key").result(20)
        assert stored(stub) == [(None, b"1234"), (None, None), (None, b"5678")]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=40)), max_size=60),
    st.integers(0, 20),
    st.integers(0, 60),
)
def test_slices_and_chunks(rows: list[tuple[bytes | None, bytes | None]], start: int, length: int) -> None:
    """Any slice of any chunks gives its rows, in order, for all offsets in the buffers."""
    half = len(rows) // 2
    chunks = (rows[:half], rows[half:])
    table = pa.table(
        {
            "key": pa.chunked_array([pa.array([k for k, _ in part], pa.binary()) for part in chunks]),
            "value": pa.chunked_array([pa.array([v for _, v in part], pa.binary()) for part in chunks]),
        }
    ).slice(start, length)
    with BrokerStub(default_partitions=1) as stub, quick(stub) as producer:
        assert producer.send_arrow("t", table, key="key").result(20).acknowledged == table.num_rows
        if table.num_rows:
            assert stored(stub) == rows[start : start + length]


@pytest.mark.parametrize("form", ["table", "batch", "reader", "stream"])
def test_what_data_may_be(form: str) -> None:
    """A Table, a RecordBatch, a RecordBatchReader, and every object that exports an Arrow stream."""
    table = pa.table({"value": [b"0", b"1", b"2"]})

    class Exporter:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return table.__arrow_c_stream__(requested_schema)

    data = {"table": table, "batch": table.to_batches()[0], "reader": table.to_reader(), "stream": Exporter()}[form]
    with BrokerStub(default_partitions=1) as stub, quick(stub) as producer:
        assert producer.send_arrow("t", data).result(20).offsets == {0: [range(3)]}
        assert [value for _, value in stored(stub)] == [b"0", b"1", b"2"]


def test_keys_go_where_send_puts_them() -> None:
    """murmur2 of the column's bytes, as of a key of `send`; null keys stick and move on."""
    keys = [None if n % 9 == 0 else b"key-%d" % n for n in range(500)]
    table = pa.table({"value": pa.array([b"%d" % n for n in range(500)]), "key": pa.array(keys, pa.binary())})
    with BrokerStub(default_partitions=5) as stub, quick(stub) as producer:
        producer.send_arrow("columns", table, key="key").result(20)
        for n, key in enumerate(keys):
            producer.send("single", b"%d" % n, key=key)
        producer.flush()
        for columns, single in zip(logged(stub, "columns", 5), logged(stub, "single", 5), strict=True):
            assert [row for row in columns if row[0] is not None] == [row for row in single if row[0] is not None]
        assert sum(map(len, logged(stub, "columns", 5))) == 500


def test_partitions_timestamps_and_headers() -> None:
    """Each from its column: null partitions are chosen, null timestamps are now; timestamps of any unit, headers as structs or as a map."""
    moment = datetime.datetime(2024, 2, 29, 12, 0, 0, 123_456, tzinfo=datetime.UTC)
    table = pa.table(
        {
            "value": [b"0", b"1", b"2"],
            "p": pa.array([2, 0, 1], pa.int64()),
            "us": pa.array([moment, None, moment], pa.timestamp("us", "UTC")),
            "ms": pa.array([5, 6, None], pa.int64()),
            "h": pa.array([[{"key": "a", "value": b"1"}], None, []], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            "m": pa.array([[("a", b"1"), ("b", None)], [], None], pa.map_(pa.string(), pa.binary())),
        }
    )
    with BrokerStub(default_partitions=3) as stub, quick(stub) as producer:
        producer.send_arrow("a", table, partition="p", timestamp="us", headers="h").result(20)
        producer.send_arrow("b", table, partition="p", timestamp="ms", headers="m").result(20)
        (zero,), (one,), (two,) = (stub.records("a", partition) for partition in (2, 0, 1))
        assert zero.timestamp == two.timestamp == int(moment.timestamp() * 1000)
        assert one.timestamp > zero.timestamp
        assert [list(r.headers) for r in (zero, one, two)] == [[("a", b"1")], [], []]
        (zero,), (one,), (two,) = (stub.records("b", partition) for partition in (2, 0, 1))
        assert (zero.timestamp, one.timestamp) == (5, 6)
        assert [list(r.headers) for r in (zero, one, two)] == [[("a", b"1"), ("b", None)], [], []]


@pytest.mark.parametrize(
    ("table", "names", "error", "words"),
    [
        (pa.table({"v": [b"x"]}), {}, ValueError, "value='value': there is no such column.*the columns are v"),
        (pa.table({"value": [1]}), {}, TypeError, "value='value' must be a string or binary column, not int64"),
        (pa.table({"value": [b"x"], "k": [1.5]}), {"key": "k"}, TypeError, "key='k' must be a string or binary column, not double"),
        (pa.table({"value": [b"x"], "p": ["0"]}), {"partition": "p"}, TypeError, "partition='p' must be a column of integers, not string"),
        (pa.table({"value": [b"x"], "p": [-1]}), {"partition": "p"}, ValueError, "partition='p' has -1: from 0 on"),
        (pa.table({"value": [b"x"], "t": [-1]}), {"timestamp": "t"}, ValueError, "timestamp='t' has -1"),
        ([b"x"], {}, TypeError, "data must be a pyarrow Table, RecordBatch or RecordBatchReader, not list"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_wrong_column_is_named(table: Any, names: dict[str, str], error: type[Exception], words: str) -> None:
    """Before anything is accepted."""
    with BrokerStub(default_partitions=1) as stub, quick(stub) as producer:
        with pytest.raises(error, match=words) as caught:
            producer.send_arrow("t", table, **names)
        assert sent(caught.value).accepted == 0


def test_a_row_that_is_too_large_is_named() -> None:
    """With its number in the whole table; the chunk it lies in was not accepted."""
    table = pa.table({"value": pa.chunked_array([[b"small"] * 10, [b"small", b"x" * 3_000]])})
    with BrokerStub(default_partitions=1) as stub, quick(stub, max_request_size=2_000) as producer:
        with pytest.raises(RecordTooLarge, match="row 11: a record of up to 3082 bytes exceeds max_request_size=2000") as caught:
            producer.send_arrow("t", table)
        assert sent(caught.value).accepted == 10


@pytest.mark.parametrize("way", ["send", "send_many", "send_arrow"])
def test_a_row_that_is_just_not_too_large(way: str) -> None:
    """Each of the three ways to send accepts the largest size, and refuses one byte more."""
    with BrokerStub(default_partitions=1) as stub, quick(stub, max_request_size=2_000) as producer:
        send: dict[str, Callable[[bytes], object]] = {
            "send": lambda value: producer.send("t", value),
            "send_many": lambda value: producer.send_many("t", [value]),
            "send_arrow": lambda value: producer.send_arrow("t", pa.table({"value": [value]})),
        }
        with pytest.raises(RecordTooLarge):
            send[way](b"x" * (2_000 - 82 + 1))
        send[way](b"x" * (2_000 - 82))
        producer.flush(20)
        assert [value for _, value in stored(stub)] == [b"x" * (2_000 - 82)]


def test_more_than_the_buffer_holds() -> None:
    """It waits for room, on a thread and on asyncio, and every row is in the log once, in order."""
    rows = [b"%d" % n + b"x" * 90 for n in range(20_000)]
    table = pa.table({"value": pa.array(rows, pa.binary())})

    async def story() -> None:
        async with AsyncProducer(bootstrap_servers=stub.bootstrap, **{**QUICK, "buffer_memory": 200_000}) as producer:
            assert (await (await producer.send_arrow("aio", table))).acknowledged == len(rows)

    with BrokerStub(default_partitions=1) as stub:
        with quick(stub, buffer_memory=200_000) as producer:
            assert producer.send_arrow("t", table).result(30).acknowledged == len(rows)
        asyncio.run(asyncio.wait_for(story(), 60))
        assert [value for _, value in stored(stub)] == rows
        assert [value for _, value in stored(stub, "aio")] == rows


def test_headers_count_in_the_size_of_a_row() -> None:
    """A row that only its headers make too large is refused at once and by its number, not waited for until max_block_ms."""
    kind = pa.map_(pa.string(), pa.binary())
    table = pa.table({"value": [b"0", b"1"], "h": pa.array([None, list({"h": b"x" * 5_000}.items())], kind)})
    with (
        BrokerStub(default_partitions=1) as stub,
        quick(stub, buffer_memory=4_000, max_request_size=4_000) as producer,
        pytest.raises(RecordTooLarge, match=r"row 1: a record of up to 50.. bytes exceeds"),
    ):
        producer.send_arrow("t", table, headers="h")


def test_headers_that_are_none() -> None:
    """A column that holds no headers, or a pair that is null, is a TypeError that names the row, and nothing was accepted."""
    pairs = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    with BrokerStub(default_partitions=1) as stub, quick(stub) as producer:
        for column in (pa.array([None, 7]), pa.array([None, [None]], pairs), pa.array([[], [{"key": None, "value": b"x"}]], pairs)):
            with pytest.raises(TypeError, match="row 1: headers='h' must be"):
                producer.send_arrow("t", pa.table({"value": [b"0", b"1"], "h": column}), headers="h")
        assert producer.send_many("t", [b"after"]).result(20).offsets == {0: [range(1)]}
