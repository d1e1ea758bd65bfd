"""The delivery timeout of a record at every stage of its way, and what each failure says about the log."""

from __future__ import annotations

import re

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import DeliveryError, DeliveryTimeout, Persisted, ProducerClosed, RecordRefused
from fencepost.producer.wire import Api, ErrorCode
from tests.later import jumping
from tests.producer.core.harness import PID, CoreHarness
from tests.producer.stub_helpers import ONE_EACH, quick, until, values

REQUEST_MS, DELIVERY_MS, GRACE_MS = 20_000, 40_000, 10_000
LONG = {"request_timeout_ms": REQUEST_MS, "delivery_timeout_ms": DELIVERY_MS, "resolve_grace_ms": GRACE_MS}
"""For tests in which the clock jumps, so that nothing but a jump ends them."""


def failure_of(harness: CoreHarness, *, value: bytes = b"x", code: int | None = None, lost: bool = False) -> DeliveryError:
    """Send one record into that trouble, again and again, until its deadline has passed."""
    (future,) = harness.send(value)
    for _ in range(200):
        for flight in harness.produces():
            if code is not None:
                harness.refuse(flight, code)
        if lost and harness.produces():
            harness.lose(1)
        if future.done():
            break
        harness.advance(20)
    failure = future.exception(0)
    assert failure is not None
    return failure


def patient_desk() -> CoreHarness:
    """Attempts 300 ms apart, the fourth and last 100 ms before the deadline."""
    return CoreHarness(
        delivery_timeout_ms=1_000.0,
        request_timeout_ms=500.0,
        resolve_grace_ms=100.0,
        retry_backoff_ms=300.0,
        retry_backoff_max_ms=300.0,
    ).introduce()


def test_a_deadline_in_the_queue() -> None:
    """A record that could never be sent fails once delivery_timeout_ms has passed: not in the log for sure, and why not."""
    with jumping() as jump, BrokerStub() as stub, quick(stub, **LONG) as producer:
        producer.partitions_for("t")
        stub.stop_broker(1)
        # What is written to a connection whose end has not been noticed was sent.
        until(lambda: not producer.stats().connection_count, "the connection is seen to be closed")
        waiting = producer.send("t", b"x")
        jump(DELIVERY_MS, producer)
        failure = waiting.exception(20)
        assert isinstance(failure, DeliveryTimeout)
        assert failure.persisted is Persisted.NO
        assert failure.attempts == 0
        assert f"delivery_timeout_ms={DELIVERY_MS}" in str(failure)
        assert "no connection to broker 1" in str(failure)
        stub.start_broker(1)
        until(lambda: producer.send("t", b"y").exception(20) is None, "records flow again")


@pytest.mark.parametrize("appended", [True, False])
def test_a_deadline_in_the_first_attempt(appended: bool) -> None:
    """A request that is never answered, and a broker that says nothing more: the record fails as MAYBE, and both cases are true."""
    with jumping() as jump, BrokerStub() as stub, quick(stub, **LONG) as producer:
        producer.send("t", b"hello").result(20)
        point = stub.faults.on(Api.PRODUCE)
        fault = (point.after_append() if appended else point.before()).forever().hold()
        late = producer.send("t", b"x")
        fault.wait(1, 20)
        jump(DELIVERY_MS, producer)
        jump(GRACE_MS, producer)
        failure = late.exception(20)
        assert isinstance(failure, DeliveryTimeout)
        assert failure.persisted is Persisted.MAYBE
        assert failure.topic == "t"
        assert failure.partition == 0
        fault.remove()
        until(lambda: producer.send("t", b"y").exception(20) is None, "records flow again")
        assert values(stub, "t").count(b"x") <= 1


def test_an_expired_first_attempt_is_resolved_by_asking() -> None:
    """The deadline passes during the very first attempt, whose answer is late; the leader says that it has the batch, and when the answer
    comes within the grace the record has succeeded."""
    harness = CoreHarness(delivery_timeout_ms=1_000.0, resolve_grace_ms=500.0).introduce()
    (future,) = harness.send(b"x")
    (flight,) = harness.produces()
    harness.advance(1_000)
    assert not future.done()
    harness.tell(harness.questions()[0], (PID, 0, 1))
    harness.ack(flight, offset=1)
    assert future.result(0).offset == 1


def test_an_expired_first_attempt_that_the_leader_has() -> None:
    """As before, but the answer never comes: the failure says MAYBE, because another leader may lead without what this one has."""
    harness = CoreHarness(delivery_timeout_ms=1_000.0, resolve_grace_ms=500.0).introduce()
    (future,) = harness.send(b"x")
    harness.advance(1_000)
    harness.tell(harness.questions()[0], (PID, 0, 1))
    harness.advance(500)
    failure = future.exception(0)
    assert isinstance(failure, DeliveryTimeout)
    assert failure.persisted is Persisted.MAYBE


def test_what_follows_an_expired_batch() -> None:
    """After a batch expired in doubt, nothing of its partition leaves until its sequence is settled; then records flow again, once each."""
    with jumping() as jump, BrokerStub() as stub, quick(stub, **{**ONE_EACH, **LONG}) as producer:
        producer.send("t", b"hello").result(20)
        for round_trip in range(3):
            fault = stub.faults.on(Api.PRODUCE).after_append().times(5).drop()
            late = [producer.send("t", b"%d-%d" % (round_trip, i)) for i in range(5)]
            fault.wait(5, 20)
            jump(DELIVERY_MS, producer)
            jump(GRACE_MS, producer)
            outcomes = [future.exception(20) for future in late]
            fault.remove()
            until(lambda: producer.send("t", b"fresh").exception(20) is None, "records flow again")
            log = [value for value in values(stub, "t") if value != b"fresh"]
            assert len(log) == len(set(log)), "nothing twice"
            for future, outcome, value in zip(late, outcomes, (b"%d-%d" % (round_trip, i) for i in range(5)), strict=True):
                assert future.done()
                if outcome is None:
                    assert value in log
                else:
                    assert outcome.persisted is not Persisted.NO or value not in log


@pytest.mark.parametrize(
    ("code", "persisted"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, Persisted.NO),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Persisted.MAYBE),
        (ErrorCode.CORRUPT_MESSAGE, Persisted.NO),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Persisted.NO),
        (ErrorCode.KAFKA_STORAGE_ERROR, Persisted.MAYBE),
        (ErrorCode.NETWORK_EXCEPTION, Persisted.MAYBE),
        (ErrorCode.REQUEST_TIMED_OUT, Persisted.MAYBE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Persisted.YES),
    ],
)
def test_a_deadline_after_retries_says_what_the_answers_said(code: ErrorCode, persisted: Persisted) -> None:
    """An error that never passes: the record expires with that code, the number of attempts, and what the code says about the log."""
    failure = failure_of(patient_desk(), code=code)
    assert isinstance(failure, DeliveryTimeout)
    assert (failure.persisted, failure.code) == (persisted, code)
    assert failure.attempts > 2
    assert code.name in str(failure)


def test_the_error_names_the_limit_and_the_newest_failure() -> None:
    """DeliveryTimeout says which value passed and what happened to the newest attempt: the broker's code with its reason, the loss of the
    connection with the broker's name and the last code, or that the newest request has no answer yet."""
    said = str(failure_of(patient_desk(), code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert "no acknowledgement within delivery_timeout_ms=1000; last: the leader moved" in said
    assert "[NOT_LEADER_OR_FOLLOWER]; attempts=" in said
    said = str(failure_of(patient_desk(), lost=True))
    assert re.search(r"within delivery_timeout_ms=1000; last: broker 1 at \S+: .+; attempts=", said), said

    harness = patient_desk()
    (future,) = harness.send(b"x")
    harness.refuse(harness.produces()[0], ErrorCode.NOT_LEADER_OR_FOLLOWER)
    harness.advance(500)
    assert harness.produces()
    harness.lose(1)
    for _ in range(40):
        harness.advance(20)
    assert re.search(r"last: broker 1 at .+; the last error code was \[NOT_LEADER_OR_FOLLOWER\]", str(future.exception(0)))

    harness = CoreHarness(delivery_timeout_ms=1_000.0, request_timeout_ms=5_000.0, resolve_grace_ms=0.0).introduce()
    (future,) = harness.send(b"x")
    harness.advance(1_200)
    assert "delivery_timeout_ms=1000; no answer to the newest request yet; attempts=1" in str(future.exception(0))


def test_the_error_names_the_request_timeout() -> None:
    """If requests time out, the error names request_timeout_ms and the broker that did not answer."""
    with jumping() as jump, BrokerStub() as stub, quick(stub, **LONG) as producer:
        producer.send("t", b"hello").result(20)
        held = stub.faults.on(Api.PRODUCE).before().forever().hold()
        waiting = producer.send("t", b"x")
        held.wait(1, 20)
        # A jump looks like a standstill of the producer, after which answers have a second to be read.
        for passed_ms in (REQUEST_MS, 600.0, 600.0, DELIVERY_MS - REQUEST_MS, GRACE_MS):
            jump(passed_ms, producer)
        said = str(waiting.exception(20))
    assert f"last: broker 1 at {stub.bootstrap}: a request was not answered within request_timeout_ms={REQUEST_MS}" in said


def test_what_a_leader_has_appended_stays_so_when_it_refuses_the_repeat() -> None:
    """Too few in-sync replicas after the append, and from then on before it, as Kafka answers the repeats: the record is in the log of
    every in-sync replica all the same."""
    harness = patient_desk()
    (future,) = harness.send(b"x")
    harness.refuse(harness.produces()[0], ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    while not future.done():
        for flight in harness.produces():
            harness.refuse(flight, ErrorCode.NOT_ENOUGH_REPLICAS)
        harness.advance(20)
    failure = future.exception(0)
    assert failure is not None
    assert (failure.persisted, failure.code) == (Persisted.YES, ErrorCode.NOT_ENOUGH_REPLICAS)


def test_the_grace_asks_once() -> None:
    """A batch whose request is still unanswered at its deadline is asked about, and the answer is not asked for again and again: nothing
    has happened since that could have changed it."""
    harness = CoreHarness(delivery_timeout_ms=1_000.0, request_timeout_ms=5_000.0, resolve_grace_ms=200.0).introduce()
    (future,) = harness.send(b"x")
    harness.advance(1_010)
    (question,) = harness.questions()
    harness.tell(question, (PID, 0, 0))
    harness.advance(100)
    assert harness.questions() == []
    assert not future.done()


@pytest.mark.parametrize(
    ("code", "persisted"),
    [
        (ErrorCode.INVALID_RECORD, Persisted.NO),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Persisted.NO),
        (ErrorCode.MESSAGE_TOO_LARGE, Persisted.NO),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Persisted.MAYBE),
        (4711, Persisted.MAYBE),
    ],
)
def test_a_refusal_says_what_it_means_for_the_log(code: int, persisted: Persisted) -> None:
    """A permanent error code fails the record at the first attempt: NO if the broker refused it before the append, MAYBE if this is
    unknown."""
    failure = failure_of(patient_desk(), code=code)
    assert isinstance(failure, RecordRefused)
    assert (failure.persisted, failure.code, failure.attempts) == (persisted, code, 1)


def test_links_that_keep_dying_leave_a_maybe() -> None:
    """All requests are lost, so it is unknown whether the record arrived."""
    failure = failure_of(patient_desk(), lost=True)
    assert isinstance(failure, DeliveryTimeout)
    assert failure.persisted is Persisted.MAYBE


def test_no_deadline_stays_within_the_grace() -> None:
    """A record has its outcome within delivery_timeout_ms plus resolve_grace_ms, also when no broker answers any request."""
    harness = CoreHarness(delivery_timeout_ms=1_000.0, request_timeout_ms=5_000.0, resolve_grace_ms=200.0).introduce()
    (future,) = harness.send(b"x")
    harness.advance(1_199)
    assert not future.done()
    harness.advance(2)
    assert future.exception(0)


def test_a_deadline_is_kept_while_nothing_else_happens() -> None:
    """A refused record whose leader's connection is being made and never comes up: nothing wakes the producer but the deadline itself."""
    harness = CoreHarness(delivery_timeout_ms=1_000.0, request_timeout_ms=5_000.0).introduce()
    (future,) = harness.send(b"x")
    harness.refuse(harness.produces()[0], ErrorCode.NOT_ENOUGH_REPLICAS)
    harness.mute |= {-1, 1, 2, 3}
    harness.lose(1)
    harness.lose(-1)
    harness.advance(999)
    assert not future.done()
    harness.advance(2)
    assert isinstance(future.exception(0), DeliveryTimeout)


def test_linger_and_queueing_count() -> None:
    """The clock starts at the append: a batch that lingered and queued expires as early as one that was sent at once."""
    harness = CoreHarness(linger_ms=400.0, batch_size=4096, delivery_timeout_ms=1_000.0).introduce()
    (future,) = harness.send(b"x")
    harness.down.add(1)
    harness.lose(1)
    harness.advance(999)
    assert not future.done()
    harness.advance(2)
    failure = future.exception(0)
    assert failure is not None
    assert failure.persisted is Persisted.NO


def test_outcomes_keep_their_order_when_deadlines_pass() -> None:
    """A queued record does not expire before the older one in flight: its own outcome waits for the elder's."""
    harness = CoreHarness(delivery_timeout_ms=1_000.0, request_timeout_ms=5_000.0, resolve_grace_ms=200.0, max_in_flight=1).introduce()
    flying, queued = harness.send(b"0", b"1")
    harness.advance(1_001)
    assert not flying.done()
    assert not queued.done()
    harness.advance(200)
    assert [settle.failure.persisted for settle in harness.settled if settle.failure] == [Persisted.MAYBE, Persisted.NO]
    assert flying.done()
    assert queued.done()


def test_nothing_leaves_for_the_first_time_after_its_deadline() -> None:
    """The elder is in its grace, so the outcome of a queued record waits; room on the connection comes too late for it."""
    harness = CoreHarness(
        partitions=2, delivery_timeout_ms=1_000.0, request_timeout_ms=5_000.0, resolve_grace_ms=200.0, max_in_flight=2
    ).introduce()
    harness.send(b"elder")
    other, queued = harness.send(b"other", partition=1), harness.send(b"queued")
    harness.advance(1_001)
    (flight,) = [each for each in harness.produces() if 1 in each.blobs]
    harness.ack(flight, offset=1)
    assert other[0].result(0).offset == 1
    assert [flight.values for flight in harness.produces()] == [[b"elder"]]
    harness.advance(200)
    failure = queued[0].exception(0)
    assert failure is not None
    assert (failure.persisted, failure.attempts) == (Persisted.NO, 0)


def test_closing_fails_what_is_left_with_the_truth() -> None:
    """close(timeout) with a record in flight and one queued: MAYBE for the one, NO for the other, and both say that the producer closed."""
    with BrokerStub() as stub:
        producer = quick(stub, **ONE_EACH, max_in_flight=1)
        producer.send("t", b"hello").result(20)
        held = stub.faults.on(Api.PRODUCE).before().forever().hold()
        flying, queued = producer.send("t", b"0"), producer.send("t", b"1")
        held.wait(1, 20)
        seen: list[DeliveryError | None] = []
        for future in (flying, queued):
            future.add_done_callback(lambda future: seen.append(future.exception()))
        producer.close(0.05)
        assert [error and error.persisted for error in seen] == [Persisted.MAYBE, Persisted.NO]
        for future in (flying, queued):
            with pytest.raises(DeliveryError, match="closed"):
                future.result(0)
        with pytest.raises(ProducerClosed):
            producer.send("t", b"x")


def test_without_a_grace_the_deadline_is_the_end() -> None:
    """With resolve_grace_ms=0 a record with an unknown outcome fails at its deadline, and not half a minute later, when its request times
    out."""
    harness = CoreHarness(request_timeout_ms=30_000.0, delivery_timeout_ms=40_000.0, resolve_grace_ms=0.0).introduce()
    (future,) = harness.send(b"x")
    harness.advance(40_000)
    failure = future.exception(0)
    assert failure is not None
    assert failure.persisted is Persisted.MAYBE


@pytest.mark.parametrize("code", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR])
def test_without_idempotence_what_has_failed_is_not_sent_again(code: ErrorCode) -> None:
    """Without idempotence, a record in flight at its deadline has failed. After a later refusal the producer does not send it again,
    because the program may have done so. The next record goes on."""
    harness = CoreHarness(enable_idempotence=False, delivery_timeout_ms=2_000.0, request_timeout_ms=1_500.0).learn()
    (late,) = harness.send(b"late")
    (flight,) = harness.produces()
    harness.advance(1_000)
    harness.refuse(flight, ErrorCode.NOT_ENOUGH_REPLICAS)
    harness.advance(900)
    (flight,) = harness.produces()
    harness.advance(200)
    failure = late.exception(0)
    assert failure is not None
    assert (failure.persisted, failure.attempts) == (Persisted.MAYBE, 2)
    (behind,) = harness.send(b"behind")
    harness.refuse(flight, code)
    harness.advance(100)
    assert [flight.values for flight in harness.produces()] == [[b"behind"]]
    harness.ack(harness.produces()[0], offset=7)
    assert behind.result(0).offset == 7
