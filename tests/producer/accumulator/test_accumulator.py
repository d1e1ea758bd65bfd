"""The accumulator: encoded at append, one byte budget, batches that close when full, one wake-up for many appends."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

import fencepost
from fencepost.producer import ProducerClosed
from fencepost.producer.accumulator.accumulator import CALLBACK_BYTES, ROW_BYTES, Accumulator, PartitionQueue, TopicQueues
from fencepost.producer.accumulator.batch import Batch, OnDelivery, RecordFuture, Shared
from fencepost.producer.accumulator.record_metadata import Deliveries
from fencepost.producer.bulk.append import Target
from fencepost.producer.bulk.bulk import BulkFuture
from fencepost.producer.bulk.rows import Row
from fencepost.producer.wire.codecs.codec import Codec
from tests.strike import Struck, interrupt, struck

OVERHEAD = 61


class Bench:
    """An accumulator with one topic, a clock and a count of wake-ups."""

    def __init__(self, *, batch_size: int = 1000, buffer_memory: int = 100_000, partitions: int = 2) -> None:
        self.now = 0.0
        self.wakes = 0
        self.shared = Shared(patience_s=1.0)
        self.shared.wake = self._wake
        self.made = Accumulator(batch_size=batch_size, buffer_memory=buffer_memory, clock=lambda: self.now, shared=self.shared)
        self.topic = TopicQueues("t", draw=lambda: 0, round_robin=False)
        self.topic.grow(partitions)
        self.topic.partitions = partitions
        self.topic.available = list(range(partitions))

    def _wake(self) -> None:
        self.wakes += 1

    def append(self, value: bytes = b"v", *, partition: int = 0, on_delivery: OnDelivery | None = None) -> RecordFuture | None:
        return self.made.append(self.topic, partition, 1_700_000_000_000, None, value, None, on_delivery)

    def held(self) -> list[Batch]:
        """Every batch without an outcome."""
        held = self.made.begin_flush(self)
        self.made.end_flush(self)
        return held

    def queue(self, partition: int = 0) -> PartitionQueue:
        return self.topic.queues[partition]


def test_records_are_encoded_when_they_are_appended() -> None:
    """What the caller does to nothing but the future afterwards cannot change the record; the batch grows by exactly its encoded bytes."""
    bench = Bench()
    bench.append(b"x" * 10)
    batch = bench.queue().batches[0]
    first = batch.size
    assert first > OVERHEAD + 10
    bench.append(b"x" * 10)
    assert batch.size == first + (first - OVERHEAD)
    builder = batch.builder
    assert builder is not None
    assert len(builder.payload(Codec.NONE, None)) == batch.size - OVERHEAD


def test_a_full_batch_is_closed_and_the_next_begun() -> None:
    """A record that does not fit in batch_size begins the next batch; one larger than batch_size gets a batch of its own."""
    bench = Bench(batch_size=300)
    for _ in range(6):
        bench.append(b"x" * 80)
    sizes = [batch.size for batch in bench.queue().batches]
    assert len(sizes) > 1
    assert all(size <= 300 for size in sizes)
    bench.append(b"x" * 1000)
    bench.append(b"x")
    assert [batch.count for batch in bench.queue().batches][-2:] == [1, 1]


def test_batch_size_zero_batches_nothing() -> None:
    """batch_size=0 gives each record a batch of its own, as Kafka's batch.size=0 does."""
    bench = Bench(batch_size=0)
    for _ in range(3):
        bench.append()
    assert [batch.count for batch in bench.queue().batches] == [1, 1, 1]


def test_the_budget_counts_exactly_what_is_held() -> None:
    """`used` is the sum of the sizes of all batches without an outcome, and 0 when all have one."""
    bench = Bench(batch_size=200)
    for partition in (0, 1, 0, 0):
        bench.append(b"x" * 50, partition=partition)
    held = bench.held()
    assert bench.made.used == sum(batch.size for batch in held)
    for queue in bench.made.take_touched():
        while queue.batches:
            bench.made.take(queue)
    assert bench.made.used == sum(batch.size for batch in held), "in flight counts too"
    for batch in held:
        bench.made.release(batch)
    assert bench.made.used == 0
    assert bench.held() == []


def test_a_callback_counts_as_long_as_its_record() -> None:
    """Small records with callbacks fill the budget before their bytes alone would, and a record that fits is not kept out by its own."""
    bench = Bench(buffer_memory=1_000)
    heard: list[RecordFuture] = []
    taken = 0
    while bench.append(b"", on_delivery=heard.append):
        taken += 1
    (batch,) = bench.held()
    assert bench.made.used == batch.size + taken * CALLBACK_BYTES
    assert 1_000 - 2 * CALLBACK_BYTES < bench.made.used < 1_000 + CALLBACK_BYTES
    for queue in bench.made.take_touched():
        bench.made.release(bench.made.take(queue))
    assert bench.made.used == 0
    assert bench.append(b"x" * 900, on_delivery=heard.append), "it fits without its callback"


def test_a_row_of_a_bulk_counts_as_long_as_its_record() -> None:
    """What a bulk remembers of its rows is counted beside their bytes, and given back with them; a row that fits is not kept out by it."""
    bench = Bench(buffer_memory=1_000)
    target = Target(bench.made, bench.topic, BulkFuture(bench.made.shared), 0)
    rows: list[object] = [b"x"] * 1_000
    taken = target.append_rows(rows, 0, len(rows), 0, 0)
    (batch,) = bench.held()
    assert 1 < taken < len(rows)
    assert bench.made.used == batch.size + taken * ROW_BYTES
    assert bench.made.used <= 1_000 + ROW_BYTES
    for queue in bench.made.take_touched():
        bench.made.release(bench.made.take(queue))
    assert bench.made.used == 0
    whole: list[object] = [b"x" * 910]
    assert target.append_rows(whole, 0, 1, 0, 0) == 1, "it fits without its own"


def test_a_full_buffer_takes_nothing() -> None:
    """With no room for a record nothing is appended and the answer is None; room given back lets the next one in."""
    bench = Bench(buffer_memory=500)
    assert bench.append(b"x" * 300)
    used = bench.made.used
    assert bench.append(b"x" * 300) is None
    assert bench.made.used == used
    assert [batch.count for batch in bench.queue().batches] == [1]
    for queue in bench.made.take_touched():
        bench.made.release(bench.made.take(queue))
    assert bench.append(b"x" * 300)


def test_the_caller_that_waits_first_gets_room_first() -> None:
    """From when a thread's turn begins no other thread gets room, until it has looked for its own; then others get what is left beyond
    that. After its turn it keeps nothing from them, also where it finds no room once more."""
    bench = Bench(buffer_memory=2_000, batch_size=0)
    with ThreadPoolExecutor(1) as pool:

        def first(value: bytes) -> RecordFuture | None:
            return pool.submit(bench.append, value).result()

        def give_back() -> None:
            while bench.queue().batches:
                bench.made.release(bench.made.take(bench.queue()))

        assert bench.append(b"x" * 300)
        pool.submit(bench.made.begin_turn).result()
        assert bench.append() is None
        assert first(b"x" * 1_600) is None
        give_back()
        assert bench.append(b"x" * 200)
        assert bench.append(b"x" * 200) is None
        assert first(b"x" * 1_600)
        pool.submit(bench.made.end_turn).result()
        assert first(b"x" * 1_800) is None
        give_back()
        assert bench.append(b"x" * 1_000)


def test_one_wake_up_covers_everything_until_the_sender_looks() -> None:
    """Thousands of appends to many partitions wake the sender once; after it looked, only a new batch wakes it again."""
    bench = Bench(partitions=2)
    for _ in range(20):
        bench.append(partition=0)
        bench.append(partition=1)
    assert bench.wakes == 1
    assert len(bench.made.take_touched()) == 2
    bench.append(partition=0)
    assert bench.wakes == 1, "the open batch goes on"
    bench.made.take(bench.queue(0))
    bench.append(partition=0)
    assert bench.wakes == 2


def test_a_touched_queue_is_named_once() -> None:
    """The sender hears of a partition once per look, however many batches it got."""
    bench = Bench(batch_size=0)
    for _ in range(5):
        bench.append()
    assert bench.made.take_touched() == [bench.queue()]
    assert bench.made.take_touched() == []


def test_taking_the_open_batch_begins_another() -> None:
    """A batch that the sender has taken is never appended to again."""
    bench = Bench()
    bench.append()
    taken = bench.made.take(bench.queue())
    bench.append()
    assert taken.count == 1
    assert bench.queue().batches[0] is not taken


def test_a_batchs_age_is_its_first_records() -> None:
    """Linger and delivery deadline count from the first append."""
    bench = Bench()
    bench.now = 5.0
    bench.append()
    bench.now = 50.0
    bench.append()
    assert bench.queue().batches[0].created_ms == 5.0


def test_a_refusal_ends_appends() -> None:
    """Once the producer is closed or dead every append raises its reason, an instance of its own, and nothing is accounted for."""
    bench = Bench()
    bench.made.refusal = ProducerClosed("closed")
    raised = []
    for _ in range(2):
        with pytest.raises(ProducerClosed, match="closed") as refused:
            bench.append()
        raised.append(refused.value)
    assert raised[0] is not raised[1]
    assert bench.made.used == 0


POISON: Any = "packed headers are bytes"
"""What the encoder refuses after it has written most of a record."""


def test_a_record_the_encoder_refuses_leaves_nothing_behind() -> None:
    """What cannot be encoded raises; the batch, its count and the next record are as if it had never been sent."""
    bench = Bench()
    bench.append(b"before")
    used, size = bench.made.used, bench.queue().batches[0].size
    with pytest.raises(TypeError):
        bench.made.append(bench.topic, 0, 1_700_000_000_000, None, b"x", POISON, None)
    assert (bench.made.used, bench.queue().batches[0].size, bench.queue().batches[0].count) == (used, size, 1)
    future = bench.append(b"after")
    assert future is not None
    assert bench.queue().batches[0].count == 2


def test_a_refused_first_record_leaves_no_empty_batch_to_send() -> None:
    """A refused first record leaves no batch behind, because no batch without records may ever reach a broker."""
    bench = Bench()
    with pytest.raises(TypeError):
        bench.made.append(bench.topic, 0, 1_700_000_000_000, None, b"x", POISON, None)
    assert [batch.count for batch in bench.held()] == []
    assert bench.made.used == 0


@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_row_of_a_bulk_that_the_encoder_refuses(before: int) -> None:
    """The rows before it are in and the bulk's own; it left no trace, no claim and no empty batch, and other callers' records go where it
    would have been. The sender is woken for what is in. The bulk is not done before its call has come to an end."""
    bench = Bench(batch_size=200)
    bulk = BulkFuture(bench.made.shared)
    target = Target(bench.made, bench.topic, bulk, 0)
    # Rows without a timestamp get that of the call, which is none.
    rows: list[object] = [Row(None, b"%d" % n, None, -1 if n == before else 7, 0) for n in range(5)]
    with pytest.raises((TypeError, ValueError)):
        target.append_rows(rows, 0, 5, 0, -7)
    assert not bulk.done()
    bulk._whole = True
    assert bench.wakes == (1 if before else 0)
    assert bulk.accepted == before
    assert bulk.done() is (before == 0)
    other = bench.append(b"another's")
    assert other is not None
    held = bench.held()
    assert [int(batch.count) for batch in held] == [before + 1]
    assert bench.made.used == sum(batch.size + batch.kept for batch in held)
    held[0].settle(100, -1, None)
    assert bulk.result(0) == Deliveries(before, {0: [range(100, 100 + before)]} if before else {}, {})
    assert other.result(0).offset == 100 + before


def test_many_threads_append_without_losing_a_byte() -> None:
    """Eight threads append to the same partitions: every record is in exactly one batch, under an index of its own, and the budget is
    exact."""
    bench = Bench(batch_size=2_000, buffer_memory=10_000_000)
    futures: list[list[RecordFuture]] = [[] for _ in range(8)]
    start = threading.Barrier(8)

    def work(mine: list[RecordFuture]) -> None:
        start.wait(10)
        for i in range(500):
            future = bench.append(b"x" * (i % 50), partition=i % 2)
            assert future is not None
            mine.append(future)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in futures]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    held = bench.held()
    assert sum(batch.count for batch in held) == 8 * 500
    assert len({(id(future.batch), future._index) for mine in futures for future in mine}) == 8 * 500
    assert bench.made.used == sum(batch.size for batch in held)


def test_the_headers_of_pieces_come_back() -> None:
    """A batch that is split takes a header more for each piece but one, beyond what was asked of the budget; all of it comes back."""
    bench = Bench(buffer_memory=1_000)
    for _ in range(4):
        bench.append(b"x" * 50)
    accumulator, before = bench.made, bench.made.used
    batch = accumulator.take(bench.queue())
    pieces = [Batch("t", 0, 0.0, bench.shared) for _ in range(4)]
    for piece in pieces:
        piece.refill(1, None, b"x" * 50, None)
    accumulator.replace(batch, pieces)
    assert before < accumulator.used <= before + OVERHEAD * (len(pieces) - 1) + len(pieces)
    for piece in pieces:
        accumulator.release(piece)
    assert accumulator.used == 0


@pytest.mark.skipif(fencepost.build_info().compiled, reason="nothing strikes in the middle of a compiled method")
def test_the_budget_does_not_drift() -> None:
    """Wherever Ctrl-C strikes an append with a callback to a batch that is open, its bytes are counted once or not at all, and the
    callbacks are told of the records that are in the batch."""
    for point in range(60):
        bench = Bench()
        told: list[RecordFuture] = []
        bench.append(on_delivery=told.append)
        with suppress(Struck):
            struck(partial(bench.append, b"x" * 18, on_delivery=told.append), point, interrupt)
        batch = bench.made.take(bench.queue())
        assert bench.made.used == batch.size + CALLBACK_BYTES * batch.count
        count = int(batch.count)
        batch.settle(7, -1, None)
        bench.made.release(batch)
        assert bench.made.used == 0
        assert [future.result().offset for future in told] == list(range(7, 7 + count))
