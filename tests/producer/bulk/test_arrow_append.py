"""Columns that Arrow plans and packs become the same bytes as the same rows one by one, also while other callers append."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from fencepost.broker_stub import BrokerStub
from fencepost.producer import ProducerClosed
from fencepost.producer.accumulator.accumulator import ROW_BYTES, Accumulator, TopicQueues
from fencepost.producer.accumulator.batch import Batch, Shared
from fencepost.producer.bulk.append import Target
from fencepost.producer.bulk.arrow_append import PLANNED_ROWS_MIN, STEP_BYTES, ArrowChunk
from fencepost.producer.bulk.arrow_columns import arrow_chunks
from fencepost.producer.bulk.arrow_plan import commit, make_plan
from fencepost.producer.bulk.bulk import BulkFuture
from fencepost.producer.bulk.chunks import Chunk
from fencepost.producer.bulk.rows import Row
from fencepost.producer.wire.codecs.codec import Codec
from fencepost.producer.wire.records.batch_builder import pack_headers
from tests.producer.stub_helpers import arrivals, quick
from tests.producer.test_send_many import logged

NOW_MS = 1_700_000_000_000
Data = tuple[bytes | None, bytes | None]
ROWS: list[Data] = [(b"key-%d" % (n % 50), b"value-%d" % n * 5) for n in range(PLANNED_ROWS_MIN * 4)]


class Place:
    """An accumulator with one topic, without a sender."""

    def __init__(self, *, partitions: int = 1, batch_size: int = 1 << 20, buffer_memory: int = 1 << 30) -> None:
        self.wakes = 0
        self.shared = Shared(patience_s=1.0)
        self.shared.wake = self._wake
        self.made = Accumulator(batch_size=batch_size, buffer_memory=buffer_memory, clock=lambda: 0.0, shared=self.shared)
        self.topic = TopicQueues("t", draw=lambda: 7, round_robin=False)
        self.topic.grow(partitions)
        self.topic.partitions = partitions
        self.topic.available = list(range(partitions))
        self.bulk = BulkFuture(self.shared)
        self.target = Target(self.made, self.topic, self.bulk, -1)

    def _wake(self) -> None:
        self.wakes += 1

    def send(self, value: bytes, *, key: bytes | None = None, partition: int = 0, timestamp: int = NOW_MS) -> None:
        assert self.made.append(self.topic, partition, timestamp, key, value, None, None) is not None

    def append(self, chunk: ArrowChunk) -> None:
        while not chunk.done:
            assert chunk.step(self.target, NOW_MS)

    @property
    def batches(self) -> list[Batch]:
        return [batch for queue in self.topic.queues for batch in queue.batches]

    def written(self) -> list[tuple[int, int, int, int, bytes]]:
        """What each batch's header would say, and its records; the batches are closed by it."""
        found = []
        for batch in self.batches:
            builder = batch.builder
            assert builder is not None
            assert batch.size == builder.size
            assert batch.count == builder.count
            records = builder.payload(Codec.NONE)
            assert len(records) == batch.size - 61
            found.append((int(batch.partition), int(batch.count), int(builder.base_timestamp), int(builder.max_timestamp), records))
        return found


def chunk_of(rows: Sequence[Data], *, partitions: Sequence[int | None] = (), timestamps: Sequence[int | None] = ()) -> ArrowChunk:
    columns = {"key": pa.array([key for key, _ in rows], pa.binary()), "value": pa.array([value for _, value in rows], pa.binary())}
    if partitions:
        columns["partition"] = pa.array(partitions, pa.int32())
    if timestamps:
        columns["timestamp"] = pa.array(timestamps, pa.int64())
    return only_chunk(columns)


def only_chunk(columns: dict[str, Any]) -> ArrowChunk:
    """The columns, each for what its name says."""
    names = {name: name if name in columns else None for name in ("key", "partition", "timestamp", "headers")}
    (chunk,) = arrow_chunks(pa.table(columns), value="value", rows_max=1 << 30, largest=1 << 30, setting="", **names)
    return chunk


def random_data(draw: random.Random) -> bytes | None:
    return None if draw.random() < 0.1 else draw.randbytes(draw.choice([0, 1, 40, 56, 57, 63, 64, 100, 127, 128, 300, 8_170, 8_200]))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("count", [1, 3])
def test_the_same_batches_as_one_by_one(seed: int, count: int) -> None:
    """Keys, values, nulls, lengths around every varint's borders, partitions and timestamps given for some: bytes, sizes, counts and
    timestamps of every batch are those of `send`, and so are the bytes that the budget counts, but for what is remembered of each row;
    in one partition, and in several."""
    draw = random.Random(seed)
    rows = [(random_data(draw), random_data(draw)) for _ in range(PLANNED_ROWS_MIN * 2)]
    partitions = [draw.choice([None, *range(count)]) if key is not None else draw.randrange(count) for key, _ in rows]
    timestamps = [draw.choice([None, NOW_MS + 63, NOW_MS + 64, NOW_MS - 8_193, 0, 2**62]) for _ in rows]
    planned, single = (Place(partitions=count, batch_size=60_000) for _ in range(2))
    for place in (planned, single):
        place.send(b"before", partition=count // 2, timestamp=NOW_MS - 70)
    planned.append(chunk_of(rows, partitions=partitions, timestamps=timestamps))
    for (key, value), partition, timestamp in zip(rows, partitions, timestamps, strict=True):
        where, when = -1 if partition is None else partition, NOW_MS if timestamp is None else timestamp
        assert single.made.append(single.topic, where, when, key, value, None, None) is not None
    assert planned.bulk.accepted == len(rows)
    assert single.made.used == sum(batch.size for batch in single.batches)
    assert planned.made.used == single.made.used + len(rows) * ROW_BYTES
    assert planned.written() == single.written()


@pytest.mark.parametrize("row", [{"value": b"value"}, {"value": b"value", "key": None}, {"value": None, "key": b"key"}])
def test_a_record_that_just_fits_its_batch(row: dict[str, bytes | None]) -> None:
    """For every batch_size at which a record just fits or misses by a byte, the batches end where those of `send` end."""
    chunks = {name: pa.array([data] * PLANNED_ROWS_MIN, pa.binary()) for name, data in row.items()}
    for batch_size in range(500, 530):
        planned, single = (Place(batch_size=batch_size) for _ in range(2))
        planned.append(only_chunk(chunks))
        for _ in range(PLANNED_ROWS_MIN):
            assert single.made.append(single.topic, -1, NOW_MS, row.get("key"), row["value"], None, None) is not None
        assert planned.written() == single.written()


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=70), st.none() | st.binary(max_size=70)), min_size=1, max_size=6),
    st.sampled_from([0, 62, 63, 64, 8_100, 8_190, 8_192]),
    st.integers(0, 10**6),
)
def test_the_same_records_wherever_they_begin(rows: list[Data], before: int, later_ms: int) -> None:
    """The rows go on where a batch stands, however many records and milliseconds it has got to."""
    planned, single = Place(), Place()
    for place in (planned, single):
        assert place.made.append(place.topic, 0, NOW_MS - later_ms, None, b"", None, None) is not None
        for batch in place.batches:
            for _ in range(before):
                batch.refill(NOW_MS - later_ms, None, None, None)
        place.made.used = sum(batch.size for batch in place.batches)
    planned.append(chunk_of(rows * PLANNED_ROWS_MIN))
    for key, value in rows * PLANNED_ROWS_MIN:
        assert single.made.append(single.topic, -1, NOW_MS, key, value, None, None) is not None
    assert planned.written() == single.written()


@pytest.mark.parametrize("count", [3, PLANNED_ROWS_MIN])
def test_what_lies_beneath_a_null_is_not_sent(count: int) -> None:
    """Arrow allows any bytes where a null is, and other systems leave some there: the record has none of them, in the key or the value."""
    hiding = pa.array([b"hidden %d" % n for n in range(count)], pa.binary())
    for key_nulls, value_nulls in ((False, True), (True, False), (True, True)):
        columns = {}
        for name, nulls in (("key", key_nulls), ("value", value_nulls)):
            valid = pa.array([not nulls or n % 3 == 0 for n in range(count)]).buffers()[1]
            columns[name] = pa.Array.from_buffers(pa.binary(), count, [valid, *hiding.buffers()[1:]])
        rows: list[Data] = [*zip(*(column.to_pylist() for column in columns.values()), strict=True)]
        assert any(None in row for row in rows)
        arrow, single = Place(), Place()
        arrow.append(only_chunk(columns))
        for key, value in rows:
            assert single.made.append(single.topic, 0, NOW_MS, key, value, None, None) is not None
        assert arrow.written() == single.written()


@pytest.mark.parametrize("large", ["key", "value", "headers"])
@pytest.mark.parametrize("call", ["rows", "columns"])
def test_rows_one_by_one_fill_batches_as_send_does(call: str, large: str) -> None:
    """Every large part of a row counts for the size of its batch, and for the budget before the row is accepted."""
    data = {name: b"x" * (200 if name == large else 1) for name in ("key", "value", "headers")}
    key, value, pairs = data["key"], data["value"], [("h", data["headers"])]
    many, single = (Place(batch_size=1_000, buffer_memory=5_000) for _ in range(2))
    content: Any = [Row(key, value, pack_headers(pairs), -1, -1)] * 50
    chunk = Chunk(content, 50, 0, -1)
    if call == "columns":
        kind = pa.map_(pa.string(), pa.binary())
        columns = {"key": pa.array([key] * 50), "value": pa.array([value] * 50), "headers": pa.array([pairs] * 50, kind)}
        chunk = only_chunk(columns)
    while chunk.step(many.target, NOW_MS):
        assert many.made.used <= 5_000
    for _ in range(many.bulk.accepted):
        assert single.made.append(single.topic, -1, NOW_MS, key, value, pack_headers(pairs), None) is not None
    assert many.made.used > 4_000
    assert many.written() == single.written()


@pytest.mark.parametrize("large", ["key", "value"])
def test_a_step_copies_no_more_than_its_share(large: str) -> None:
    """Other threads get their turn, and memory for the copies comes back, after 2 MiB of keys and values, however few rows that is; a row
    that is larger alone goes alone."""
    for bytes_each, rows_each in ((100_000, STEP_BYTES // 100_000), (STEP_BYTES + 1, 1)):
        place = Place(batch_size=1 << 22)
        data: Data = (b"k", b"x" * bytes_each) if large == "value" else (b"x" * bytes_each, b"v")
        rows: list[Data] = [data] * 60 + [(b"k", b"v")] * PLANNED_ROWS_MIN
        chunk = chunk_of(rows)
        for step in (1, 2):
            assert chunk.step(place.target, NOW_MS)
            assert place.bulk.accepted == step * rows_each


def test_keyless_rows_stick_and_move_on() -> None:
    """Rows without a key share one partition for 16 KiB at a time, as those of `send_many` do; the partitioner remembers where it was."""
    planned, single = (Place(partitions=4) for _ in range(2))
    rows: list[Data] = [(None, b"x" * 100)] * 1_000
    for part in (rows[:600], rows[600:]):
        planned.append(chunk_of(part))
    assert single.target.append_rows(list(rows), 0, len(rows), 0, NOW_MS) == len(rows)
    assert planned.written() == single.written()
    assert planned.topic.sticky.current == single.topic.sticky.current


def test_an_append_in_between_spoils_a_plan() -> None:
    """A plan for a batch that has grown, or was taken away, is not committed and leaves nothing behind; one for new batches always is."""
    for spoil in ("append", "take"):
        place = Place()
        place.send(b"before")
        chunk = chunk_of(ROWS)
        columns = chunk._columns
        plan = make_plan(place.target, columns, 0, len(ROWS), 0, NOW_MS, fresh=False)
        fresh = make_plan(place.target, columns, 0, len(ROWS), 0, NOW_MS, fresh=True)
        if spoil == "append":
            place.send(b"between")
        else:
            place.made.take(place.topic.queues[0])
        used, held = place.made.used, len(place.batches)
        assert not commit(place.target, plan, chunk._woven(plan, 0, len(ROWS)))
        assert (place.made.used, len(place.batches), place.bulk.accepted) == (used, held, 0)
        assert commit(place.target, fresh, chunk._woven(fresh, 0, len(ROWS)))
        assert len(place.batches) == held + 1
        assert place.bulk.accepted == len(ROWS)


def test_a_plan_stops_where_the_budget_does() -> None:
    """Rows without room are not planned. Room that another caller took in between is not taken twice. None says that there is no room."""
    place = Place(buffer_memory=10_000)
    chunk = chunk_of(ROWS)
    assert chunk.step(place.target, NOW_MS)
    assert 0 < place.bulk.accepted < len(ROWS)
    assert place.made.used <= 10_000
    assert place.made.used > 9_500
    accepted = place.bulk.accepted
    while chunk.step(place.target, NOW_MS):
        assert place.bulk.accepted > accepted
        accepted = place.bulk.accepted
    assert place.made.used <= 10_000
    place = Place(buffer_memory=10_000)
    chunk = chunk_of(ROWS)
    plan = make_plan(place.target, chunk._columns, 0, len(ROWS), 0, NOW_MS, fresh=True)
    place.send(b"x" * 1_000)
    used = place.made.used
    assert not commit(place.target, plan, chunk._woven(plan, 0, len(ROWS)))
    assert place.made.used == used


def test_after_the_end_nothing_is_appended() -> None:
    """Once the producer refuses records, a table is neither planned nor committed."""
    place = Place()
    chunk = chunk_of(ROWS)
    plan = make_plan(place.target, chunk._columns, 0, len(ROWS), 0, NOW_MS, fresh=False)
    place.made.refusal = ProducerClosed("closed")
    with pytest.raises(ProducerClosed):
        commit(place.target, plan, chunk._woven(plan, 0, len(ROWS)))
    with pytest.raises(ProducerClosed):
        chunk.step(place.target, NOW_MS)
    assert not place.batches


def test_one_wake_up_for_a_step() -> None:
    """The sender is woken once for all the batches of a step."""
    place = Place(partitions=5, batch_size=3_000)
    assert chunk_of(ROWS).step(place.target, NOW_MS)
    assert len(place.batches) > 5
    assert place.wakes == 1


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_mixed_with_send_in_order(codec: str) -> None:
    """send, send_many and send_arrow to one partition share its batches, and the log has their records in the order of the calls; each
    tells the offsets that its records have."""
    table = pa.table({"key": pa.array([k for k, _ in ROWS], pa.binary()), "value": pa.array([v for _, v in ROWS], pa.binary())})
    with BrokerStub(default_partitions=1) as stub, quick(stub, linger_ms=60_000, batch_size=1 << 20, compression_type=codec) as producer:
        first = producer.send("t", b"first", key=b"k")
        columns = producer.send_arrow("t", table, key="key")
        second = producer.send("t", b"second")
        rows = producer.send_many("t", ROWS)
        more = producer.send_arrow("t", table, key="key")
        producer.flush(20)
        assert len(arrivals(stub)) == 1
        many = len(ROWS)
        assert (first.result(0).offset, second.result(0).offset) == (0, many + 1)
        for bulk, begin in ((columns, 1), (rows, many + 2), (more, 2 * many + 2)):
            assert bulk.result(0).offsets == {0: [range(begin, begin + many)]}
        assert logged(stub, "t", 1)[0] == [(b"k", b"first"), *ROWS, (None, b"second"), *ROWS, *ROWS]


def test_too_large_a_batch_of_columns_is_split() -> None:
    """The records of a plan are read again where a batch has to be split; rows keep their offsets, and the row that no split helps fails
    by its number."""
    rows: list[bytes] = [b"%d" % n * 10 for n in range(600)]
    rows[333] = b"x" * 5_000
    with BrokerStub() as stub:
        stub.create_topic("t", config={"max.message.bytes": "2000"})
        with quick(stub, linger_ms=60_000) as producer:
            bulk = producer.send_arrow("t", pa.table({"value": pa.array(rows, pa.binary())}))
            deliveries = bulk.result(20)
            assert list(deliveries.failures) == [333]
            assert deliveries.acknowledged == 599
            assert deliveries.offsets == {0: [range(599)]}
            assert [value for _, value in logged(stub, "t", 1)[0]] == rows[:333] + rows[334:]


def test_a_step_within_a_step() -> None:
    """A signal handler that sends columns while its own thread is doing so is not held up for ever."""
    place = Place()
    with place.shared.planning:
        assert chunk_of(ROWS).step(place.target, NOW_MS)
    assert place.bulk.accepted == len(ROWS)


def test_columns_over_tls_pieces() -> None:
    """What Arrow hands out can be encrypted and summed as it is."""
    place = Place()
    place.append(chunk_of(ROWS))
    builder = place.batches[0].builder
    assert builder is not None
    assert any(isinstance(piece, memoryview) and piece.cast("B").nbytes > 10_000 for piece in builder.pieces())


def test_sixteen_columns_at_once() -> None:
    """Threads that send columns and single records to the same partitions: every record once, each caller's in order."""
    from concurrent.futures import ThreadPoolExecutor

    def work(number: int) -> Any:
        values = pa.array([b"%d %d" % (number, n) for n in range(1_000)], pa.binary())
        if number % 4:
            bulk = producer.send_arrow("t", pa.table({"value": values, "key": values}), key="key")
            return bulk.result(60).acknowledged
        futures = [producer.send("t", value.as_py(), key=value.as_py()) for value in values]
        return sum(future.result(60).offset >= 0 for future in futures)

    with BrokerStub(default_partitions=3) as stub, quick(stub, batch_size=10_000, buffer_memory=200_000) as producer:
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(work, range(8))) == [1_000] * 8
        found = logged(stub, "t", 3)
        assert sum(map(len, found)) == 8_000
        for records in found:
            for number in range(8):
                mine = [int(value.split()[1]) for _, value in records if value is not None and value.startswith(b"%d " % number)]
                assert mine == sorted(mine)
