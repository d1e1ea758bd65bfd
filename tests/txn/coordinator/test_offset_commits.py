"""Offsets in a transaction, one answer at a time: what is asked of whom, when, and what its callers are told."""

from __future__ import annotations

import pytest

from fencepost.producer.errors import Fenced
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.messages import FindCoordinatorResponse
from fencepost.producer.wire.messages.coordinator import Coordinator
from fencepost.txn.coordinator.retry_policy import worth_another
from fencepost.txn.coordinator.state_machine import Event, IllegalCall, State
from fencepost.txn.errors import MustAbort, NotPermitted, TransactionTimeout
from tests.txn.coordinator.harness import Counter

BOTH = pytest.mark.parametrize("version", [1, 2])


def waiting(version: int = 2, *offsets: int) -> Counter:
    """A transaction with a TxnOffsetCommit on its way."""
    counter = Counter(version=version).begin()
    counter.send_offsets(*offsets or (5,))
    if version < 2:
        assert counter.add_group() == "g"
    return counter


def test_version_2_asks_the_groups_coordinator_and_nobody_else() -> None:
    """TxnOffsetCommit 5 says all there is to say: who, in which generation, and how far; the call ends with its answer."""
    counter = Counter().begin()
    call = counter.send_offsets(5, 7)
    flight = counter.asked(Api.TXN_OFFSET_COMMIT)
    asked = flight.message
    assert flight.command.version == 5
    assert (asked.group_id, asked.generation_id, asked.member_id, asked.group_instance_id) == ("g", 1, "member", None)
    assert not call.outcome.done()
    assert counter.take_offsets() == [5, 7]
    assert call.outcome.result(0) == 0


def test_version_1_adds_the_group_first_and_once() -> None:
    """AddOffsetsToTxn goes to the transaction's coordinator, once for a group and transaction, and TxnOffsetCommit waits for it."""
    counter = Counter(version=1).begin()
    call = counter.send_offsets(5)
    assert [flight.api for flight in counter.open] == [Api.ADD_OFFSETS_TO_TXN]
    counter.add_group(ErrorCode.CONCURRENT_TRANSACTIONS)
    counter.advance(30)
    counter.add_group()
    assert counter.asked(Api.TXN_OFFSET_COMMIT).command.version == 4
    counter.take_offsets()
    assert call.outcome.done()
    counter.send_offsets(6)
    counter.take_offsets()
    counter.call(Event.COMMIT)
    counter.end()
    counter.begin().send_offsets(7)
    counter.add_group()


@BOTH
def test_offsets_alone_are_a_transaction(version: int) -> None:
    """Nothing was sent but offsets, and the transaction is ended with the coordinator."""
    counter = waiting(version)
    counter.take_offsets()
    commit = counter.call(Event.COMMIT)
    assert counter.asked(Api.END_TXN).message.committed
    counter.end()
    assert commit.outcome.result(0) == 0


@BOTH
def test_offsets_that_were_never_answered_are_a_transaction(version: int) -> None:
    """What was asked may have been done: the abort is the coordinators', too, and is sent when nothing can come after it."""
    counter = waiting(version)
    counter.call(Event.ABORT)
    assert [flight.api for flight in counter.open] == [Api.TXN_OFFSET_COMMIT]
    counter.take_offsets()
    assert not counter.asked(Api.END_TXN).message.committed


def test_a_commit_waits_for_offsets() -> None:
    """EndTxn is not sent before they are taken, also where the call that brought them has given up waiting."""
    counter = Counter().begin()
    call = counter.send_offsets(5, within_ms=20)
    counter.advance(30)
    assert isinstance(call.outcome.exception(0), TransactionTimeout)
    commit = counter.call(Event.COMMIT)
    assert [flight.api for flight in counter.open] == [Api.TXN_OFFSET_COMMIT]
    counter.take_offsets()
    counter.end()
    assert commit.outcome.result(0) == 0


def test_a_call_that_is_made_again() -> None:
    """After its deadline the call can be made again, with the same offsets or newer ones: the newest are what counts."""
    counter = Counter().begin()
    counter.send_offsets(5, 50, within_ms=20)
    counter.advance(30)
    again = counter.send_offsets(6)
    assert counter.take_offsets() == [5, 50]
    assert not again.outcome.done()
    assert counter.take_offsets() == [6]
    assert again.outcome.result(0) == 0


@BOTH
def test_offsets_that_could_be_overtaken(version: int) -> None:
    """A request whose answer was lost may come at any time while the transaction is open, and nothing numbers it: after newer offsets it
    would put the group back, and a commit would tell otherwise. So newer ones after it are refused; the same ones need not be."""
    for newer, later in ((False, 5), (True, 6)):
        counter = waiting(version, 5)
        counter.lose(1)
        counter.advance(200)
        counter.take_offsets()
        again = counter.send_offsets(later)
        if newer:
            failure = again.outcome.exception(0)
            assert isinstance(failure, MustAbort)
            assert worth_another(failure)
            assert counter.state is State.SPOILED
        else:
            counter.take_offsets()
            assert again.outcome.result(0) == 0


@BOTH
def test_offsets_of_an_earlier_transaction_overtake_nothing(version: int) -> None:
    """What was lost in one transaction is refused in the next, whose epoch is another: newer offsets are taken there."""
    counter = waiting(version, 5)
    counter.lose(1)
    counter.advance(200)
    counter.take_offsets()
    counter.call(Event.COMMIT)
    counter.end()
    if version < 2:
        counter.identify(epoch=1)
    counter.begin()
    again = counter.send_offsets(6)
    if version < 2:
        counter.add_group()
    assert counter.take_offsets() == [6]
    assert again.outcome.exception(0) is None


def test_newer_offsets_while_the_older_ones_are_lost() -> None:
    """The same where the newer ones were given before the older request was lost."""
    counter = waiting(2, 5)
    again = counter.send_offsets(6)
    counter.lose(1)
    counter.advance(1)
    assert isinstance(again.outcome.exception(0), MustAbort)


def test_only_what_was_not_taken_is_asked_again() -> None:
    """A partition whose offset was taken is done with, and the rest is asked again after a while."""
    counter = waiting(2, 5, 6, 7)
    counter.take_offsets(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
    assert counter.silent()
    counter.advance(20)
    assert counter.take_offsets() == [6]


def test_an_answer_that_leaves_a_partition_out() -> None:
    """It is asked again, and the call does not end."""
    counter = Counter().begin()
    call = counter.send_offsets(5, 6)
    counter.take_offsets(0)
    counter.advance(20)
    assert not call.outcome.done()
    assert counter.take_offsets() == [6]
    assert call.outcome.done()


def test_two_groups_in_one_transaction() -> None:
    """Each has its own coordinator, and neither waits for the other."""
    counter = Counter().begin()
    first, second = counter.send_offsets(5), counter.send_offsets(6, group="h")
    one, other = [flight for flight in counter.open if flight.api is Api.TXN_OFFSET_COMMIT]
    assert [one.message.group_id, other.message.group_id] == ["g", "h"]
    counter.open.remove(one)
    counter.take_offsets()
    assert second.outcome.done()
    assert not first.outcome.done()
    counter.open.append(one)
    counter.take_offsets()
    assert first.outcome.done()


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT])
def test_the_groups_coordinator_is_looked_up_again(code: ErrorCode) -> None:
    """These say that it may be somewhere else; the transaction's is not asked about."""
    counter = waiting()
    counter.auto.discard(Api.FIND_COORDINATOR)
    counter.take_offsets(code)
    counter.advance(20)
    flight = counter.asked(Api.FIND_COORDINATOR)
    assert (flight.message.key_type, flight.message.coordinator_keys) == (0, ["g"])
    counter.reply(flight, counter.answer_to(flight.command))
    assert counter.take_offsets() == [5]


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNSTABLE_OFFSET_COMMIT]
)
def test_what_passes_is_waited_for(code: ErrorCode) -> None:
    """The same request goes to the same coordinator again; so with every code that Kafka calls retriable."""
    counter = waiting()
    counter.auto.discard(Api.FIND_COORDINATOR)
    counter.take_offsets(code)
    counter.advance(30)
    assert counter.take_offsets() == [5]


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
    counter = Counter(version=version).begin()
    call = counter.send_offsets(5)
    if version < 2:
        counter.add_group()
    counter.take_offsets(code)
    failure = call.outcome.exception(0)
    assert isinstance(failure, MustAbort)
    assert failure.code == code
    assert code.name in str(failure)
    for event in (Event.SEND_OFFSETS, Event.COMMIT):
        assert isinstance(counter.call(event).outcome.exception(0), MustAbort)
    counter.call(Event.ABORT)
    counter.end()
    assert counter.state in (State.READY, State.RENEWING)


@pytest.mark.parametrize(
    ("code", "kind"), [(ErrorCode.PRODUCER_FENCED, Fenced), (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NotPermitted)]
)
def test_what_ends_the_producer(code: ErrorCode, kind: type[Exception]) -> None:
    """As with every other request of a transaction."""
    counter = Counter().begin()
    call = counter.send_offsets(5)
    counter.take_offsets(code)
    assert isinstance(call.outcome.exception(0), kind)
    assert counter.dead is not None


@pytest.mark.parametrize("code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_a_group_that_cannot_be_added(code: ErrorCode) -> None:
    """Version 1: the transaction is spoilt before any offset was sent."""
    counter = Counter(version=1).begin()
    call = counter.send_offsets(5)
    counter.add_group(code)
    assert isinstance(call.outcome.exception(0), MustAbort)
    counter.call(Event.ABORT)
    assert not counter.asked(Api.END_TXN).message.committed


@pytest.mark.parametrize("code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.NONE])
def test_a_group_whose_coordinator_is_found_too_late(code: ErrorCode) -> None:
    """What is said of a group after its transaction was given up harms neither the producer nor the next transaction."""
    counter = Counter().begin()
    counter.auto.discard(Api.FIND_COORDINATOR)
    counter.send_offsets(5)
    asked = counter.asked(Api.FIND_COORDINATOR)
    counter.call(Event.ABORT)
    counter.begin().send(b"row")
    counter.reply(asked, FindCoordinatorResponse(coordinators=[Coordinator(key="g", error_code=int(code), node_id=1, host="b", port=1)]))
    counter.ack(counter.produces()[0])
    assert counter.state is State.OPEN
    assert counter.silent()


def test_a_group_whose_coordinator_may_not_be_known() -> None:
    """While it is wanted, a group that this client may not even look for spoils the transaction, and nothing was written: no EndTxn."""
    counter = Counter().begin()
    counter.auto.discard(Api.FIND_COORDINATOR)
    call = counter.send_offsets(5)
    refused = Coordinator(key="g", error_code=int(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    counter.reply(counter.asked(Api.FIND_COORDINATOR), FindCoordinatorResponse(coordinators=[refused]))
    assert "READ on the consumer group" in str(call.outcome.exception(0))
    counter.call(Event.ABORT)
    assert counter.silent()
    assert counter.state is State.READY


def test_a_record_that_fails_takes_the_offsets_with_it() -> None:
    """Offsets that wait are not sent any more, and their call hears of the record."""
    counter = Counter().begin()
    counter.send(b"bad")
    call = counter.send_offsets(5)
    counter.refuse(counter.produces()[0], ErrorCode.INVALID_RECORD)
    failure = call.outcome.exception(0)
    assert isinstance(failure, MustAbort)
    assert failure.code == ErrorCode.INVALID_RECORD
    counter.take_offsets()
    counter.call(Event.ABORT)
    counter.end()
    assert counter.state is State.READY


@BOTH
def test_a_lost_connection(version: int) -> None:
    """The same offsets are sent again. With version 1 a request that may still be under way cannot speak for the next transaction: the
    epoch is renewed first."""
    counter = waiting(version)
    counter.lose(1)
    counter.advance(200)
    assert counter.take_offsets() == [5]
    counter.call(Event.COMMIT)
    counter.end()
    assert counter.state is (State.RENEWING if version < 2 else State.READY)


def test_an_abort_answers_who_waits_for_offsets() -> None:
    """The call is told that it is over, and its offsets are not sent in the next transaction."""
    counter = Counter(version=1).begin()
    call = counter.send_offsets(5)
    counter.call(Event.ABORT)
    assert isinstance(call.outcome.exception(0), MustAbort)
    counter.add_group()
    counter.end()
    counter.begin()
    assert counter.silent()


def test_offsets_of_another_transaction_or_of_none() -> None:
    """A call for a transaction that is over, for none, or after its end was asked for, is refused with the calls that fit."""
    counter = Counter()
    counter.learn()
    assert isinstance(counter.send_offsets(5).outcome.exception(0), IllegalCall)
    counter.begin()
    counter.call(Event.COMMIT)
    counter.begin()
    assert isinstance(counter.send_offsets(5, number=1).outcome.exception(0), IllegalCall)
    counter.send(b"row")
    counter.call(Event.COMMIT)
    refused = counter.send_offsets(5).outcome.exception(0)
    assert "what can be called now: commit, abort" in str(refused)


@pytest.mark.parametrize("code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.GROUP_AUTHORIZATION_FAILED])
def test_run_does_not_repeat_what_the_group_refuses(code: ErrorCode) -> None:
    """The same offsets of the same member would be refused again; a coordinator's own abort may pass."""
    assert not worth_another(MustAbort("x", code=code))
    assert worth_another(MustAbort("x", code=ErrorCode.TRANSACTION_ABORTABLE))
