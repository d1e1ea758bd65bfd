"""Unobserved failures: the producer logs them once, and flush and close raise them. A failure that the caller looked at is neither logged
nor raised."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import DeliveryError, Persisted, Producer, RecordFuture, UndeliveredRecords
from fencepost.producer.observe.unobserved_failures import TOLD
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
