"""Errors that end a producer: every record gets its outcome, every later call raises the reason, no call hangs, and no thread is left."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import DeliveryError, DeliveryFatal, Fatal, Fenced, Persisted, UndeliveredRecords
from fencepost.producer.core.error_table import TABLE, ErrorAction
from fencepost.producer.wire import Api, ErrorCode
from tests.producer.core.harness import VERSIONS, CoreHarness
from tests.producer.stub_helpers import ONE_EACH, quick, until

FATAL = [code for code, row in TABLE[Api.PRODUCE].items() if row.action is ErrorAction.FATAL]


@pytest.mark.parametrize("code", FATAL, ids=[code.name for code in FATAL])
def test_a_fatal_code_ends_the_producer(code: ErrorCode) -> None:
    """Fencing, authorization and version errors are final: the record fails, all waiting records fail with NO, and send raises the
    reason."""
    harness = CoreHarness().introduce()
    futures = harness.send(*[b"%d" % i for i in range(8)])
    harness.refuse(harness.produces()[0], code)
    assert harness.dead is not None
    assert code.name in str(harness.dead.error)
    assert isinstance(harness.dead.error, Fenced if code is ErrorCode.PRODUCER_FENCED else Fatal)
    failures = [future.exception(0) for future in futures]
    assert all(isinstance(failure, DeliveryError) for failure in failures)
    assert [failure.persisted for failure in failures if failure] == [
        Persisted.NO,
        *[Persisted.MAYBE] * 4,
        *[Persisted.NO] * 3,
    ]
    assert isinstance(failures[-1], DeliveryFatal)
    with pytest.raises(Fatal, match=code.name):
        harness.send(b"x")


def test_a_dead_producer_sends_nothing_more() -> None:
    """A producer that has ended sends nothing more, even if the batch of another partition has lingered enough in that moment."""
    harness = CoreHarness(partitions=2, batch_size=4_096, linger_ms=5.0).introduce()
    harness.send(b"first")
    harness.advance(5)
    (first,) = harness.produces()
    (other,) = harness.send(b"other", partition=1)
    harness.now += 5
    harness.refuse(first, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert harness.dead is not None
    assert harness.open == []
    failure = other.exception(0)
    assert isinstance(failure, DeliveryFatal)
    assert failure.persisted is Persisted.NO


def test_only_the_fatal_ones_are_fatal() -> None:
    """Fatal are cluster and transactional-id authorization, versions and fencing: what Kafka's clients cannot go on
    after, and nothing else."""
    assert set(FATAL) == {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
    }


def test_a_fatal_error_ends_every_waiting_call() -> None:
    """After a fatal error: waiting threads are woken, send, partitions_for and flush answer at once with the reason, close ends the
    thread."""
    with BrokerStub() as stub:
        producer = quick(stub, **ONE_EACH)
        producer.send("t", b"hello").result(20)
        fatal = stub.faults.on(Api.PRODUCE).before().hold()
        stub.faults.on(Api.PRODUCE).before().error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        future = producer.send("t", b"x")
        fatal.wait(1, 20)
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(future.exception, 20)
            flushing = pool.submit(producer.flush, 20)
            fatal.release()
            assert isinstance(waiting.result(20), DeliveryError)
            assert isinstance(flushing.exception(20), UndeliveredRecords | type(None))
        with pytest.raises(Fatal, match="CLUSTER_AUTHORIZATION_FAILED"):
            producer.send("t", b"y")
        with pytest.raises(Fatal, match="CLUSTER_AUTHORIZATION_FAILED"):
            producer.send("another", b"y")
        with pytest.raises(Fatal):
            producer.partitions_for("yet-another")
        producer.flush(20)
        producer.close(20)
        assert not producer._sender.running


def test_a_refused_producer_id_is_fatal_at_the_first_record() -> None:
    """Without permission to write idempotently the first record fails with the broker's code and a hint of what is missing."""
    with BrokerStub() as stub, quick(stub) as producer:
        stub.faults.on(Api.INIT_PRODUCER_ID).before().forever().error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        failure = producer.send("t", b"x").exception(20)
        assert isinstance(failure, DeliveryFatal)
        assert failure.persisted is Persisted.NO
        assert "CLUSTER_AUTHORIZATION_FAILED" in str(failure)
        assert "IDEMPOTENT_WRITE" in str(failure)


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT])
def test_a_producer_id_may_take_its_time(code: ErrorCode) -> None:
    """A broker that has just started says that it is loading: asked again until it answers, and the record is delivered."""
    with BrokerStub() as stub, quick(stub) as producer:
        fault = stub.faults.on(Api.INIT_PRODUCER_ID).before().times(3).error(code)
        assert producer.send("t", b"x").result(20).offset == 0
        assert fault.hits == 3


def test_a_lost_producer_id_is_asked_for_again() -> None:
    """A connection that dies under InitProducerId costs a retry, and one id, not the producer."""
    with BrokerStub() as stub, quick(stub, request_timeout_ms=300) as producer:
        stub.faults.on(Api.INIT_PRODUCER_ID).before().disconnect()
        stub.faults.on(Api.INIT_PRODUCER_ID).after_append().on_call(2).drop()
        assert producer.send("t", b"x").result(20).offset == 0


def test_a_broker_without_producer_ids() -> None:
    """A broker that does not have InitProducerId cannot give the guarantee: fatal, with the setting that would do without."""
    kept = VERSIONS.pop(Api.INIT_PRODUCER_ID)
    try:
        harness = CoreHarness().learn()
        (future,) = harness.send(b"x")
        assert harness.dead is not None
        assert "enable_idempotence=False" in str(harness.dead.error)
        assert future.done()
    finally:
        VERSIONS[Api.INIT_PRODUCER_ID] = kept


def test_without_idempotence_no_producer_id_is_asked_for() -> None:
    """A producer that promises nothing needs nothing."""
    with BrokerStub() as stub, quick(stub, enable_idempotence=False) as producer:
        producer.send("t", b"x").result(20)
        assert not stub.journal.requests(Api.INIT_PRODUCER_ID)


def test_a_producer_id_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many partitions, many threads, one InitProducerId, without transactional id and with no transaction timeout."""
    with BrokerStub(default_partitions=8) as stub, quick(stub) as producer:
        with ThreadPoolExecutor(8) as pool:
            for each in [pool.submit(producer.send, "t", b"x", partition=p) for p in range(8)]:
                each.result(20).result(20)
        (exchange,) = stub.journal.requests(Api.INIT_PRODUCER_ID)
        request: Any = exchange.request
        assert request.transactional_id is None
        assert request.transaction_timeout_ms == 2**31 - 1


class BrokenGate:
    """Fails whenever the core looks at it, which it does at every event; a method of the core cannot be replaced once it is compiled."""

    @property
    def drop_reason(self) -> Any:
        raise ZeroDivisionError("a bug")


def test_an_internal_error_ends_the_producer_and_every_call(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Should the core itself fail, no caller hangs: the record fails, later calls say that it is an internal error, the log has the
    traceback, and close works."""
    with BrokerStub() as stub:
        producer = quick(stub)
        producer.send("t", b"x").result(20)

        monkeypatch.setattr(producer._sender.engine.core.produce_requests, "_hooks", BrokenGate())
        failure = producer.send("t", b"y").exception(20)
        assert isinstance(failure, DeliveryFatal)
        assert "internal error" in str(failure)
        with pytest.raises(Fatal, match="a bug"):
            producer.send("t", b"z")
        until(lambda: any(record.exc_info for record in caplog.records), "the traceback")
        producer.close(20)
        assert not producer._sender.running
