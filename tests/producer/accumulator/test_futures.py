"""The future of a record: waiting, results, failures, timeouts, and asking from many threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import DeliveryError, Persisted, RecordMetadata, RecordRefused
from fencepost.producer.accumulator.batch import Batch, RecordFuture, Shared
from fencepost.producer.wire import Api, ErrorCode
from tests.producer.stub_helpers import probe, quick, until


def batch_of(count: int, *, patience_s: float = 1.0) -> tuple[Batch, list[RecordFuture]]:
    shared = Shared(patience_s=patience_s)
    shared.wake = lambda: None
    batch = Batch("t", 3, 0.0, shared)
    return batch, [batch.append(1_000 + i, None, b"v", None, None) for i in range(count)]


def failure() -> DeliveryError:
    return RecordRefused("because", topic="t", partition=3, persisted=Persisted.MAYBE, code=87, attempts=2)


def test_each_record_has_its_own_place() -> None:
    """Offsets count up from the batch's, timestamps are each record's own, or the broker's where it sets them."""
    batch, futures = batch_of(3)
    batch.settle(100, -1, None)
    assert [future.result(0) for future in futures] == [RecordMetadata("t", 3, 100 + i, 1_000 + i) for i in range(3)]
    batch, futures = batch_of(2)
    batch.settle(7, 5_555, None)
    assert [future.result(0).timestamp for future in futures] == [5_555, 5_555]


def test_an_unknown_offset_is_minus_one_for_all() -> None:
    """If the offset of a batch is unknown, every record of it has offset -1, also the third one."""
    batch, futures = batch_of(3)
    batch.settle(-1, -1, None)
    assert [future.result(0).offset for future in futures] == [-1, -1, -1]


def test_only_the_first_outcome_counts() -> None:
    """What has been published is never taken back."""
    batch, futures = batch_of(1)
    batch.settle(5, -1, None)
    batch.settle(-1, -1, failure())
    assert futures[0].result(0).offset == 5


def test_a_failure_is_raised_fresh_each_time() -> None:
    """result() raises and exception() returns an error of its own for each record and call, with everything it knows."""
    batch, (one, two) = batch_of(2)
    batch.settle(-1, -1, failure())
    errors = [one.exception(0), one.exception(0), two.exception(0)]
    for raised in errors:
        assert isinstance(raised, RecordRefused)
        assert (raised.topic, raised.partition, raised.persisted, raised.code, raised.attempts) == ("t", 3, Persisted.MAYBE, 87, 2)
        assert "because" in str(raised)
        assert "INVALID_RECORD" in str(raised)
        assert "persisted=MAYBE" in str(raised)
    assert len({id(error) for error in errors}) == 3
    with pytest.raises(RecordRefused):
        two.result(0)


def test_a_timeout_is_not_an_outcome() -> None:
    """result(timeout) raises TimeoutError that names the record's partition; the record is still on its way and may be asked again."""
    batch, (future,) = batch_of(1)
    assert not future.done()
    for ask in (future.result, future.exception):
        with pytest.raises(TimeoutError, match="t-3"):
            ask(0.01)
    batch.settle(9, -1, None)
    assert future.done()
    assert future.exception(0) is None


def test_without_a_timeout_it_waits_as_long_as_the_delivery_may_take() -> None:
    """None does not wait for ever: should even the sender die without a word, the wait ends."""
    _, (future,) = batch_of(1, patience_s=0.05)
    with pytest.raises(TimeoutError):
        future.result()


def test_many_threads_wait_for_one_record() -> None:
    """All waiters of a record, and of its batch, are woken by the one outcome."""
    batch, futures = batch_of(4)
    with ThreadPoolExecutor(8) as pool:
        results = [pool.submit(futures[i % 4].result, 20) for i in range(8)]
        batch.settle(10, -1, None)
        assert [result.result(20).offset for result in results] == [10, 11, 12, 13, 10, 11, 12, 13]


def test_asking_ends_the_linger() -> None:
    """result() sends the record's batch at once; without it the record lingers."""
    with BrokerStub() as stub, quick(stub, linger_ms=60_000) as producer:
        lingering = producer.send("t", b"x")
        produced = probe(stub, Api.PRODUCE)
        assert lingering.result(20).offset == 0
        assert produced.hits == 1


def test_a_batch_lingers_for_more_records() -> None:
    """With linger_ms records that come meanwhile share a batch; without, the first leaves alone."""
    with BrokerStub() as stub, quick(stub, linger_ms=60_000) as producer:
        futures = [producer.send("t", b"%d" % i) for i in range(100)]
        producer.flush(20)
        assert len(stub.journal.requests(Api.PRODUCE)) == 1
        assert [future.result(0).offset for future in futures] == list(range(100))


def test_a_lingering_batch_leaves_by_itself() -> None:
    """Without a flush and without a wait for its result, a batch is sent after linger_ms."""
    with BrokerStub() as stub, quick(stub, linger_ms=50) as producer:
        arrived = threading.Event()
        producer.send("t", b"x", on_delivery=lambda future: arrived.set())
        assert arrived.wait(20)


def test_a_full_batch_does_not_linger() -> None:
    """A batch that is full leaves at once, however long the linger is."""
    with BrokerStub() as stub, quick(stub, linger_ms=60_000, batch_size=1_000) as producer:
        first = producer.send("t", b"x" * 900)
        producer.send("t", b"y" * 900)
        until(first.done, "the full batch")


def test_outcomes_while_asking_and_settling_race() -> None:
    """Threads that ask while the outcome is being published get it, all of them, every time."""
    for _ in range(200):
        batch, futures = batch_of(2)
        with ThreadPoolExecutor(2) as pool:
            asked = [pool.submit(future.result, 20) for future in futures]
            batch.settle(1, -1, None)
            assert [each.result(20).offset for each in asked] == [1, 2]


def test_a_future_outlives_its_producer() -> None:
    """Outcomes can be read after close, without any waiting."""
    with BrokerStub() as stub:
        with quick(stub) as producer:
            good = producer.send("t", b"x")
            good.result(20)
            stub.faults.on(Api.PRODUCE).before().error(ErrorCode.INVALID_RECORD)
            bad = producer.send("t", b"y")
            bad.exception(20)
        assert good.result(0).offset == 0
        assert bad.exception(0) is not None
        assert good.done()
