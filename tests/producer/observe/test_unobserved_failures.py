"""Unobserved failures: the producer logs them once, and flush and close raise them. A failure that the caller looked at is neither logged
nor raised."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import DeliveryError, Persisted, Producer, RecordFuture, RecordRefused, UndeliveredRecords
from fencepost.producer.accumulator.batch import Batch, Shared
from fencepost.producer.observe import unobserved_failures
from fencepost.producer.observe.unobserved_failures import KEPT, TOLD, Failures
from fencepost.producer.wire import Api, ErrorCode
from tests.producer.stub_helpers import ONE_EACH, quick, until


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub() as made:
        yield made


def refuse_all(stub: BrokerStub) -> None:
    stub.faults.on(Api.PRODUCE).before().forever().error(ErrorCode.INVALID_RECORD)


def failing(stub: BrokerStub, producer: Producer, count: int = 3) -> list[RecordFuture]:
    """Records whose failure is known and unobserved."""
    refuse_all(stub)
    futures = [producer.send("t", b"%d" % i) for i in range(count)]
    until(lambda: all(future.done() for future in futures), "the failures")
    return futures


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if " not delivered" in record.getMessage()]


def test_flush_raises_unobserved_failures(stub: BrokerStub) -> None:
    """flush raises UndeliveredRecords with the number of records and one error a batch; the next flush has nothing to say."""
    with quick(stub, **ONE_EACH) as producer:
        failing(stub, producer, 3)
        with pytest.raises(UndeliveredRecords) as undelivered:
            producer.flush(20)
        assert undelivered.value.count == 3
        assert [failure.code for failure in undelivered.value.failures] == [ErrorCode.INVALID_RECORD] * 3
        assert all(failure.persisted is Persisted.NO for failure in undelivered.value.failures)
        assert "3 records" in str(undelivered.value)
        assert "INVALID_RECORD" in str(undelivered.value)
        producer.flush(20)


def test_records_are_counted_not_batches(stub: BrokerStub) -> None:
    """A failed batch of many records counts each of them, and its error is named once."""
    with quick(stub, linger_ms=60_000) as producer:
        refuse_all(stub)
        for _ in range(7):
            producer.send("t", b"x")
        with pytest.raises(UndeliveredRecords) as undelivered:
            producer.flush(20)
        assert (undelivered.value.count, len(undelivered.value.failures)) == (7, 1)


def test_close_raises_it_too(stub: BrokerStub) -> None:
    """close, and with it the end of a `with` block, raises what flush would have raised, after everything was closed."""
    with pytest.raises(UndeliveredRecords, match="2 records"), quick(stub, **ONE_EACH) as producer:
        failing(stub, producer, 2)
    assert not producer._sender.running


@pytest.mark.parametrize("look", ["result", "exception", "callback", "late callback"])
def test_looking_is_enough(stub: BrokerStub, look: str, caplog: pytest.LogCaptureFixture) -> None:
    """A failure that was raised by result, read with exception, or given to a callback has been told: neither flush nor the log repeats
    it."""
    with quick(stub) as producer:
        refuse_all(stub)
        future = producer.send("t", b"x", on_delivery=(lambda future: None) if look == "callback" else None)
        until(future.done, "the failure")
        if look == "result":
            with pytest.raises(DeliveryError):
                future.result(0)
        elif look == "exception":
            assert future.exception(0)
        elif look == "late callback":
            future.add_done_callback(lambda future: None)
        producer.flush(20)
    assert complaints(caplog) == []


def test_one_look_covers_one_record(stub: BrokerStub) -> None:
    """Looking at one record of a failed batch leaves the others to be told, and looking twice counts once."""
    with quick(stub, linger_ms=60_000) as producer:
        refuse_all(stub)
        futures = [producer.send("t", b"x") for _ in range(5)]
        for _ in range(3):
            assert futures[2].exception(20)
        with pytest.raises(UndeliveredRecords) as undelivered:
            producer.flush(20)
        assert undelivered.value.count == 4


def test_the_log_says_it_once_and_soon(stub: BrokerStub, caplog: pytest.LogCaptureFixture) -> None:
    """Without a flush and without a look at a future, the log says within about a second how many records were not delivered, and the first
    reason. flush still raises, and logs nothing again."""
    with quick(stub, **ONE_EACH) as producer:
        failing(stub, producer, 20)
        until(lambda: complaints(caplog), "the line in the log")
        with pytest.raises(UndeliveredRecords, match="20 records"):
            producer.flush(20)
    (line,) = complaints(caplog)
    assert line.startswith("20 records in 20 batches")
    assert "INVALID_RECORD" in line
    assert [record.levelno for record in caplog.records if record.getMessage() == line] == [logging.ERROR]


def test_a_look_in_time_keeps_the_log_quiet(stub: BrokerStub, caplog: pytest.LogCaptureFixture) -> None:
    """A failure that the caller looks at soon after it happened is not logged."""
    with quick(stub) as producer:
        (future,) = failing(stub, producer, 1)
        assert future.exception(0)
        producer._sender.failures.say()
    assert complaints(caplog) == []


def test_more_failures_than_are_told_are_still_counted(stub: BrokerStub) -> None:
    """At most a hundred errors are raised; the count is of all."""
    with quick(stub, **ONE_EACH) as producer:
        failing(stub, producer, TOLD + 30)
        with pytest.raises(UndeliveredRecords) as undelivered:
            producer.flush(20)
        assert undelivered.value.count == TOLD + 30
        assert len(undelivered.value.failures) == TOLD


def test_many_failures_that_were_looked_at(stub: BrokerStub) -> None:
    """Nothing is left to raise, however many there were."""
    with quick(stub, **ONE_EACH) as producer:
        assert all(future.exception(20) for future in failing(stub, producer, TOLD + 50))
        producer.flush(20)


def test_an_exception_that_leaves_the_block_is_not_replaced(stub: BrokerStub, caplog: pytest.LogCaptureFixture) -> None:
    """When another exception ends the `with` block it is that one which the caller gets; the failures are in the log."""
    with pytest.raises(KeyError, match="mine"), quick(stub) as producer:
        failing(stub, producer, 2)
        raise KeyError("mine")
    assert any("2 records were not delivered" in record.getMessage() for record in caplog.records)


def test_successes_are_never_mentioned(stub: BrokerStub, caplog: pytest.LogCaptureFixture) -> None:
    """Deliveries that were retried and succeeded leave nothing in the log above INFO, looked at or not."""
    stub.faults.on(Api.PRODUCE).after_append().disconnect()
    stub.faults.on(Api.PRODUCE).before().times(2).error(ErrorCode.NOT_ENOUGH_REPLICAS)
    with caplog.at_level(logging.INFO, "fencepost.producer"), quick(stub) as producer:
        for _ in range(10):
            producer.send("t", b"x")
        producer.flush(20)
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []


def test_flush_within_its_time(stub: BrokerStub) -> None:
    """flush(timeout) raises TimeoutError with the number of records still on their way, and a later flush waits for them."""
    with quick(stub, **ONE_EACH) as producer:
        producer.send("t", b"hello").result(20)
        held = stub.faults.on(Api.PRODUCE).before().hold()
        for _ in range(3):
            producer.send("t", b"x")
        held.wait(1, 20)  # release lets go of what is held: a request that comes later would stay
        with pytest.raises(TimeoutError, match="3 records"):
            producer.flush(0.05)
        held.release()
        producer.flush(20)
        assert stub.end_offset("t", 0) == 4


def test_flush_does_not_wait_for_later_records(stub: BrokerStub) -> None:
    """flush covers what was sent before the call: a record sent by another thread meanwhile does not hold it up."""
    from concurrent.futures import ThreadPoolExecutor

    with quick(stub, **ONE_EACH) as producer:
        producer.send("t", b"hello").result(20)
        stub.create_topic("u")
        producer.partitions_for("u")
        first = stub.faults.on(Api.PRODUCE).where(topic="t").reply().hold()
        later = stub.faults.on(Api.PRODUCE).where(topic="u").reply().hold()
        producer.send("t", b"x")
        first.wait(1, 20)
        with ThreadPoolExecutor() as pool:
            flushing = pool.submit(producer.flush, 20)
            until(lambda: producer._accumulator.hurried(), "the flush has begun")
            producer.send("u", b"y")
            later.wait(1, 20)
            first.release()
            flushing.result(20)
        later.release()


def failed_batch() -> Batch:
    """A batch of one record that failed."""
    batch = Batch("t", 0, 0.0, Shared(patience_s=1.0))
    batch.append(0, None, b"v", None, None)
    batch.settle(-1, -1, RecordRefused("because", topic="t", partition=0, persisted=Persisted.NO, code=87, attempts=1))
    return batch


def test_the_oldest_of_very_many_failures_are_only_counted() -> None:
    """Failures that the program has read go first. The count is of all others, and memory is bounded."""
    failures = Failures()
    first = failed_batch()
    failures.add(first)
    for _ in range(2 * KEPT - 1):
        batch = failed_batch()
        failures.add(batch)
        batch.unseen = 0
    assert len(failures._batches) < KEPT
    for _ in range(4 * KEPT):
        failures.add(failed_batch())
        assert len(failures._batches) < 2 * KEPT
    failures._unlogged.clear()
    undelivered = failures.take()
    assert undelivered is not None
    assert undelivered.count == 4 * KEPT + 1
    assert not failures.kept


def test_failures_are_not_sorted_out_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit a further failure looks at no other: sorting them out takes time on the sender thread."""
    monkeypatch.setattr(unobserved_failures, "KEPT", 50)
    failures = Failures()
    rebuilt, before = 0, failures._batches
    for _ in range(1_000):
        failures.add(failed_batch())
        if failures._batches is not before:
            rebuilt, before = rebuilt + 1, failures._batches
    assert rebuilt <= 1_000 // 50


@pytest.mark.parametrize("kind", ["record", "bulk"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_waiting_for_a_concurrent_future_reads_nothing(stub: BrokerStub, kind: str, moment: str) -> None:
    """`concurrent.futures.wait` shows no failure to the program, so leaving the block raises it, whether the outcome came first or not."""
    with pytest.raises(UndeliveredRecords, match="1 record was not delivered"), quick(stub, **ONE_EACH) as producer:
        refuse_all(stub)
        future: Any = producer.send("t", b"x") if kind == "record" else producer.send_many("t", [b"x"])
        if moment == "after":
            until(future.done, "the failure")
        done, _ = concurrent.futures.wait([future.concurrent()], timeout=20)
        assert len(done) == 1


@pytest.mark.parametrize("read", ["result", "exception", "as_completed", "callback", "wrap_future"])
def test_reading_a_concurrent_future_is_reading(stub: BrokerStub, read: str) -> None:
    """Its result, its exception, its own callbacks and asyncio's wrapper tell the program."""
    with quick(stub, **ONE_EACH) as producer:
        refuse_all(stub)
        followed = producer.send("t", b"x").concurrent()
        if read == "exception":
            assert isinstance(followed.exception(20), DeliveryError)
        elif read == "callback":
            told: list[BaseException | None] = []
            followed.add_done_callback(lambda future: told.append(future.exception()))
            until(lambda: told, "the callback")
        elif read == "wrap_future":

            async def story() -> None:
                with pytest.raises(DeliveryError):
                    await asyncio.wrap_future(followed)

            asyncio.run(story())
        else:
            (completed,) = [followed] if read == "result" else concurrent.futures.as_completed([followed], timeout=20)
            with pytest.raises(DeliveryError):
                completed.result(20)
        producer.flush(20)


def test_reading_a_bulks_concurrent_future_is_reading(stub: BrokerStub) -> None:
    """Its result has the failed rows, so flush has nothing to raise."""
    with quick(stub, **ONE_EACH) as producer:
        refuse_all(stub)
        assert len(producer.send_many("t", [b"x", b"y"]).concurrent().result(20).failures) == 2
        producer.flush(20)


def test_a_concurrent_future_that_was_asked_too_early(stub: BrokerStub) -> None:
    """A timeout shows no failure. It cannot be cancelled either."""
    with pytest.raises(UndeliveredRecords), quick(stub, **ONE_EACH) as producer:
        hold = stub.faults.on(Api.PRODUCE).before().times(1).hold()
        refuse_all(stub)
        future = producer.send("t", b"x")
        followed = future.concurrent()
        for ask in (followed.result, followed.exception):
            with pytest.raises(TimeoutError):
                ask(0.01)
        assert not followed.cancel()

        async def story() -> None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.wrap_future(followed), 0.01)

        asyncio.run(story())
        hold.wait(1, 20)
        hold.release()
        until(future.done, "the failure")


@pytest.mark.parametrize("end", ["cancelled", "loop closed"])
@pytest.mark.parametrize("kind", ["record", "bulk"])
def test_a_failure_whose_waiter_was_woken_and_never_ran(stub: BrokerStub, end: str, kind: str) -> None:
    """The outcome has come and the waiter is about to get it: if it is cancelled then, or its loop is closed, the program has read
    nothing, so leaving the block raises the failure."""
    with pytest.raises(UndeliveredRecords, match="1 record was not delivered"), quick(stub, **ONE_EACH) as producer:
        refuse_all(stub)
        producer_loop = asyncio.new_event_loop()

        async def story() -> None:
            future = producer.send("t", b"x") if kind == "record" else producer.send_many("t", [b"x"])

            async def wait() -> None:
                await future

            waiter = asyncio.ensure_future(wait())
            await asyncio.sleep(0)
            # The loop stands still, so the wake-up of the waiter only waits for its turn.
            until(future.done, "the failure")
            assert producer._sender.catch_up(20)
            if end == "cancelled":
                waiter.cancel()
                await asyncio.wait([waiter])
                assert waiter.cancelled()

        producer_loop.run_until_complete(story())
        producer_loop.close()
