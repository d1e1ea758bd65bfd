"""Offsets in a transaction, one response at a time: which requests go to which broker, when, and what callers are told."""

from __future__ import annotations

import pytest

from fencepost.producer.errors import Fenced
from fencepost.producer.wire import Api, ErrorCode, FindCoordinatorResponse
from fencepost.producer.wire.messages.find_coordinator import Coordinator
from fencepost.txn.coordinator.rerun_policy import worth_another
from fencepost.txn.coordinator.state_machine import Event, State
from fencepost.txn.errors import IllegalCall, MustAbort, NotPermitted, TransactionTimeout
from tests.txn.coordinator.harness import CoordinatorHarness

BOTH = pytest.mark.parametrize("version", [1, 2])


def waiting(version: int = 2, *offsets: int) -> CoordinatorHarness:
    """A transaction with a TxnOffsetCommit on its way."""
    harness = CoordinatorHarness(version=version).begin()
    harness.send_offsets(*offsets or (5,))
    if version < 2:
        assert harness.add_group() == "g"
    return harness


def test_version_2_asks_only_the_groups_coordinator() -> None:
    """TxnOffsetCommit 5 names the member, its generation and the offsets. No other request is needed, and the call ends with the
    response."""
    harness = CoordinatorHarness().begin()
    call = harness.send_offsets(5, 7)
    flight = harness.asked(Api.TXN_OFFSET_COMMIT)
    asked = flight.message
    assert flight.command.version == 5
    assert (asked.group_id, asked.generation_id, asked.member_id, asked.group_instance_id) == ("g", 1, "member", None)
    assert not call.outcome.done()
    assert harness.take_offsets() == [5, 7]
    assert call.outcome.result(0) == 0


def test_version_1_adds_the_group_first_and_once() -> None:
    """AddOffsetsToTxn goes to the transaction's coordinator, once for a group and transaction, and TxnOffsetCommit waits for it."""
    harness = CoordinatorHarness(version=1).begin()
    call = harness.send_offsets(5)
    assert [flight.api for flight in harness.open] == [Api.ADD_OFFSETS_TO_TXN]
    harness.add_group(ErrorCode.CONCURRENT_TRANSACTIONS)
    harness.advance(30)
    harness.add_group()
    assert harness.asked(Api.TXN_OFFSET_COMMIT).command.version == 4
    harness.take_offsets()
    assert call.outcome.done()
    harness.send_offsets(6)
    harness.take_offsets()
    harness.call(Event.COMMIT)
    harness.end()
    harness.begin().send_offsets(7)
    harness.add_group()


@BOTH
def test_offsets_alone_are_a_transaction(version: int) -> None:
    """Nothing was sent but offsets, and the transaction is ended with the coordinator."""
    harness = waiting(version)
    harness.take_offsets()
    commit = harness.call(Event.COMMIT)
    assert harness.asked(Api.END_TXN).message.committed
    harness.end()
    assert commit.outcome.result(0) == 0


@BOTH
def test_offsets_that_were_never_answered_are_a_transaction(version: int) -> None:
    """What was asked may have been done: the abort is the coordinators', too, and is sent when nothing can come after it."""
    harness = waiting(version)
    harness.call(Event.ABORT)
    assert [flight.api for flight in harness.open] == [Api.TXN_OFFSET_COMMIT]
    harness.take_offsets()
    assert not harness.asked(Api.END_TXN).message.committed


def test_a_commit_waits_for_offsets() -> None:
    """EndTxn is not sent before they are taken, also where the call that brought them has given up waiting."""
    harness = CoordinatorHarness().begin()
    call = harness.send_offsets(5, within_ms=20)
    harness.advance(30)
    assert isinstance(call.outcome.exception(0), TransactionTimeout)
    commit = harness.call(Event.COMMIT)
    assert [flight.api for flight in harness.open] == [Api.TXN_OFFSET_COMMIT]
    harness.take_offsets()
    harness.end()
    assert commit.outcome.result(0) == 0


def test_a_call_that_is_made_again() -> None:
    """After its deadline the call can be made again, with the same offsets or newer ones: the newest are what counts."""
    harness = CoordinatorHarness().begin()
    harness.send_offsets(5, 50, within_ms=20)
    harness.advance(30)
    again = harness.send_offsets(6)
    assert harness.take_offsets() == [5, 50]
    assert not again.outcome.done()
    assert harness.take_offsets() == [6]
    assert again.outcome.result(0) == 0


@BOTH
def test_offsets_that_could_be_overtaken(version: int) -> None:
    """A request with a lost response may arrive at any time while the transaction is open, because it has no sequence. If it arrived after
    newer offsets, it would put the group back, and a commit would confirm this. So the producer refuses newer offsets after it, and accepts
    the same offsets."""
    for newer, later in ((False, 5), (True, 6)):
        harness = waiting(version, 5)
        harness.lose(1)
        harness.advance(200)
        harness.take_offsets()
        again = harness.send_offsets(later)
        if newer:
            failure = again.outcome.exception(0)
            assert isinstance(failure, MustAbort)
            assert worth_another(failure)
            assert harness.state is State.SPOILED
        else:
            harness.take_offsets()
            assert again.outcome.result(0) == 0


@BOTH
def test_offsets_of_an_earlier_transaction_overtake_nothing(version: int) -> None:
    """A request that was lost in one transaction is refused in the next, which has another epoch. So newer offsets are accepted there."""
    harness = waiting(version, 5)
    harness.lose(1)
    harness.advance(200)
    harness.take_offsets()
    harness.call(Event.COMMIT)
    harness.end()
    if version < 2:
        harness.identify(epoch=1)
    harness.begin()
    again = harness.send_offsets(6)
    if version < 2:
        harness.add_group()
    assert harness.take_offsets() == [6]
    assert again.outcome.exception(0) is None


def test_newer_offsets_while_the_older_ones_are_lost() -> None:
    """Newer offsets were given while a request with older ones was under way. If that request is lost, the newer ones are refused, because
    the older ones could arrive after them."""
    harness = waiting(2, 5)
    again = harness.send_offsets(6)
    harness.lose(1)
    harness.advance(1)
    assert isinstance(again.outcome.exception(0), MustAbort)


def test_only_what_was_not_taken_is_asked_again() -> None:
    """A partition whose offset was taken is done with, and the rest is asked again after a while."""
    harness = waiting(2, 5, 6, 7)
    harness.take_offsets(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
    assert harness.silent()
    harness.advance(20)
    assert harness.take_offsets() == [6]


def test_an_answer_that_leaves_a_partition_out() -> None:
    """It is asked again, and the call does not end."""
    harness = CoordinatorHarness().begin()
    call = harness.send_offsets(5, 6)
    harness.take_offsets(0)
    harness.advance(20)
    assert not call.outcome.done()
    assert harness.take_offsets() == [6]
    assert call.outcome.done()


def test_two_groups_in_one_transaction() -> None:
    """Each has its own coordinator, and neither waits for the other."""
    harness = CoordinatorHarness().begin()
    first, second = harness.send_offsets(5), harness.send_offsets(6, group="h")
    one, other = [flight for flight in harness.open if flight.api is Api.TXN_OFFSET_COMMIT]
    assert [one.message.group_id, other.message.group_id] == ["g", "h"]
    harness.open.remove(one)
    harness.take_offsets()
    assert second.outcome.done()
    assert not first.outcome.done()
    harness.open.append(one)
    harness.take_offsets()
    assert first.outcome.done()


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT])
def test_the_groups_coordinator_is_looked_up_again(code: ErrorCode) -> None:
    """These say that it may be somewhere else; the transaction's is not asked about."""
    harness = waiting()
    harness.auto.discard(Api.FIND_COORDINATOR)
    harness.take_offsets(code)
    harness.advance(20)
    flight = harness.asked(Api.FIND_COORDINATOR)
    assert (flight.message.key_type, flight.message.coordinator_keys) == (0, ["g"])
    harness.reply(flight, harness.answer_to(flight.command))
    assert harness.take_offsets() == [5]


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNSTABLE_OFFSET_COMMIT]
)
def test_what_passes_is_waited_for(code: ErrorCode) -> None:
    """After a code that Kafka calls retriable the request goes to its coordinator again."""
    harness = waiting()
    harness.auto.discard(Api.FIND_COORDINATOR)
    harness.take_offsets(code)
    harness.advance(30)
    assert harness.take_offsets() == [5]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_ABORTABLE,
    ],
)
@BOTH
def test_what_spoils_the_transaction(version: int, code: ErrorCode) -> None:
    """The call says so with the code, so does every further one and a commit; after an abort the producer goes on."""
    harness = CoordinatorHarness(version=version).begin()
    call = harness.send_offsets(5)
    if version < 2:
        harness.add_group()
    harness.take_offsets(code)
    failure = call.outcome.exception(0)
    assert isinstance(failure, MustAbort)
    assert failure.code == code
    assert code.name in str(failure)
    for event in (Event.SEND_OFFSETS, Event.COMMIT):
        assert isinstance(harness.call(event).outcome.exception(0), MustAbort)
    harness.call(Event.ABORT)
    harness.end()
    assert harness.state in (State.READY, State.RENEWING)


@pytest.mark.parametrize(
    ("code", "kind"), [(ErrorCode.PRODUCER_FENCED, Fenced), (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NotPermitted)]
)
def test_what_ends_the_producer(code: ErrorCode, kind: type[Exception]) -> None:
    """As with every other request of a transaction."""
    harness = CoordinatorHarness().begin()
    call = harness.send_offsets(5)
    harness.take_offsets(code)
    assert isinstance(call.outcome.exception(0), kind)
    assert harness.dead is not None


@pytest.mark.parametrize("code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_a_group_that_cannot_be_added(code: ErrorCode) -> None:
    """Version 1: the transaction is spoilt before any offset was sent."""
    harness = CoordinatorHarness(version=1).begin()
    call = harness.send_offsets(5)
    harness.add_group(code)
    assert isinstance(call.outcome.exception(0), MustAbort)
    harness.call(Event.ABORT)
    assert not harness.asked(Api.END_TXN).message.committed


@pytest.mark.parametrize("code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.NONE])
def test_a_group_whose_coordinator_is_found_too_late(code: ErrorCode) -> None:
    """What is said of a group after its transaction was given up harms neither the producer nor the next transaction."""
    harness = CoordinatorHarness().begin()
    harness.auto.discard(Api.FIND_COORDINATOR)
    harness.send_offsets(5)
    asked = harness.asked(Api.FIND_COORDINATOR)
    harness.call(Event.ABORT)
    harness.begin().send(b"row")
    harness.reply(asked, FindCoordinatorResponse(coordinators=[Coordinator(key="g", error_code=int(code), node_id=1, host="b", port=1)]))
    harness.ack(harness.produces()[0])
    assert harness.state is State.OPEN
    assert harness.silent()


def test_a_group_whose_coordinator_may_not_be_known() -> None:
    """While it is wanted, a group that this client may not even look for spoils the transaction, and nothing was written: no EndTxn."""
    harness = CoordinatorHarness().begin()
    harness.auto.discard(Api.FIND_COORDINATOR)
    call = harness.send_offsets(5)
    refused = Coordinator(key="g", error_code=int(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    harness.reply(harness.asked(Api.FIND_COORDINATOR), FindCoordinatorResponse(coordinators=[refused]))
    assert "READ on the consumer group" in str(call.outcome.exception(0))
    harness.call(Event.ABORT)
    assert harness.silent()
    assert harness.state is State.READY


def test_a_record_that_fails_takes_the_offsets_with_it() -> None:
    """Offsets that wait are not sent any more, and their call hears of the record."""
    harness = CoordinatorHarness().begin()
    harness.send(b"bad")
    call = harness.send_offsets(5)
    harness.refuse(harness.produces()[0], ErrorCode.INVALID_RECORD)
    failure = call.outcome.exception(0)
    assert isinstance(failure, MustAbort)
    assert failure.code == ErrorCode.INVALID_RECORD
    harness.take_offsets()
    harness.call(Event.ABORT)
    harness.end()
    assert harness.state is State.READY


@BOTH
def test_a_lost_connection(version: int) -> None:
    """The offsets are sent again. With version 1 a request that may still be under way must not count in the next transaction, so the epoch
    is renewed first."""
    harness = waiting(version)
    harness.lose(1)
    harness.advance(200)
    assert harness.take_offsets() == [5]
    harness.call(Event.COMMIT)
    harness.end()
    assert harness.state is (State.RENEWING if version < 2 else State.READY)


def test_an_abort_ends_a_waiting_send_offsets() -> None:
    """The call is told that it is over, and its offsets are not sent in the next transaction."""
    harness = CoordinatorHarness(version=1).begin()
    call = harness.send_offsets(5)
    harness.call(Event.ABORT)
    assert isinstance(call.outcome.exception(0), MustAbort)
    harness.add_group()
    harness.end()
    harness.begin()
    assert harness.silent()


def test_offsets_of_another_transaction_or_of_none() -> None:
    """A call for a transaction that is over, for none, or after its end was asked for, is refused with the calls that fit."""
    harness = CoordinatorHarness()
    harness.learn()
    assert isinstance(harness.send_offsets(5).outcome.exception(0), IllegalCall)
    harness.begin()
    harness.call(Event.COMMIT)
    harness.begin()
    assert isinstance(harness.send_offsets(5, number=1).outcome.exception(0), IllegalCall)
    harness.send(b"row")
    harness.call(Event.COMMIT)
    refused = harness.send_offsets(5).outcome.exception(0)
    assert "what can be called now: commit, abort" in str(refused)


@pytest.mark.parametrize("code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.GROUP_AUTHORIZATION_FAILED])
def test_run_does_not_repeat_what_the_group_refuses(code: ErrorCode) -> None:
    """The group would refuse a member's offsets again, so `run` does not repeat the work. It does if the coordinator asked for the
    abort."""
    assert not worth_another(MustAbort("x", code=code))
    assert worth_another(MustAbort("x", code=ErrorCode.TRANSACTION_ABORTABLE))


def test_connections_of_groups_do_not_pile_up() -> None:
    """Only the last transaction's groups keep their coordinators, and a group whose request has no response yet."""
    harness = CoordinatorHarness().begin()
    groups = [f"g{number}" for number in range(20)]
    commits = harness.manager._contents.commits
    for group in groups:
        harness.send_offsets(5, group=group)
        harness.take_offsets()
        harness.call(Event.COMMIT)
        harness.end()
        harness.begin()
        assert set(commits._connections) == {group}
    harness.send_offsets(5, group="late")
    for _ in range(2):
        commits.clear()
    assert set(commits._connections) == {"late"}
    harness.lose(1)
    for _ in range(2):
        commits.clear()
    assert not commits._connections
