"""A broken sequence: what the producer asks the broker, which batches it rewrites under a new epoch, and which it never rewrites."""

from __future__ import annotations

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import DeliveryError, DeliveryTimeout, DeliveryUnknown, Persisted, RecordRefused
from fencepost.producer.core.error_table import TABLE, ErrorAction
from fencepost.producer.core.events import Settle
from fencepost.producer.wire import Api, ErrorCode
from tests.producer.core.harness import PID, TOPIC, CoreHarness
from tests.producer.stub_helpers import ONE_EACH, arrivals, quick, until, values

E45 = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_failed_batch_in_a_pipelined_window() -> None:
    """The broker refuses the second of five batches in flight permanently. Only this batch fails, with NO. The later ones are rewritten
    under the next epoch from sequence 0 and arrive once, in order."""
    with BrokerStub() as stub, quick(stub, **ONE_EACH) as producer:
        producer.send("t", b"hello").result(20)
        held = stub.faults.on(Api.PRODUCE).before().hold()
        bad = stub.faults.on(Api.PRODUCE).before().on_call(2).error(ErrorCode.INVALID_RECORD)
        futures = [producer.send("t", b"%d" % i) for i in range(5)]
        held.wait(1, 20)
        held.release()
        assert futures[0].result(20).offset == 1
        with pytest.raises(RecordRefused) as refused:
            futures[1].result(20)
        assert refused.value.persisted is Persisted.NO
        assert refused.value.code == ErrorCode.INVALID_RECORD
        assert [future.result(20).offset for future in futures[2:]] == [2, 3, 4]
        assert bad.hits == 1
        assert values(stub, "t") == [b"hello", b"0", b"2", b"3", b"4"]
        last = [arrival.header for arrival in arrivals(stub)][-3:]
        assert [(header.producer_epoch, header.base_sequence) for header in last] == [(1, 0), (1, 1), (1, 2)]


def test_a_bump_is_local_and_of_one_partition() -> None:
    """The next epoch costs no InitProducerId, and another partition's batches keep theirs."""
    harness = CoreHarness(partitions=2).introduce()
    harness.auto.discard(Api.INIT_PRODUCER_ID)
    harness.send(b"bad", partition=0)
    harness.refuse(harness.produces()[0], ErrorCode.INVALID_RECORD)
    harness.send(b"a", partition=0)
    harness.send(b"b", partition=1)
    stamps = {index: flight.stamp for flight in harness.produces() for index in flight.blobs}
    assert stamps == {0: (PID, 1, 0), 1: (PID, 0, 1)}
    assert not [flight for flight in harness.open if flight.api is Api.INIT_PRODUCER_ID]


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
def test_forgotten_batches_are_resolved_by_asking(clean: bool) -> None:
    """Five replies are lost with the broker that restarts; it remembers only the newest batch, so the oldest's retry is answered 45:
    DescribeProducers tells that all are in the log, every future succeeds, nothing is doubled and nothing is rewritten."""
    with BrokerStub() as stub, quick(stub, **ONE_EACH) as producer:
        producer.send("t", b"hello").result(20)
        held = stub.faults.on(Api.PRODUCE).reply().forever().hold()
        futures = [producer.send("t", b"%d" % i) for i in range(5)]
        held.wait(5, 20)
        until(lambda: stub.end_offset("t", 0) == 6, "all appended")
        stub.stop_broker(1, clean=clean)
        held.remove()
        stub.start_broker(1)
        for future in futures:
            assert future.result(20).offset in (-1, *range(1, 6))
        assert values(stub, "t") == [b"hello", *(b"%d" % i for i in range(5))]
        assert stub.journal.requests(Api.DESCRIBE_PRODUCERS)
        assert {arrival.header.producer_epoch for arrival in arrivals(stub)} == {0}
        assert producer.send("t", b"after").result(20).offset == 6


def test_what_the_log_lost_is_sent_again() -> None:
    """The retry of a doubtful batch is answered 45 because its elder is missing: DescribeProducers says where the log ends, and the elder
    goes first, under the same stamps."""
    harness = CoreHarness().introduce()
    harness.send(b"0", b"1")
    stamps = [flight.stamp for flight in harness.produces()]
    harness.lose(1)
    harness.advance(50)
    harness.refuse(harness.produces()[0], E45)
    (question,) = harness.questions()
    harness.tell(question, (PID, 0, 0))
    harness.advance(50)
    again = []
    for _ in range(2):
        (flight,) = harness.produces()
        again.append(flight.stamp)
        harness.ack(flight)
    assert again == stamps


def test_no_question_while_an_answer_may_still_come() -> None:
    """45 for a batch in doubt is not looked into while another one flies: its answer may explain it."""
    harness = CoreHarness().introduce()
    harness.send(b"0", b"1")
    harness.refuse(harness.produces()[0], E45)
    assert not harness.questions()


def test_an_outcome_that_no_broker_knows_is_maybe() -> None:
    """The leader has forgotten the producer id altogether: what was in doubt fails as MAYBE and is never sent again; what was never sent
    goes on under the next epoch."""
    harness = CoreHarness().introduce()
    in_doubt = harness.send(b"0", b"1")
    harness.lose(1)
    harness.advance(50)
    harness.refuse(harness.produces()[0], E45)
    waiting = harness.send(b"2")
    (question,) = harness.questions()
    harness.tell(question, None)
    for future in in_doubt:
        failure = future.exception(0)
        assert failure is not None
        assert failure.persisted is Persisted.MAYBE
    (flight,) = harness.produces()
    assert (flight.values, flight.stamp) == ([b"2"], (PID, 1, 0))
    harness.ack(flight)
    assert waiting[0].exception(0) is None


@pytest.mark.parametrize(("epoch", "code"), [(0, 0), (2, 0), (1, ErrorCode.UNKNOWN_SERVER_ERROR)])
def test_another_epochs_sequences_tell_nothing(epoch: int, code: int) -> None:
    """The leader remembers our producer id under another epoch: its last sequence says nothing about ours, however well it fits. The same
    of what it says along with an error."""
    harness = CoreHarness(first_epoch=1).introduce()
    (future,) = harness.send(b"0")
    harness.lose(1)
    harness.advance(50)
    harness.refuse(harness.produces()[0], E45)
    harness.tell(harness.questions()[0], (PID, epoch, 1), code=code)
    failure = future.exception(0)
    assert failure is not None
    assert failure.persisted is Persisted.MAYBE


def test_another_producers_sequences_tell_nothing() -> None:
    """Only our own producer id's entry counts."""
    harness = CoreHarness().introduce()
    (future,) = harness.send(b"0")
    harness.lose(1)
    harness.advance(50)
    harness.refuse(harness.produces()[0], E45)
    harness.tell(harness.questions()[0], (PID + 1, 0, 1))
    failure = future.exception(0)
    assert failure is not None
    assert failure.persisted is Persisted.MAYBE


def test_a_leader_that_does_not_know_the_question() -> None:
    """Without DescribeProducers (brokers before 2.8) the outcome is MAYBE at once rather than a guess."""
    from tests.producer.core import harness as bench

    kept = bench.VERSIONS.pop(Api.DESCRIBE_PRODUCERS)
    try:
        harness = CoreHarness().introduce()
        (future,) = harness.send(b"0")
        harness.lose(1)
        harness.advance(50)
        harness.refuse(harness.produces()[0], E45)
        harness.advance(50)
        failure = future.exception(0)
        assert failure is not None
        assert failure.persisted is Persisted.MAYBE
    finally:
        bench.VERSIONS[Api.DESCRIBE_PRODUCERS] = kept


def test_a_question_that_is_refused() -> None:
    """A producer that may write and not read is told nothing of its batches: MAYBE, at once, and the producer goes on."""
    harness = CoreHarness().introduce()
    (future,) = harness.send(b"0")
    harness.lose(1)
    harness.advance(50)
    harness.refuse(harness.produces()[0], E45)
    (question,) = harness.questions()
    harness.tell(question, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    failure = future.exception(0)
    assert failure is not None
    assert failure.persisted is Persisted.MAYBE
    assert not harness.questions()
    (later,) = harness.send(b"1")
    harness.ack(harness.produces()[0])
    assert later.result(0).partition == 0


def test_a_question_that_fails_is_asked_again() -> None:
    """When the leader moves, or the connection is lost before the reply, the producer asks the leader of that moment again."""
    harness = CoreHarness().introduce()
    (future,) = harness.send(b"0")
    harness.lose(1)
    harness.advance(50)
    harness.refuse(harness.produces()[0], E45)
    harness.leaders[0] = (2, 1)
    for _ in range(3):
        (question,) = harness.questions()
        if question.node == 2:
            break
        harness.tell(question, code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        harness.advance(500)
    assert harness.questions()[0].node == 2
    harness.lose(2)
    harness.advance(500)
    (question,) = harness.questions()
    harness.tell(question, (PID, 0, 1))
    assert not future.done(), "acks=all: the log has it, an acknowledgement confirms it"
    harness.advance(500)
    harness.ack(harness.produces()[0])
    assert future.exception(0) is None


def test_an_answer_older_than_the_last_attempt_is_not_believed() -> None:
    """An answer to a question asked before something else was sent may be out of date: it is put aside and the question repeated."""
    harness = CoreHarness(delivery_timeout_ms=60.0, resolve_grace_ms=1_000.0).introduce()
    (late,) = harness.send(b"0")
    harness.advance(60)
    (question,) = harness.questions()
    harness.send(b"1")
    harness.tell(question, None)
    assert not late.done()
    (question,) = harness.questions()
    harness.tell(question, (PID, 0, 1))
    assert not late.done(), "the log has it, and its acknowledgement is still on the way"
    harness.ack(harness.produces()[0], offset=1)
    assert late.result(0).offset == 1


def test_a_refusal_after_a_lost_reply_is_no_proof() -> None:
    """The first attempt's reply was lost, and the second attempt is refused permanently. The first may be in the log, so the failure says
    MAYBE."""
    with BrokerStub() as stub, quick(stub) as producer:
        stub.faults.on(Api.PRODUCE).after_append().disconnect()
        stub.faults.on(Api.PRODUCE).before().on_call(2).error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        future = producer.send("t", b"x")
        failure = future.exception(20)
        assert isinstance(failure, RecordRefused)
        assert failure.persisted is Persisted.MAYBE
        assert failure.attempts == 2
        assert values(stub, "t") == [b"x"]


def test_an_unknown_code_is_a_failure_of_unknown_effect() -> None:
    """A code of a newer broker fails the batch as MAYBE, names its number, and the partition goes on with the next epoch."""
    with BrokerStub() as stub, quick(stub) as producer:
        stub.faults.on(Api.PRODUCE).before().error(999)
        failure = producer.send("t", b"x").exception(20)
        assert isinstance(failure, RecordRefused)
        assert (failure.code, failure.persisted) == (999, Persisted.MAYBE)
        assert "UNKNOWN(999)" in str(failure)
        assert producer.send("t", b"y").result(20).offset == 0
        assert arrivals(stub)[-1].stamp[1:] == (1, 0)


REFUSALS = [code for code, row in TABLE[Api.PRODUCE].items() if row.action is ErrorAction.FAIL]


@pytest.mark.parametrize("code", REFUSALS, ids=[code.name for code in REFUSALS])
def test_one_failed_batch_never_poisons_the_producer(code: ErrorCode) -> None:
    """Every final code fails its batch and nothing else: the next record is delivered under the next epoch, from sequence 0."""
    harness = CoreHarness().introduce()
    (bad,) = harness.send(b"bad")
    harness.refuse(harness.produces()[0], code, message="because")
    failure = bad.exception(0)
    assert isinstance(failure, RecordRefused)
    assert "because" in str(failure)
    assert code.name in str(failure)
    (good,) = harness.send(b"good")
    (flight,) = harness.produces()
    assert flight.stamp == (PID, 1, 0)
    harness.ack(flight, offset=1)
    assert good.result(0).offset == 1


def test_invalid_producer_epoch_heals() -> None:
    """INVALID_PRODUCER_EPOCH for a batch known not to be in the log: the next epoch is tried, and the next, until one is accepted."""
    harness = CoreHarness().introduce()
    (future,) = harness.send(b"x")
    for epoch in range(3):
        (flight,) = harness.produces()
        assert flight.stamp[1] == epoch
        harness.refuse(flight, ErrorCode.INVALID_PRODUCER_EPOCH)
        harness.advance(50)
    harness.ack(harness.produces()[0])
    assert future.exception(0) is None


def test_after_epoch_32767_comes_a_new_producer_id() -> None:
    """The last epoch is spent: InitProducerId brings a new id, and the waiting batches go out under it from epoch 0, sequence 0, one at a
    time because no broker knows the new id."""
    harness = CoreHarness(first_epoch=32767).introduce()
    bad, *good = harness.send(b"bad", b"0", b"1", b"2")
    harness.next_pid = (PID + 1, 0)
    first, *others = harness.produces()
    harness.refuse(first, ErrorCode.INVALID_RECORD)
    for flight in others:
        harness.refuse(flight, E45)
    harness.advance(50)
    assert bad.exception(0) is not None
    for place in range(3):
        (flight,) = harness.produces()
        assert (flight.values, flight.stamp) == ([b"%d" % place], (PID + 1, 0, place))
        harness.ack(flight, offset=place)
        harness.advance(50)
    assert [future.result(0).offset for future in good] == [0, 1, 2]


def test_the_new_id_serves_every_partition_that_needs_one() -> None:
    """A partition that still has epochs left keeps its old id; two that ran out share the new one: one InitProducerId for both."""
    harness = CoreHarness(partitions=3, first_epoch=32767).introduce()
    harness.next_pid = (PID + 1, 0)
    for partition in (0, 1):
        harness.send(b"bad", partition=partition)
        harness.refuse(harness.produces()[0], ErrorCode.INVALID_RECORD)
    for partition in range(3):
        harness.send(b"x", partition=partition)
    stamps = {index: flight.stamp for flight in harness.produces() for index in flight.blobs}
    assert stamps == {0: (PID + 1, 0, 0), 1: (PID + 1, 0, 0), 2: (PID, 32767, 1)}


def test_out_of_order_behind_a_gap_is_a_retry_and_no_bump() -> None:
    """45 for a batch that is not the oldest only says that its elder has not arrived: it is sent again, unchanged, after the elder."""
    harness = CoreHarness().introduce()
    futures = harness.send(b"0", b"1")
    first, second = harness.produces()
    harness.refuse(second, E45)
    harness.advance(50)
    assert [flight.values for flight in harness.produces()] == [[b"0"]]
    harness.ack(first, offset=1)
    (again,) = harness.produces()
    assert again.blob == second.blob
    harness.ack(again, offset=2)
    assert [future.result(0).offset for future in futures] == [1, 2]
    assert not harness.questions()


def test_the_failure_is_what_the_caller_gets() -> None:
    """Each record of a failed batch raises an error of its own, with the same words, so that no traceback is shared."""
    harness = CoreHarness(batch_size=4096).learn()
    queues = harness.accumulator.topics["t"]
    futures = [harness.accumulator.append(queues, 0, 1, None, b"x", None, None) for _ in range(3)]
    harness.send(b"x")
    harness.refuse(harness.produces()[0], ErrorCode.INVALID_RECORD)
    failures = [future.exception(0) for future in futures if future is not None]
    assert len({id(failure) for failure in failures}) == 3
    assert len({str(failure) for failure in failures}) == 1
    assert all(isinstance(failure, DeliveryError) and not isinstance(failure, DeliveryTimeout) for failure in failures)


PASSING = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
)


@pytest.mark.parametrize("code", PASSING, ids=[code.name for code in PASSING])
def test_a_question_that_cannot_be_answered_now_is_asked_again(code: ErrorCode) -> None:
    """A retriable error says nothing about the batch. The producer asks again until it gets an answer."""
    harness = CoreHarness().introduce()
    (future,) = harness.send(b"0")
    harness.lose(1)
    harness.advance(50)
    harness.refuse(harness.produces()[0], E45)
    for _ in range(3):
        harness.tell(harness.questions()[0], code=code)
        assert not future.done()
        harness.advance(50)
    harness.tell(harness.questions()[0], (PID, 0, 0))
    harness.advance(50)
    harness.ack(harness.produces()[0], offset=1)
    assert future.result(0).offset == 1


def test_what_is_queued_is_dropped_after_its_elders() -> None:
    """A partition is dropped while one of its batches is on its way and another is queued: the queued one fails when the elder has its
    outcome, and not before."""
    harness = CoreHarness(max_in_flight=1).introduce()
    flying, queued = harness.send(b"0", b"1")
    sender = harness.core.produce_requests.senders[TOPIC, 0]
    assert sender.drop(DeliveryUnknown, "dropped") == []
    harness.core.produce_requests.ready_partitions.mark(sender)
    assert not queued.done()
    sender.window.acknowledged(sender.window.in_flight_batches[0], 1, -1)
    settled = sender.drop(DeliveryUnknown, "dropped")
    assert [type(each) for each in settled] == [Settle, Settle]
    assert [getattr(each, "failure", None) is None for each in settled] == [True, False]
    assert not flying.done()
