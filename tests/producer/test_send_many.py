"""Many records in one call: the same records at the same places as one by one, followed by one future."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import (
    AsyncProducer,
    BufferFull,
    BulkFuture,
    DeliveryFatal,
    Misuse,
    Persisted,
    Producer,
    RecordRefused,
    RecordTooLarge,
    TopicUnavailable,
    UndeliveredRecords,
)
from fencepost.producer.wire import Api, ErrorCode
from tests.producer.stub_helpers import QUICK, quick, values

ROWS = [(b"key-%d" % (n % 50), b"value-%d" % n) for n in range(3_000)]


def logged(stub: BrokerStub, topic: str, partitions: int) -> list[list[tuple[bytes | None, bytes | None]]]:
    """(key, value) of each partition's log, in order."""
    return [
        [(r.key and bytes(r.key), None if r.value is None else bytes(r.value)) for r in stub.records(topic, partition)]
        for partition in range(partitions)
    ]


def sent(error: BaseException) -> BulkFuture:
    """The future of the rows that were accepted before the error."""
    bulk = error.sent  # type: ignore[attr-defined]  # documented, and on exceptions of any type
    assert isinstance(bulk, BulkFuture)
    return bulk


@pytest.mark.parametrize("container", [list, tuple, iter])
def test_rows_lie_where_send_would_put_them(container: Any) -> None:
    """Keyed rows go to their keys' partitions, in their order; the offsets are those of the log, and every row is counted."""
    with BrokerStub(default_partitions=4) as stub, quick(stub, batch_size=4_000) as producer:
        for key, value in ROWS:
            producer.send("single", value, key=key)
        producer.flush()
        bulk = producer.send_many("many", container(ROWS))
        deliveries = bulk.result(20)
        assert bulk.accepted == deliveries.acknowledged == len(ROWS)
        assert not deliveries.failures
        assert logged(stub, "many", 4) == logged(stub, "single", 4)
        assert deliveries.offsets == {p: [range(len(rows))] for p, rows in enumerate(logged(stub, "many", 4)) if rows}


def test_every_kind_of_row() -> None:
    """Values, pairs, longer tuples and mappings, with headers, timestamps, partitions and nulls; the caller's list stays what it was."""
    rows: list[object] = [
        b"value",
        None,
        (b"key", None),
        (b"key", b"v", [("h", b"1"), ("n", None)], 1_700_000_000_000, 1),
        {"value": b"v", "key": b"k", "headers": {"h": b"2"}, "timestamp": 1_700_000_000_001, "partition": 2},
    ]
    before = list(rows)
    with BrokerStub(default_partitions=3) as stub, quick(stub) as producer:
        assert producer.send_many("t", rows, partition=0).result(20).acknowledged == 5
        assert rows == before
        assert [(r.key, r.value) for r in stub.records("t", 0)] == [(None, b"value"), (None, None), (b"key", None)]
        (first,), (second,) = stub.records("t", 1), stub.records("t", 2)
        assert (first.timestamp, list(first.headers)) == (1_700_000_000_000, [("h", b"1"), ("n", None)])
        assert (second.timestamp, list(second.headers)) == (1_700_000_000_001, [("h", b"2")])


@pytest.mark.parametrize(
    ("bad", "error", "words"),
    [
        ("text", TypeError, "row 2 must be bytes, None, a tuple"),
        ((b"k", "v"), TypeError, "row 2: value must be bytes or None, not str"),
        ((1, b"v"), TypeError, "row 2: key must be bytes or None, not int"),
        ((b"k",), TypeError, "row 2 must be bytes, None, a tuple .* of 2 to 5 or a mapping, not a tuple of 1"),
        ({"valeu": b"v"}, TypeError, "row 2: 'valeu' is none of key, value, headers, timestamp, partition"),
        ((b"k", b"v", "h"), TypeError, "row 2: headers must be"),
        ((b"k", b"v", None, "soon"), TypeError, "row 2: timestamp must be an int"),
        ((b"k", b"v", None, -5), ValueError, "row 2: timestamp=-5 is out of range"),
        ((b"k", b"v", None, None, -1), ValueError, "row 2: partition=-1 is out of range"),
        ((b"k", b"v", None, None, 1 << 31), ValueError, "row 2: partition=2147483648 is out of range: from 0 to 2147483647"),
        ((b"k", b"v", None, 2**63), ValueError, "row 2: timestamp=9223372036854775808 is out of range: from 0 to 9223372036854775807"),
        ((b"k", b"v", None, None, 10**20), ValueError, "row 2: partition=100000000000000000000 is out of range"),
        ((b"k", b"v", None, -(2**70)), ValueError, "row 2: timestamp=-1180591620717411303424 is out of range"),
        ((b"k", b"v", [("\ud800", b"")]), ValueError, r"row 2: headers: the name '\\ud800' cannot be encoded as UTF-8"),
        ((b"k", b"v", {"h": "text"}), TypeError, "row 2: headers must be"),
        (b"x" * 2_000, RecordTooLarge, "row 2: a record of up to 2082 bytes exceeds max_request_size=2000"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_bad_row_is_named_and_nothing_was_accepted(bad: object, error: type[Exception], words: str) -> None:
    """A list is checked whole before any of it is accepted."""
    with BrokerStub(default_partitions=1) as stub, quick(stub, max_request_size=2_000) as producer:
        with pytest.raises(error, match=words) as caught:
            producer.send_many("t", [b"0", b"1", bad, b"3"])
        assert sent(caught.value).accepted == 0
        producer.send_many("t", [b"after"]).result(20)
        assert values(stub, "t") == [b"after"]


def test_a_bad_row_of_an_iterator() -> None:
    """What came before the 4,096 rows in which it lies was accepted and is followed by `.sent`."""

    def rows() -> Iterator[object]:
        yield from (b"%d" % n for n in range(5_000))
        yield "bad"

    with BrokerStub(default_partitions=1) as stub, quick(stub) as producer:
        with pytest.raises(TypeError, match="row 5000") as caught:
            producer.send_many("t", rows())
        assert sent(caught.value).accepted == 4_096
        assert sent(caught.value).result(20).acknowledged == 4_096
        assert values(stub, "t") == [b"%d" % n for n in range(4_096)]


@pytest.mark.parametrize("call", ["send", "try_send", "send_many", "send_arrow", "asyncio"])
def test_a_header_name_that_cannot_be_encoded(call: str) -> None:
    """The call accepts nothing, also if other callers' records are in the same batch. Those keep their offsets, no bulk claims them, and
    the producer goes on."""
    poison = [("\ud800", b"x")]
    rows = [(b"k", b"0"), (b"k", b"1", poison), (b"k", b"2")]

    async def on_asyncio() -> None:
        async with AsyncProducer(bootstrap_servers=stub.bootstrap, **QUICK) as other:
            await other.send_many("t", rows)

    def attempt() -> None:
        if call == "send_many":
            producer.send_many("t", rows)
        elif call == "send_arrow":
            kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
            raw = pa.array([b"\xed\xa0\x80"]).view(pa.string())  # what Arrow takes for text, and Python does not
            struct = pa.StructArray.from_arrays([raw, pa.array([b"x"])], ["key", "value"])
            headers = pa.ListArray.from_arrays(pa.array([0, 0, 1], pa.int32()), struct).cast(kind)
            producer.send_arrow("t", pa.table({"value": [b"0", b"1"], "h": headers}), headers="h")
        elif call == "asyncio":
            asyncio.run(asyncio.wait_for(on_asyncio(), 60))
        else:
            getattr(producer, call)("t", b"1", key=b"k", headers=poison)

    with BrokerStub(default_partitions=1) as stub, quick(stub, linger_ms=60_000) as producer:
        producer.partitions_for("t")
        before = producer.send("t", b"before")
        with pytest.raises(ValueError, match=r"cannot be encoded|utf-8") as caught:
            attempt()
        if call in ("send_many", "send_arrow"):
            assert sent(caught.value).accepted == 0
            assert sent(caught.value).result(0).offsets == {}
        after = producer.send_many("t", [b"after"])
        assert (before.result(20).offset, after.result(20).offsets) == (0, {0: [range(1, 2)]})
        assert values(stub, "t") == [b"before", b"after"]


@pytest.mark.parametrize("records", [b"one value", "text"])
def test_one_value_is_not_many(records: Any) -> None:
    """bytes iterate to integers; that is a mistake, not a bulk."""
    with BrokerStub(default_partitions=1) as stub, quick(stub) as producer, pytest.raises(TypeError, match="that is one value"):
        producer.send_many("t", records)


def test_nothing_is_something() -> None:
    """An empty bulk is done at once."""
    with BrokerStub(default_partitions=1) as stub, quick(stub) as producer:
        bulk = producer.send_many("t", [])
        assert bulk.done()
        assert bulk.result(0).acknowledged == 0


def test_it_waits_for_room() -> None:
    """More rows than the buffer holds go through it; all of them are in the log, in order."""
    rows = [b"%d" % n + b"x" * 100 for n in range(2_000)]
    with BrokerStub(default_partitions=1) as stub, quick(stub, buffer_memory=20_000, batch_size=4_000, max_request_size=8_000) as producer:
        assert producer.send_many("t", rows).result(30).acknowledged == len(rows)
        assert values(stub, "t") == rows


def test_a_buffer_that_stays_full() -> None:
    """BufferFull says why; `.sent` tells how many rows were accepted, and what becomes of them; the rest may be sent again."""
    rows = [b"%d" % n + b"x" * 100 for n in range(200)]
    with BrokerStub(default_partitions=1) as stub:
        with quick(stub, buffer_memory=8_000, max_request_size=8_000, max_block_ms=100) as producer:
            producer.partitions_for("t", timeout=20)
            hold = stub.faults.on(Api.PRODUCE).before().forever().hold()
            with pytest.raises(BufferFull, match=r"buffer_memory=8000 .* max_block_ms=100") as caught:
                producer.send_many("t", rows)
            bulk = sent(caught.value)
            assert 0 < bulk.accepted < len(rows)
            assert not bulk.done()
            with pytest.raises(TimeoutError, match="not every row has its outcome within 0"):
                bulk.result(0)
            hold.remove()
            assert bulk.result(20).acknowledged == bulk.accepted
            rest = rows[bulk.accepted :]
            while rest:
                try:
                    rest = rest[producer.send_many("t", rest).accepted :]
                except BufferFull as full:
                    rest = rest[sent(full).accepted :]
        assert values(stub, "t") == rows


def test_failures_by_row() -> None:
    """A refused batch fails exactly its rows, with the DeliveryError that `send` would give; the others are acknowledged."""
    with BrokerStub(default_partitions=2) as stub, quick(stub) as producer:
        producer.partitions_for("t")
        stub.faults.on(Api.PRODUCE).where(partition=1).before().times(1).error(ErrorCode.INVALID_RECORD)
        rows = [(b"k", b"%d" % n, None, None, n % 2) for n in range(100)]
        deliveries = producer.send_many("t", rows).result(20)
        assert deliveries.acknowledged == 50
        assert deliveries.offsets == {0: [range(50)]}
        assert sorted(deliveries.failures) == list(range(1, 100, 2))
        failure = deliveries.failures[1]
        assert isinstance(failure, RecordRefused)
        assert (failure.partition, failure.persisted, failure.code) == (1, Persisted.NO, ErrorCode.INVALID_RECORD)
        producer.flush()  # they have been looked at


def test_flush_raises_unobserved_failures_of_a_bulk() -> None:
    """`flush` raises the failures of a bulk that the program did not look at."""
    with BrokerStub(default_partitions=1) as stub, quick(stub) as producer:
        producer.partitions_for("t")
        stub.faults.on(Api.PRODUCE).before().times(1).error(ErrorCode.INVALID_RECORD)
        producer.send_many("t", [b"x"] * 7)
        with pytest.raises(UndeliveredRecords, match="7 records were not delivered"):
            producer.flush()


def test_a_batch_that_is_split() -> None:
    """Rows of a batch that was too large keep their numbers and offsets in the pieces, beside those of other callers."""
    with BrokerStub(default_partitions=1) as stub, quick(stub, linger_ms=60_000) as producer:
        producer.partitions_for("t")
        stub.faults.on(Api.PRODUCE).before().times(3).error(ErrorCode.MESSAGE_TOO_LARGE)
        before = producer.send("t", b"before")
        bulk = producer.send_many("t", [b"%d" % n for n in range(10)])
        between = producer.send("t", b"between")
        other = producer.send_many("t", [b"a", b"b"])
        assert bulk.result(20).offsets == {0: [range(1, 11)]}
        assert other.result(20).offsets == {0: [range(12, 14)]}
        assert (before.result(20).offset, between.result(20).offset) == (0, 11)
        assert values(stub, "t") == [b"before", *(b"%d" % n for n in range(10)), b"between", b"a", b"b"]


def test_two_threads_interleave() -> None:
    """Bulks of two threads in the same batches: each knows its own offsets."""
    from concurrent.futures import ThreadPoolExecutor

    with BrokerStub(default_partitions=1) as stub, quick(stub, batch_size=3_000) as producer:
        producer.partitions_for("t")
        with ThreadPoolExecutor(2) as pool:
            bulks = list(pool.map(lambda name: producer.send_many("t", [name + b"%d" % n for n in range(5_000)]), [b"a", b"b"]))
        log = values(stub, "t") if all(bulk.result(20) for bulk in bulks) else []
        for name, bulk in zip((b"a", b"b"), bulks, strict=True):
            own = [log[offset] for span in bulk.result(0).offsets[0] for offset in span]
            assert own == [name + b"%d" % n for n in range(5_000)]


def test_keyless_rows_spread() -> None:
    """The sticky partitioner moves on as it does for `send`."""
    with BrokerStub(default_partitions=4) as stub, quick(stub, partitioner="round_robin") as producer:
        assert producer.send_many("t", [b"x"] * 400).result(20).acknowledged == 400
        assert [len(rows) for rows in logged(stub, "t", 4)] == [100] * 4
    with BrokerStub(default_partitions=4) as stub, quick(stub) as producer:
        producer.send_many("t", [b"x" * 1_000] * 1_000).result(20)
        assert all(logged(stub, "t", 4))


def test_it_is_told_of_the_end() -> None:
    """A callback runs once every row has its outcome, and at once when that is so; closing fails what is left."""
    told: list[BulkFuture] = []
    with BrokerStub(default_partitions=1) as stub:
        producer = quick(stub)
        bulk = producer.send_many("t", [b"x"] * 10)
        bulk.add_done_callback(told.append)
        bulk.result(20)
        producer.flush()
        bulk.add_done_callback(told.append)
        assert told == [bulk, bulk]
        stub.faults.on(Api.PRODUCE).before().forever().hold()
        late = producer.send_many("t", [b"y"] * 3)
        with pytest.raises(UndeliveredRecords):
            producer.close(0.05)
        assert {type(error) for error in late.result(0).failures.values()} == {DeliveryFatal}


def test_what_its_callback_raises(caplog: pytest.LogCaptureFixture) -> None:
    """The error is logged and not raised, on every thread that runs callbacks. Other callbacks run."""
    told: list[str] = []

    def fail(_: BulkFuture) -> None:
        told.append(threading.current_thread().name)
        raise SystemExit("out of here")

    with BrokerStub(default_partitions=1) as stub, quick(stub) as producer:
        producer.partitions_for("t")
        hold = stub.faults.on(Api.PRODUCE).before().times(1).hold()
        bulk = producer.send_many("t", [b"x"])
        bulk.add_done_callback(fail)
        bulk.add_done_callback(fail)
        hold.remove()
        bulk.result(20)
        producer.flush(20)
        bulk.add_done_callback(fail)
        assert producer.send("t", b"after").result(20).offset == 1
    assert len(told) == 3
    assert told[2] == threading.current_thread().name
    assert told[0] == told[1] != told[2]
    assert [record.message for record in caplog.records] == ["a callback of a bulk raised"] * 3


def test_inside_a_callback() -> None:
    """On the sender thread it does not wait: a bulk that fits is accepted, waiting for it is a Misuse."""
    seen: list[object] = []

    def delivered(_: object) -> None:
        bulk = producer.send_many("t", [b"1", b"2"])
        try:
            bulk.result()
        except Misuse as error:
            seen.append(error)

    with BrokerStub(default_partitions=1) as stub:
        with quick(stub) as producer:
            producer.send("t", b"0", on_delivery=delivered).result(20)
            producer.flush()
        assert len(seen) == 1
        assert values(stub, "t") == [b"0", b"1", b"2"]


def test_an_unknown_topic() -> None:
    """TopicUnavailable within max_block_ms; nothing was accepted."""
    with BrokerStub() as stub, quick(stub, max_block_ms=100, allow_auto_create_topics=False) as producer:
        with pytest.raises(TopicUnavailable) as caught:
            producer.send_many("missing", [b"x"])
        assert sent(caught.value).accepted == 0


def test_on_asyncio() -> None:
    """On a loop, other tasks run while many bulks share a small buffer, and a bulk can be awaited."""

    async def story() -> None:
        async with AsyncProducer(bootstrap_servers=stub.bootstrap, **{**QUICK, "buffer_memory": 50_000, "batch_size": 5_000}) as producer:
            turns = 0

            async def count() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            counting = asyncio.create_task(count())
            bulks = await asyncio.gather(*(producer.send_many("t", [b"%d:%d" % (task, n) for n in range(5_000)]) for task in range(8)))
            deliveries = await asyncio.gather(*bulks)
            counting.cancel()
            assert [d.acknowledged for d in deliveries] == [5_000] * 8
            assert turns > 20

    with BrokerStub(default_partitions=2) as stub:
        asyncio.run(asyncio.wait_for(story(), 60))
        rows = Counter(value for partition in logged(stub, "t", 2) for _, value in partition)
    assert rows == Counter(b"%d:%d" % (task, n) for task in range(8) for n in range(5_000))


def test_on_asyncio_cancelled_in_the_middle() -> None:
    """What was accepted is delivered, once; the producer goes on."""

    async def story() -> None:
        settings = {**QUICK, "buffer_memory": 10_000, "max_request_size": 8_000}
        async with AsyncProducer(bootstrap_servers=stub.bootstrap, **settings) as producer:
            await producer.partitions_for("t")
            hold = stub.faults.on(Api.PRODUCE).before().forever().hold()
            sending = asyncio.create_task(producer.send_many("t", [b"%d" % n + b"x" * 100 for n in range(1_000)]))
            while not hold.hits:
                await asyncio.sleep(0.001)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            hold.remove()
            await producer.flush()
            await (await producer.send("t", b"after", partition=0))

    with BrokerStub(default_partitions=1) as stub:
        asyncio.run(asyncio.wait_for(story(), 60))
        numbers = [value.rstrip(b"x") for value in values(stub, "t")]
    assert numbers == [b"%d" % n for n in range(len(numbers) - 1)] + [b"after"]


def test_a_subclass_of_the_producer_still_sends() -> None:
    """The compiled class takes interpreted subclasses."""

    class Mine(Producer):
        pass

    with BrokerStub(default_partitions=1) as stub, Mine(bootstrap_servers=stub.bootstrap, **QUICK) as producer:
        assert producer.send_many("t", [b"x"]).result(20).acknowledged == 1
