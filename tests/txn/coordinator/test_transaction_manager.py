"""The transaction manager, one response at a time: its requests, their times, and what callers are told."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.producer.core.events import Called, Features, Return
from fencepost.producer.errors import Fenced
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.messages.add_to_txn import AddPartitionsToTxnResponse
from fencepost.producer.wire.messages.end_txn import EndTxnResponse
from fencepost.txn.coordinator.pending_calls import Call
from fencepost.txn.coordinator.state_machine import Event, State
from fencepost.txn.coordinator.transaction_manager import FEATURE, REMEMBERED
from fencepost.txn.errors import CommitOutcomeUnknown, DeliveryAborted, IllegalCall, MustAbort, NotPermitted, TransactionTimeout
from fencepost.txn.group_metadata import GroupMetadata
from fencepost.txn.offsets import OffsetAndMetadata
from tests.producer.core.harness import PID, VERSIONS
from tests.txn.coordinator.harness import CALL_MS, CoordinatorHarness

BOTH = pytest.mark.parametrize("version", [1, 2])


def wrote(version: int, **settings: Any) -> CoordinatorHarness:
    """A transaction with one record that is acknowledged."""
    harness = CoordinatorHarness(version=version, **settings).begin()
    harness.send(b"row")
    if version < 2:
        harness.add()
    harness.ack(harness.produces()[0])
    return harness


def test_version_2_writes_at_once_and_takes_the_next_epoch_from_the_end() -> None:
    """Nothing is added by hand; the epoch of the EndTxn answer is the next transaction's, with sequences from 0."""
    harness = wrote(2)
    commit = harness.call(Event.COMMIT)
    end = harness.asked(Api.END_TXN)
    assert (end.command.version, end.message.producer_epoch, end.message.committed) == (5, 0, True)
    harness.end()
    assert commit.outcome.result(0) == 0
    harness.begin()
    harness.send(b"next")
    assert harness.produces()[0].stamp == (PID, 1, 0)
    assert harness.produces()[0].command.version == 12 + 1


def test_version_1_adds_a_partition_before_its_first_batch() -> None:
    """The batch waits for the answer; the epoch stays, and sequences go on."""
    harness = CoordinatorHarness(version=1).begin()
    harness.send(b"row")
    assert harness.produces() == []
    harness.add(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert harness.produces() == []
    harness.advance(30)
    harness.add()
    assert harness.produces()[0].command.version == 11
    harness.ack(harness.produces()[0])
    harness.call(Event.COMMIT)
    assert harness.asked(Api.END_TXN).command.version == 4
    harness.end()
    harness.begin()
    harness.send(b"next")
    harness.add()
    assert harness.produces()[0].stamp == (PID, 0, 1)


def test_concurrent_transactions_are_waited_for_20_ms() -> None:
    """The one before is completed within milliseconds, so its end is asked for soon; then ever later."""
    harness = wrote(2, retry_backoff_max_ms=1_000.0)
    harness.call(Event.COMMIT)
    for wait_ms in (20, 40):
        harness.end(ErrorCode.CONCURRENT_TRANSACTIONS)
        harness.advance(wait_ms - 1)
        assert harness.silent()
        harness.advance(2)
    harness.end()
    assert harness.state is State.READY


def test_every_transaction_begins_with_the_shortest_wait() -> None:
    """The waits of the transaction before are over with it: what was answered well is a new beginning."""
    harness = wrote(2, retry_backoff_max_ms=1_000.0)
    for _ in range(3):
        harness.call(Event.COMMIT)
        for _ in range(4):
            harness.end(ErrorCode.CONCURRENT_TRANSACTIONS)
            harness.advance(1_300)
        harness.end()
        harness.begin()
        harness.send(b"next")
        harness.ack(harness.produces()[0])
    harness.call(Event.COMMIT)
    harness.end(ErrorCode.CONCURRENT_TRANSACTIONS)
    harness.advance(21)
    harness.end()
    assert harness.state is State.READY


@BOTH
@pytest.mark.parametrize("end", [Event.COMMIT, Event.ABORT])
def test_nothing_was_written_so_nothing_is_ended(version: int, end: Event) -> None:
    """A transaction without a record sends no EndTxn, for a commit and for an abort."""
    harness = CoordinatorHarness(version=version).begin()
    harness.call(end).outcome.result(0)
    assert harness.silent()
    assert harness.state is State.READY


@BOTH
def test_an_unobserved_failure_refuses_the_commit(version: int) -> None:
    """The commit is refused before it is even asked for, with the first failure, and only an abort is left; it is sent although nothing
    of the transaction is in a log."""
    harness = CoordinatorHarness(version=version).begin()
    harness.send(b"bad")
    if version < 2:
        harness.add()
    harness.refuse(harness.produces()[0], ErrorCode.INVALID_RECORD)
    commit = harness.call(Event.COMMIT)
    failure = commit.outcome.exception(0)
    assert isinstance(failure, MustAbort)
    assert failure.cause is not None
    assert failure.cause.code == ErrorCode.INVALID_RECORD
    abort = harness.call(Event.ABORT)
    assert not harness.asked(Api.END_TXN).message.committed
    harness.end()
    assert abort.outcome.result(0) == 0


def test_a_failure_while_the_commit_waits() -> None:
    """What fails after the commit was asked for fails the commit, and no EndTxn is sent."""
    harness = CoordinatorHarness().begin()
    harness.send(b"good", b"bad")
    commit = harness.call(Event.COMMIT)
    harness.ack(harness.produces()[0])
    harness.refuse(harness.produces()[0], ErrorCode.INVALID_RECORD)
    assert isinstance(commit.outcome.exception(0), MustAbort)
    assert harness.silent()
    assert harness.state is State.SPOILED


def test_a_failure_dooms_what_waits_behind_it() -> None:
    """Records that have not been sent fail as soon as the transaction can only be aborted, without any call."""
    harness = CoordinatorHarness(partitions=2, max_in_flight=1).begin()
    harness.leaders[1] = (2, 0)
    (bad,) = harness.send(b"bad")
    (queued,) = harness.send(b"queued")
    harness.refuse(harness.produces()[0], ErrorCode.INVALID_RECORD)
    harness.advance(0)
    assert bad.done()
    assert isinstance(queued.exception(0), DeliveryAborted)


def test_version_1_takes_a_new_epoch_after_a_broken_sequence() -> None:
    """Where a batch failed, the abort is followed by InitProducerId with the identity so far (KIP-360), never earlier, and the next begin
    waits for it; sequences begin at 0."""
    harness = CoordinatorHarness(version=1).begin()
    harness.send(b"bad")
    harness.add()
    harness.refuse(harness.produces()[0], ErrorCode.INVALID_RECORD)
    abort = harness.call(Event.ABORT)
    assert [flight.api for flight in harness.open] == [Api.END_TXN]
    harness.end()
    assert abort.outcome.result(0) == 0
    begin = harness.call(Event.BEGIN)
    assert not begin.outcome.done()
    asked = harness.asked(Api.INIT_PRODUCER_ID).message
    assert (asked.producer_id, asked.producer_epoch) == (PID, 0)
    harness.identify(epoch=1)
    assert begin.outcome.result(0) == 2
    harness.send(b"next")
    harness.add()
    assert harness.produces()[0].stamp == (PID, 1, 0)


def test_a_renewal_that_was_carried_out_and_forgotten() -> None:
    """The reply to InitProducerId is lost, and the next coordinator does not know the previous epoch, because Kafka does not write it down.
    A newer producer would look the same, so the producer ends. The transaction before is not affected."""
    harness = CoordinatorHarness(version=1).begin()
    harness.send(b"bad")
    harness.add()
    harness.refuse(harness.produces()[0], ErrorCode.INVALID_RECORD)
    abort = harness.call(Event.ABORT)
    harness.end()
    assert abort.outcome.result(0) == 0
    begin = harness.call(Event.BEGIN)
    harness.lose(1)
    harness.advance(200)
    harness.identify(code=ErrorCode.PRODUCER_FENCED)
    fenced = begin.outcome.exception(0)
    assert isinstance(fenced, Fenced)
    assert "this producer's own INIT_PRODUCER_ID, which was lost before, has arrived late" in str(fenced)


def test_a_repeated_renewal_is_followed_by_another() -> None:
    """If the lost InitProducerId arrived after the end of the next transaction, the coordinator would take it for a repeat and forget that
    end. It would answer a later EndTxn as if the transaction had never been. One epoch later it refuses the lost request."""
    harness = CoordinatorHarness(version=1).begin()
    harness.send(b"bad")
    harness.add()
    harness.refuse(harness.produces()[0], ErrorCode.INVALID_RECORD)
    harness.call(Event.ABORT)
    harness.end()
    begin = harness.call(Event.BEGIN)
    harness.lose(1)
    harness.advance(200)
    harness.identify(epoch=1)
    assert not begin.outcome.done()
    asked = harness.asked(Api.INIT_PRODUCER_ID).message
    assert (asked.producer_id, asked.producer_epoch) == (PID, 1)
    harness.identify(epoch=2)
    assert begin.outcome.result(0) == 2
    assert harness.silent()
    assert harness.manager.identity == (PID, 2)


def test_a_repeated_registration_is_followed_by_no_other() -> None:
    """A lost registration names no epoch, so Kafka takes it for a newer producer's in any epoch."""
    harness = CoordinatorHarness(version=1)
    begin = harness.call(Event.BEGIN)
    harness.lose(1)
    harness.advance(200)
    harness.identify(epoch=1)
    assert begin.outcome.result(0) == 1
    assert harness.silent()


def wrote_after_a_lost_addition() -> CoordinatorHarness:
    """At version 1: the first AddPartitionsToTxn is not answered, and the row is in the log after the second."""
    harness = CoordinatorHarness(version=1).begin()
    harness.send(b"row")
    harness.lose(1)
    harness.advance(200)
    harness.add()
    harness.ack(harness.produces()[0])
    return harness


def test_version_1_is_renewed_after_an_addition_that_was_lost() -> None:
    """It may come after the end, and would open a transaction under the same epoch. Where it does so before the epoch is renewed, the
    coordinator aborts that and calls the producer fenced: the error names what was lost."""
    harness = wrote_after_a_lost_addition()
    commit = harness.call(Event.COMMIT)
    harness.end()
    assert commit.outcome.result(0) == 0
    assert harness.state is State.RENEWING
    harness.identify(code=ErrorCode.CONCURRENT_TRANSACTIONS)
    harness.advance(30)
    begin = harness.call(Event.BEGIN)
    harness.identify(code=ErrorCode.PRODUCER_FENCED)
    fenced = begin.outcome.exception(0)
    assert isinstance(fenced, Fenced)
    assert "this producer's own ADD_PARTITIONS_TO_TXN, which was lost before, has arrived late" in str(fenced)


def test_what_was_lost_before_the_epoch_was_renewed_is_blamed_for_nothing() -> None:
    """A late request to add a partition is refused after the next identity, and fences no producer. So a later error does not name it."""
    harness = wrote_after_a_lost_addition()
    harness.call(Event.COMMIT)
    harness.end()
    harness.identify(epoch=1)
    harness.begin()
    harness.send(b"next")
    harness.add()
    harness.lose(harness.produces()[0].node)
    harness.advance(200)
    harness.ack(harness.produces()[0], offset=1)
    harness.call(Event.COMMIT)
    harness.end()
    assert harness.state is State.RENEWING
    begin = harness.call(Event.BEGIN)
    harness.identify(code=ErrorCode.PRODUCER_FENCED)
    fenced = begin.outcome.exception(0)
    assert isinstance(fenced, Fenced)
    assert "was lost before" not in str(fenced)


def test_version_1_is_renewed_after_a_produce_that_was_lost() -> None:
    """Its sequence keeps it from being written twice, but a leader that meets it after the end refuses the next transaction's first batch.
    Where nothing was lost, the epoch stays."""
    for lost, state in ((True, State.RENEWING), (False, State.READY)):
        harness = CoordinatorHarness(version=1).begin()
        harness.send(b"row")
        harness.add()
        if lost:
            harness.lose(1)
            harness.advance(200)
        harness.ack(harness.produces()[0])
        harness.call(Event.COMMIT)
        harness.end()
        assert harness.state is state


@BOTH
def test_the_doubt_about_an_end_is_over_with_its_transaction(version: int) -> None:
    """An EndTxn was lost, and its retry answered. With version 1 the next transaction has the same epoch. When its only EndTxn is refused,
    the error says that it is not committed, and not that the outcome is unknown."""
    harness = wrote(version)
    harness.call(Event.COMMIT)
    harness.lose(1)
    harness.advance(200)
    harness.end()
    if version < 2:
        harness.identify(epoch=1)
    for code in (0, ErrorCode.PRODUCER_FENCED):
        harness.begin()
        harness.send(b"next")
        if version < 2:
            harness.add()
        harness.ack(harness.produces()[0])
        commit = harness.call(Event.COMMIT)
        harness.end(code)
        assert harness.state is (State.DEAD if code else State.READY)
    assert isinstance(commit.outcome.exception(0), Fenced)


@BOTH
def test_a_doubtful_answer_to_an_end_is_over_with_its_transaction(version: int) -> None:
    """The coordinator could not write an EndTxn in time, and then could. When the only EndTxn of the next transaction is refused, the error
    says that it is not committed, and not that the outcome is unknown."""
    harness = wrote(version)
    harness.call(Event.COMMIT)
    harness.end(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    harness.advance(200)
    harness.end()
    harness.begin()
    harness.send(b"next")
    if version < 2:
        harness.add()
    harness.ack(harness.produces()[0], offset=1)
    commit = harness.call(Event.COMMIT)
    harness.end(ErrorCode.PRODUCER_FENCED)
    assert isinstance(commit.outcome.exception(0), Fenced)


def test_a_version_1_commit_that_was_sent_twice_cannot_end_the_next_transaction() -> None:
    """An EndTxn whose reply was lost may still be under way when the retry is answered: the epoch is replaced before anything new begins,
    so that it is refused then."""
    harness = wrote(1)
    commit = harness.call(Event.COMMIT)
    harness.lose(1)
    harness.advance(200)
    harness.end()
    assert commit.outcome.result(0) == 0
    assert harness.state is State.RENEWING
    harness.identify(epoch=1)
    harness.begin()
    assert harness.manager.identity == (PID, 1)


def test_a_cluster_that_goes_over_to_version_2() -> None:
    """The transaction ends as it began; then the epoch is renewed and the next one is of version 2."""
    harness = wrote(1)
    harness.core.nodes.features = Features(2, {FEATURE: 2})
    harness.call(Event.COMMIT)
    assert harness.asked(Api.END_TXN).command.version == 4
    harness.end()
    harness.identify(epoch=1)
    harness.begin()
    harness.send(b"next")
    assert harness.produces()[0].command.version >= 12


def test_the_coordinator_gives_another_producer_id() -> None:
    """At the end of the epochs an EndTxn answers with a new producer id, which the next transaction has."""
    harness = wrote(2)
    harness.call(Event.COMMIT)
    harness.end(epoch=0)
    assert harness.manager.identity == (PID, 0)
    harness.begin()
    assert harness.state is State.OPEN


def test_the_coordinator_gives_the_producer_id_0() -> None:
    """The first one of a cluster is an id as any other is: the next transaction has it, with the epoch that came along."""
    harness = wrote(2)
    harness.call(Event.COMMIT)
    harness.reply(harness.asked(Api.END_TXN), EndTxnResponse(producer_id=0, producer_epoch=7))
    harness.begin()
    harness.send(b"next")
    assert harness.produces()[0].stamp == (0, 7, 0)


def test_a_producer_whose_transaction_must_be_aborted_waits_for_its_caller() -> None:
    """What the failure leads to is done at once, and then nothing is: the sender does not turn around and around until the abort."""
    harness = CoordinatorHarness().begin()
    harness.send(b"bad")
    harness.refuse(harness.produces()[0], ErrorCode.INVALID_RECORD)
    harness.advance(1)
    assert harness.state is State.SPOILED
    assert harness.core.next_wake_ms(harness.now) > harness.now + 1


def test_how_long_an_outcome_is_kept() -> None:
    """The producer keeps the outcomes of its last hundred transactions for later calls. Older ones take no memory."""
    harness = CoordinatorHarness()
    for _ in range(REMEMBERED + 1):
        harness.begin().call(Event.COMMIT).outcome.result(0)
    assert harness.call(Event.COMMIT, number=2).outcome.exception(0) is None
    assert isinstance(harness.call(Event.COMMIT, number=1).outcome.exception(0), IllegalCall)


def test_a_lost_reply_is_asked_for_again_until_the_deadline() -> None:
    """An EndTxn without a reply is sent again and again. At the deadline the outcome is unknown, and a later call learns it."""
    harness = wrote(2)
    commit = harness.call(Event.COMMIT, number=1, within_ms=1_000)
    for _ in range(3):
        assert harness.asked(Api.END_TXN).message.producer_epoch == 0
        harness.lose(1)
        harness.advance(200)
    harness.advance(1_000)
    assert isinstance(commit.outcome.exception(0), CommitOutcomeUnknown)
    assert isinstance(harness.call(Event.ABORT).outcome.exception(0), IllegalCall)
    again = harness.call(Event.COMMIT, number=1)
    harness.end()
    assert again.outcome.result(0) == 1


def test_the_outcome_is_kept_for_a_repeated_call() -> None:
    """A commit that was answered after its caller had left is told to the call that is made again; an abort then is refused."""
    harness = wrote(2)
    late = harness.call(Event.COMMIT, number=1, within_ms=10)
    harness.advance(20)
    assert isinstance(late.outcome.exception(0), CommitOutcomeUnknown)
    harness.end()
    assert harness.call(Event.COMMIT, number=1).outcome.result(0) == 1
    assert isinstance(harness.call(Event.ABORT, number=1).outcome.exception(0), IllegalCall)


def test_records_that_do_not_arrive() -> None:
    """A commit whose records are still on their way has decided nothing at its deadline: an abort is as good as another commit."""
    harness = CoordinatorHarness().begin()
    harness.send(b"row")
    commit = harness.call(Event.COMMIT, within_ms=50)
    harness.advance(60)
    assert isinstance(commit.outcome.exception(0), TransactionTimeout)
    abort = harness.call(Event.ABORT)
    harness.ack(harness.produces()[0])
    harness.end()
    assert abort.outcome.result(0) == 0


def test_a_commit_answered_as_fenced() -> None:
    """Refused at its first attempt it did not happen, and the producer is at its end."""
    harness = wrote(2)
    commit = harness.call(Event.COMMIT)
    harness.end(ErrorCode.PRODUCER_FENCED)
    assert isinstance(commit.outcome.exception(0), Fenced)
    assert harness.dead is not None
    assert isinstance(harness.call(Event.BEGIN).outcome.exception(0), Fenced)


def test_a_commit_answered_as_fenced_after_a_lost_reply() -> None:
    """The first attempt may have committed before another producer registered: the outcome is unknown."""
    harness = wrote(2)
    commit = harness.call(Event.COMMIT)
    harness.lose(1)
    harness.advance(200)
    harness.end(ErrorCode.PRODUCER_FENCED)
    assert isinstance(commit.outcome.exception(0), CommitOutcomeUnknown)


@BOTH
@pytest.mark.parametrize("lost", [True, False])
@pytest.mark.parametrize("code", [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_a_commit_that_must_be_aborted_after_one_that_may_have_been_written(version: int, lost: bool, code: ErrorCode) -> None:
    """The first attempt may have committed, so MustAbort would be a guess: `run` would write the records a second time."""
    harness = wrote(version)
    commit = harness.call(Event.COMMIT)
    if lost:
        harness.lose(1)
    else:
        harness.end(ErrorCode.REQUEST_TIMED_OUT)
    harness.advance(200)
    harness.end(code)
    assert isinstance(commit.outcome.exception(0), CommitOutcomeUnknown)


@BOTH
@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT])
def test_a_commit_answered_as_fenced_after_one_that_may_have_been_written(version: int, code: ErrorCode) -> None:
    """A coordinator that could not write the end in time, or lost its place meanwhile, may have it in its log, and the next one carries it
    out: whether the transaction is committed, Fenced does not say."""
    harness = wrote(version)
    commit = harness.call(Event.COMMIT)
    harness.end(code)
    harness.advance(200)
    harness.end(ErrorCode.PRODUCER_FENCED)
    assert isinstance(commit.outcome.exception(0), CommitOutcomeUnknown)


def test_a_commit_that_is_refused_with_no_one_knows_what() -> None:
    """A code that the table does not have says nothing about the commit's effect, and neither does the error."""
    harness = wrote(2)
    commit = harness.call(Event.COMMIT)
    harness.end(ErrorCode.INVALID_REQUEST)
    assert isinstance(commit.outcome.exception(0), CommitOutcomeUnknown)


def test_the_coordinator_aborted_by_its_timeout() -> None:
    """A commit that the coordinator has no transaction for is refused as one that must be aborted, and the abort brings the next epoch."""
    harness = wrote(2)
    commit = harness.call(Event.COMMIT)
    harness.end(ErrorCode.INVALID_TXN_STATE)
    assert isinstance(commit.outcome.exception(0), MustAbort)
    abort = harness.call(Event.ABORT)
    harness.end()
    assert abort.outcome.result(0) == 0
    assert harness.manager.identity == (PID, 1)


def test_an_abort_waits_for_what_is_on_its_way_and_for_nothing_else() -> None:
    """The batch in flight is answered before EndTxn is sent; the one behind it fails at once after."""
    harness = CoordinatorHarness(max_in_flight=1).begin()
    flying, queued = harness.send(b"flying", b"queued")
    harness.call(Event.ABORT)
    assert [flight.api for flight in harness.open] == [Api.PRODUCE]
    harness.ack(harness.produces()[0])
    assert flying.exception(0) is None
    assert isinstance(queued.exception(0), DeliveryAborted)
    harness.end()
    assert harness.state is State.READY


def test_a_partition_that_may_not_be_written() -> None:
    """Version 1: when the coordinator refuses a partition permanently, the transaction has to be aborted, and the record fails with this
    error."""
    harness = CoordinatorHarness(version=1).begin()
    (future,) = harness.send(b"row")
    harness.add(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert isinstance(future.exception(0), DeliveryAborted)
    assert isinstance(harness.call(Event.COMMIT).outcome.exception(0), MustAbort)
    harness.call(Event.ABORT)
    harness.end()
    assert harness.state is State.READY


@pytest.mark.parametrize("code", [ErrorCode.INVALID_TXN_STATE, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
@BOTH
def test_an_abort_of_what_the_coordinator_never_began(version: int, code: ErrorCode) -> None:
    """While the transaction before is being completed nothing can begin the next one, and an end of it is refused as if it were a zombie's:
    the abort is done, and a new epoch is asked for, which only a zombie is refused."""
    harness = wrote(version)
    harness.call(Event.COMMIT)
    harness.end()
    harness.begin()
    harness.send(b"put off")
    if version < 2:
        harness.add(ErrorCode.CONCURRENT_TRANSACTIONS)
    else:
        harness.refuse(harness.produces()[0], ErrorCode.CONCURRENT_TRANSACTIONS)
    abort = harness.call(Event.ABORT, number=2)
    harness.advance(1_000)
    harness.end(code)
    assert abort.outcome.result(0) == 2
    asked = harness.asked(Api.INIT_PRODUCER_ID).message
    assert (asked.producer_id, asked.producer_epoch) == harness.manager.identity
    begin = harness.call(Event.BEGIN)
    harness.identify(epoch=7)
    assert begin.outcome.result(0) == 3


def test_a_zombie_hears_so_from_its_abort() -> None:
    """Where something of the transaction was acknowledged, a fence is a fence."""
    harness = wrote(2)
    abort = harness.call(Event.ABORT)
    harness.end(ErrorCode.PRODUCER_FENCED)
    assert isinstance(abort.outcome.exception(0), Fenced)


def test_an_id_that_may_not_be_used() -> None:
    """The error names the permission."""
    harness = CoordinatorHarness()
    harness.learn()
    begin = harness.call(Event.BEGIN)
    harness.identify(code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    failure = begin.outcome.exception(0)
    assert isinstance(failure, NotPermitted)
    assert "WRITE on the transactional id" in str(failure)


def test_the_coordinator_moves() -> None:
    """NOT_COORDINATOR, and a connection that cannot be made, lead to another FindCoordinator."""
    harness = wrote(2)
    harness.call(Event.COMMIT)
    harness.auto = {Api.METADATA}
    harness.end(ErrorCode.NOT_COORDINATOR)
    harness.advance(20)
    harness.reply(harness.asked(Api.FIND_COORDINATOR), harness.answer_to(harness.asked(Api.FIND_COORDINATOR).command))
    harness.end()
    assert harness.state is State.READY


def test_the_coordinator_moves_after_an_outage() -> None:
    """A coordinator was away for a minute, came back, and is now gone permanently. The producer looks for the new one after the first
    failure, not after as many as the outage had. Otherwise the transaction would run out of time."""
    harness = CoordinatorHarness(version=2)
    harness.leaders = {0: (2, 0)}
    harness.begin()
    harness.send(b"row")
    harness.ack(harness.produces()[0])
    harness.call(Event.COMMIT, within_ms=600_000.0)
    harness.down = {1}
    harness.lose(1)
    harness.advance(60_000)
    harness.down = set()
    harness.advance(2_000)
    harness.end()
    harness.begin()
    harness.send(b"next")
    harness.ack(harness.produces()[0], offset=1)
    harness.call(Event.COMMIT)
    harness.auto = {Api.METADATA}
    harness.down = {1}
    harness.lose(1)
    harness.advance(1_000)
    assert harness.asked(Api.FIND_COORDINATOR).node != 1


def test_an_answer_that_leaves_a_partition_out() -> None:
    """Version 1: a coordinator that says nothing of the partition is asked again, after a backoff."""
    harness = CoordinatorHarness(version=1, retry_backoff_ms=100.0, retry_backoff_max_ms=100.0).begin()
    harness.send(b"row")
    harness.reply(harness.asked(Api.ADD_PARTITIONS_TO_TXN), AddPartitionsToTxnResponse())
    assert harness.silent()
    harness.advance(130)
    harness.add()
    assert harness.produces()[0].values == [b"row"]


def test_two_commits_of_one_transaction() -> None:
    """Both calls hear of the one outcome, and so does a third one that comes when the next transaction is open, which it does not touch."""
    harness = wrote(2)
    first, second = harness.call(Event.COMMIT, number=1), harness.call(Event.COMMIT, number=1)
    harness.end()
    assert first.outcome.result(0) == second.outcome.result(0) == 1
    harness.begin()
    assert harness.call(Event.COMMIT, number=1).outcome.exception(0) is None
    assert isinstance(harness.call(Event.ABORT, number=1).outcome.exception(0), IllegalCall)
    assert harness.state is State.OPEN


def test_a_begin_after_its_deadline_opens_nothing() -> None:
    """At its deadline a begin is over, and what comes later finds no transaction open."""
    harness = CoordinatorHarness()
    harness.learn()
    begin = harness.call(Event.BEGIN, within_ms=50)
    harness.advance(60)
    assert isinstance(begin.outcome.exception(0), TransactionTimeout)
    harness.identify()
    assert harness.state is State.READY


def test_a_begin_that_opened_a_transaction_returns_it() -> None:
    """A caller may cancel its `begin` while the coordinator is asked, and then nothing begins. Once the transaction begins, the call cannot
    be cancelled any more, and its caller is told. So no transaction is open without its caller."""
    harness = CoordinatorHarness()
    harness.learn()
    early = harness.call(Event.BEGIN)
    assert early.outcome.cancel()
    harness.identify()
    states = [harness.state]
    begin = Call(Event.BEGIN, deadline_ms=harness.now + CALL_MS)
    (told,) = harness.manager.called(begin, harness.now)
    assert [*states, harness.state] == [State.READY, State.OPEN]
    assert not begin.outcome.cancel()
    assert isinstance(told, Return)
    told.call.finish(told.error)
    assert begin.outcome.result(0) == 1


@pytest.mark.parametrize(
    ("version", "offered", "used"),
    [
        (1, (0, 3), 3),
        (1, (3, 11), 11),
        (1, (3, 12), 11),
        (1, (12, 13), None),
        (2, (3, 11), None),
        (2, (3, 12), 12),
        (2, (13, 15), 13),
    ],
)
def test_produce_in_the_version_of_the_transaction(
    version: int, offered: tuple[int, int], used: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The highest that the broker offers of those that fit the transaction's version: up to 11 a leader takes what was added by hand, from
    12 on it adds it. Where there is none, the record is not sent, and the producer says so."""
    monkeypatch.setitem(VERSIONS, Api.PRODUCE, offered)
    harness = CoordinatorHarness(version=version).begin()
    harness.send(b"row")
    if version < 2:
        harness.add()
    assert [flight.command.version for flight in harness.produces()] == ([used] if used is not None else [])
    assert (harness.dead is None) == (used is not None)


OLDEST = dict.fromkeys((Api.INIT_PRODUCER_ID, Api.ADD_PARTITIONS_TO_TXN, Api.ADD_OFFSETS_TO_TXN, Api.TXN_OFFSET_COMMIT, Api.END_TXN), 0)
NEWEST = {
    1: {Api.INIT_PRODUCER_ID: 5, Api.ADD_PARTITIONS_TO_TXN: 3, Api.ADD_OFFSETS_TO_TXN: 4, Api.TXN_OFFSET_COMMIT: 4, Api.END_TXN: 4},
    2: {Api.INIT_PRODUCER_ID: 5, Api.TXN_OFFSET_COMMIT: 5, Api.END_TXN: 5},
}


@pytest.mark.parametrize(("version", "most", "used"), [(1, 0, OLDEST), (1, 99, NEWEST[1]), (2, 99, NEWEST[2])])
def test_the_versions_of_requests(version: int, most: int, used: dict[Api, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """From the registration to the end a broker is asked in the newest version that it has of each request, as far as that belongs to the
    transaction's version and means what is meant; one that has nothing but the oldest is asked in that."""
    for api in OLDEST:
        monkeypatch.setitem(VERSIONS, api, (0, most))
    harness = wrote(version)
    given = (GroupMetadata("g"), {("t", 0): OffsetAndMetadata(5)})
    taken = Call(Event.SEND_OFFSETS, deadline_ms=harness.now + CALL_MS, offsets=given)
    harness.happen(Called(taken))
    if version < 2:
        harness.add_group()
    harness.take_offsets()
    assert taken.outcome.exception(0) is None
    commit = harness.call(Event.COMMIT)
    harness.end()
    assert commit.outcome.exception(0) is None
    assert {flight.api: flight.command.version for flight in harness.answered if flight.api in OLDEST} == used


@pytest.mark.parametrize(("newest", "key", "keys"), [(1, "tx", []), (3, "tx", []), (4, "", ["tx"]), (6, "", ["tx"])])
def test_older_brokers_look_up_one_key(newest: int, key: str, keys: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """FindCoordinator has a list of keys from version 4 on (KIP-699), and one key before."""
    monkeypatch.setitem(VERSIONS, Api.FIND_COORDINATOR, (0, newest))
    harness = CoordinatorHarness()
    harness.auto.discard(Api.FIND_COORDINATOR)
    harness.call(Event.INIT)
    flight = harness.asked(Api.FIND_COORDINATOR)
    assert (flight.command.version, flight.message.key, flight.message.coordinator_keys) == (min(newest, 4), key, keys)


@pytest.mark.parametrize("least", [True, False])
@pytest.mark.parametrize("api", [Api.INIT_PRODUCER_ID, Api.TXN_OFFSET_COMMIT])
def test_what_older_versions_cannot_say(api: Api, least: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only version 3 and newer can name the identity to renew and the member of the offsets. A broker with older versions could not fence a
    producer, so the producer ends, and the error says what it needs."""
    monkeypatch.setitem(VERSIONS, api, (0, 3 if least else 2))
    harness = CoordinatorHarness(version=1).begin()
    harness.send(b"bad")
    harness.add()
    if api is Api.INIT_PRODUCER_ID:
        harness.refuse(harness.produces()[0], ErrorCode.INVALID_RECORD)
        harness.call(Event.ABORT)
        harness.end()
    else:
        harness.send_offsets(5)
        harness.add_group()
    assert [flight.command.version for flight in harness.open if flight.api is api] == ([3] if least else [])
    assert least is (harness.dead is None)
    assert harness.dead is None or "offers none of the versions 3 to" in str(harness.dead.error)
