"""Preparing a transaction, one response at a time: which requests come before the token, and how its own producer ends it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.producer.errors import Fenced
from fencepost.producer.wire import Api, ErrorCode, InitProducerIdResponse
from fencepost.producer.wire.messages.describe_transactions import DescribeTransactionsResponse, TopicData, TransactionState
from fencepost.txn.config.on_open import OnOpen
from fencepost.txn.coordinator.kip_939 import TwoPhase
from fencepost.txn.coordinator.registration_guard import Guard
from fencepost.txn.coordinator.state_machine import Event, State
from fencepost.txn.errors import (
    DeliveryAborted,
    IllegalCall,
    MustAbort,
    NotPermitted,
    TransactionCommitted,
    TransactionOpen,
    TransactionTimeout,
)
from fencepost.txn.recovery.prepared_here import OUTSTANDING
from fencepost.txn.recovery.token import CoordinatorHint, PreparedTransaction, WrittenPartition
from tests.producer.core.harness import PID, TOPIC
from tests.txn.coordinator.harness import CoordinatorHarness

BOTH = pytest.mark.parametrize("version", [1, 2])
START_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def _nothing_outstanding() -> Iterator[None]:
    """What one test prepares is not outstanding in the next."""
    yield
    for token in OUTSTANDING.of("tx"):
        OUTSTANDING.discard(token)


def wrote(version: int, *, partitions: int = 1, offset: int = 12, **settings: Any) -> CoordinatorHarness:
    """A transaction with a record in each partition, acknowledged at that offset and the ones after it."""
    harness = CoordinatorHarness(version=version, partitions=partitions, **settings).begin()
    for partition in range(partitions):
        harness.send(b"row", partition=partition)
        if version < 2:
            harness.add()
        harness.ack(harness.produces()[0], offset=offset + partition)
    return harness


def describe(
    harness: CoordinatorHarness, state: str = "Ongoing", *, epoch: int = 0, pid: int = PID, code: int = 0, timeout_ms: int = 60_000
) -> None:
    """Have the coordinator say what it has of the id."""
    topics = [TopicData(topic=TOPIC, partitions=[0]), TopicData(topic="__consumer_offsets", partitions=[7])]
    said = TransactionState(
        error_code=int(code),
        transactional_id="tx",
        transaction_state=state,
        transaction_timeout_ms=timeout_ms,
        transaction_start_time_ms=START_MS,
        producer_id=pid,
        producer_epoch=epoch,
        topics=topics,
    )
    harness.reply(harness.asked(Api.DESCRIBE_TRANSACTIONS), DescribeTransactionsResponse(transaction_states=[said]))


def asks(harness: CoordinatorHarness, api: Api) -> bool:
    """Whether such a request waits for its answer."""
    return any(flight.api is api for flight in harness.open)


def prepared(version: int, **options: Any) -> tuple[CoordinatorHarness, PreparedTransaction]:
    harness = wrote(version, **options)
    call = harness.call(Event.PREPARE)
    describe(harness)
    call.outcome.result(0)
    assert harness.state is State.PREPARED
    token = harness.manager.preparation.token
    assert token is not None
    return harness, token


@BOTH
def test_a_token_says_what_the_coordinator_and_the_leaders_said(version: int) -> None:
    """The token has the identity and the version, the coordinator's own times, the offsets of the first records, and the partitions whose
    offsets are unknown."""
    _, token = prepared(version, partitions=2)
    assert token == PreparedTransaction(
        transactional_id="tx",
        producer_id=PID,
        producer_epoch=0,
        transaction_version=version,
        cluster_id="harness",
        wrote=True,
        started_ms=START_MS,
        deadline_ms=START_MS + 60_000,
        coordinator=CoordinatorHint(1, "b", 1),
        partitions=(
            WrittenPartition("__consumer_offsets", 7, None),
            WrittenPartition(TOPIC, 0, 12),
            WrittenPartition(TOPIC, 1, 13),
        ),
    )


def test_the_first_offset_is_the_lowest() -> None:
    """The lowest offset counts, for responses in any order."""
    harness = wrote(2, offset=40)
    for offset in (41, 44):
        harness.send(b"more")
        harness.ack(harness.produces()[0], offset=offset)
    harness.call(Event.PREPARE)
    describe(harness)
    token = harness.manager.preparation.token
    assert token is not None
    assert WrittenPartition(TOPIC, 0, 40) in token.partitions


def test_records_are_waited_for_before_anything_is_asked() -> None:
    """There is no token while a record is on its way, and none after one failed."""
    harness = CoordinatorHarness().begin()
    harness.send(b"good", b"bad")
    call = harness.call(Event.PREPARE)
    assert [flight.api for flight in harness.open] == [Api.PRODUCE] * len(harness.open)
    harness.ack(harness.produces()[0])
    assert not call.outcome.done()
    harness.refuse(harness.produces()[0], ErrorCode.INVALID_RECORD)
    assert isinstance(call.outcome.exception(0), MustAbort)
    assert harness.state is State.SPOILED
    assert harness.silent()
    assert isinstance(harness.call(Event.PREPARE).outcome.exception(0), MustAbort)


@BOTH
def test_an_empty_transaction_is_prepared_without_a_word(version: int) -> None:
    """FLINK-31363: nothing was written, so the coordinator knows nothing of it, is asked nothing, and has nothing to end."""
    harness = CoordinatorHarness(version=version).begin()
    harness.call(Event.PREPARE).outcome.result(0)
    token = harness.manager.preparation.token
    assert token is not None
    assert (token.wrote, token.partitions, token.deadline_ms) == (False, (), None)
    harness.call(Event.COMMIT).outcome.result(0)
    assert harness.silent()
    assert harness.state is State.READY


@pytest.mark.parametrize(
    ("state", "epoch", "pid"), [("CompleteAbort", 1, PID), ("Empty", 0, PID), ("Ongoing", 2, PID), ("Ongoing", 0, PID + 1)]
)
def test_a_transaction_that_is_not_open_any_more(state: str, epoch: int, pid: int) -> None:
    """It timed out, or another producer has the id. There is no token, and only an abort is possible."""
    harness = wrote(2)
    call = harness.call(Event.PREPARE)
    describe(harness, state, epoch=epoch, pid=pid)
    failure = call.outcome.exception(0)
    assert isinstance(failure, MustAbort)
    assert f"'tx' is {state} under producer id {pid}, epoch {epoch}" in str(failure)
    assert harness.manager.preparation.token is None
    assert harness.state is State.SPOILED


def test_a_coordinator_that_cannot_answer_is_asked_again() -> None:
    """One that moved is looked for; the call ends at its deadline and goes on where it stopped when it is made again."""
    harness = wrote(2)
    first = harness.call(Event.PREPARE, within_ms=50)
    describe(harness, code=ErrorCode.NOT_COORDINATOR)
    harness.advance(30)
    describe(harness, code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    harness.advance(30)
    failure = first.outcome.exception(0)
    assert isinstance(failure, TransactionTimeout)
    assert "COORDINATOR_LOAD_IN_PROGRESS" in str(failure)
    second = harness.call(Event.PREPARE)
    describe(harness)
    second.outcome.result(0)


@BOTH
def test_offsets_are_waited_for_and_their_group_is_named(version: int) -> None:
    """There is no token until the group's coordinator has accepted the offsets, and no offsets are accepted after it. The token names the
    group's partition without an offset."""
    harness = CoordinatorHarness(version=version).begin()
    sent = harness.send_offsets(5, group="readers")
    call = harness.call(Event.PREPARE)
    if version < 2:
        harness.add_group()
    assert not asks(harness, Api.DESCRIBE_TRANSACTIONS)
    harness.take_offsets()
    sent.outcome.result(0)
    describe(harness)
    call.outcome.result(0)
    token = harness.manager.preparation.token
    assert token is not None
    assert token.groups == ("readers",)
    assert WrittenPartition("__consumer_offsets", 7, None) in token.partitions
    assert isinstance(harness.send_offsets(6).outcome.exception(0), IllegalCall)


def test_a_prepared_transaction_takes_no_call_but_its_end() -> None:
    """A begin is refused and names what is legal; another prepare has the same token, without another question."""
    harness, token = prepared(2)
    assert isinstance(harness.call(Event.BEGIN).outcome.exception(0), IllegalCall)
    harness.call(Event.PREPARE).outcome.result(0)
    assert harness.silent()
    assert harness.manager.preparation.token is token


def test_an_abort_while_it_is_being_prepared() -> None:
    """The caller that waits for the token gets an error, and unsent records fail."""
    harness = CoordinatorHarness(max_in_flight=1).begin()
    harness.send(b"flying")
    (queued,) = harness.send(b"queued")
    call = harness.call(Event.PREPARE)
    harness.call(Event.ABORT)
    assert isinstance(call.outcome.exception(0), MustAbort)
    harness.ack(harness.produces()[0])
    assert isinstance(queued.exception(0), DeliveryAborted)


@pytest.mark.parametrize(("state", "code"), [("Ongoing", 0), ("CompleteAbort", 0), ("", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)])
def test_an_abort_while_the_coordinator_is_being_asked(state: str, code: int) -> None:
    """The transaction is aborted. The coordinator's answer about its state comes too late to change that."""
    harness = wrote(2)
    call = harness.call(Event.PREPARE)
    abort = harness.call(Event.ABORT)
    assert isinstance(call.outcome.exception(0), MustAbort)
    describe(harness, state, code=code)
    harness.end()
    assert abort.outcome.exception(0) is None
    assert harness.state is State.READY


def test_version_2_commits_as_ever() -> None:
    """EndTxn with the identity of the token; its answer brings the next one."""
    harness, token = prepared(2)
    OUTSTANDING.add(token)
    commit = harness.call(Event.COMMIT)
    end = harness.asked(Api.END_TXN)
    assert (end.command.version, (end.message.producer_id, end.message.producer_epoch)) == (5, token.identity)
    harness.end()
    commit.outcome.result(0)
    assert harness.state is State.READY
    assert OUTSTANDING.of("tx") == ()


@pytest.mark.parametrize("end", [Event.COMMIT, Event.ABORT])
def test_version_1_gives_the_identity_of_a_token_up(end: Event) -> None:
    """FLINK-8132: an EndTxn with a token that is still around would end the next transaction of the same identity. So the next one has
    another: InitProducerId before anything can begin."""
    harness, token = prepared(1)
    harness.call(end)
    assert harness.asked(Api.END_TXN).command.version == 4
    harness.end()
    begin = harness.call(Event.BEGIN)
    assert not begin.outcome.done()
    asked = harness.asked(Api.INIT_PRODUCER_ID).message
    assert (asked.producer_id, asked.producer_epoch) == token.identity
    harness.identify(epoch=1)
    begin.outcome.result(0)
    assert harness.manager.identity == (PID, 1)


@BOTH
def test_an_abort_of_a_transaction_that_another_process_committed(version: int) -> None:
    """The coordinator had it open when it was prepared, and says now that it fits no abort: it has been committed, and nothing else is
    said. The producer goes on under another identity."""
    harness, _ = prepared(version)
    abort = harness.call(Event.ABORT)
    harness.end(ErrorCode.INVALID_TXN_STATE)
    assert isinstance(abort.outcome.exception(0), TransactionCommitted)
    assert harness.state is State.RENEWING
    assert asks(harness, Api.INIT_PRODUCER_ID if version < 2 else Api.DESCRIBE_TRANSACTIONS)


@pytest.mark.parametrize("lost", [Api.ADD_PARTITIONS_TO_TXN, Api.ADD_OFFSETS_TO_TXN])
def test_version_1_gives_no_token_once_a_request_that_opens_was_lost(lost: Api) -> None:
    """If the request arrives after another process has committed, it opens a transaction under the same epoch. The coordinator would carry
    out this producer's abort for that one, without an error."""
    harness = CoordinatorHarness(version=1).begin()
    harness.send(b"row")
    if lost is Api.ADD_PARTITIONS_TO_TXN:
        harness.lose(1)
        harness.advance(1_000)
    harness.add()
    harness.ack(harness.produces()[0])
    if lost is Api.ADD_OFFSETS_TO_TXN:
        harness.send_offsets(5)
        harness.lose(1)
        harness.advance(1_000)
        harness.add_group()
        harness.take_offsets()
    prepare = harness.call(Event.PREPARE)
    describe(harness)
    refusal = prepare.outcome.exception(0)
    assert isinstance(refusal, MustAbort)
    assert f"{lost.name} was sent and not answered" in str(refusal)
    assert harness.manager.preparation.token is None
    abort = harness.call(Event.ABORT)
    harness.end()
    abort.outcome.result(0)
    harness.identify(epoch=1)
    harness.call(Event.BEGIN).outcome.result(0)
    harness.send(b"the next one has its token")
    harness.add()
    harness.ack(harness.produces()[0])
    again = harness.call(Event.PREPARE)
    describe(harness, epoch=1)
    again.outcome.result(0)


# -- registering while something is open ---------------------------------------------------------------------------------


class Guarded(CoordinatorHarness):
    """A producer that looks before it registers."""

    def __init__(self, policy: OnOpen, *given: PreparedTransaction) -> None:
        super().__init__(guard=Guard("tx", policy, given))
        self.begun = self.call(Event.BEGIN)


def a_token() -> PreparedTransaction:
    _, token = prepared(2)
    return token


def test_no_question_without_a_prepared_transaction() -> None:
    """A program without prepared transactions registers at once, and so does one with `on_open_transaction="abort"`. This aborts what is
    open."""
    assert asks(Guarded(OnOpen.ABORT_UNPREPARED), Api.INIT_PRODUCER_ID)
    OUTSTANDING.add(a_token())
    assert asks(Guarded(OnOpen.ABORT), Api.INIT_PRODUCER_ID)


@pytest.mark.parametrize("known", ["prepared here", "handed over"])
def test_a_prepared_transaction_is_not_aborted_by_registering(known: str) -> None:
    """The call says what is open and the ways on; once it is over, the same call goes through."""
    token = a_token()
    if known == "prepared here":
        OUTSTANDING.add(token)
    harness = Guarded(OnOpen.ABORT_UNPREPARED, *([token] if known == "handed over" else []))
    describe(harness)
    failure = harness.begun.outcome.exception(0)
    assert isinstance(failure, TransactionOpen)
    assert "a prepared transaction open (producer id 4000, epoch 0)" in str(failure)
    assert harness.state is State.NEW
    again = harness.call(Event.BEGIN)
    describe(harness, "CompleteCommit", epoch=1)
    harness.identify(epoch=2)
    again.outcome.result(0)


def test_a_token_that_another_process_ended_is_forgotten() -> None:
    """What a process has handed out and other processes end does not pile up: the next look at the id clears it away."""
    OUTSTANDING.add(a_token())
    harness = Guarded(OnOpen.ABORT_UNPREPARED)
    describe(harness, "CompleteCommit", epoch=1)
    harness.identify(epoch=2)
    assert OUTSTANDING.of("tx") == ()


@pytest.mark.parametrize(("epoch", "policy", "spared"), [(3, OnOpen.ABORT_UNPREPARED, False), (3, OnOpen.REFUSE, True)])
def test_an_open_transaction_that_was_not_prepared(epoch: int, policy: OnOpen, spared: bool) -> None:
    """It is what a crash left behind: aborted, unless the program wants to look at it first."""
    token = a_token()
    harness = Guarded(policy, token)
    describe(harness, epoch=epoch)
    if spared:
        assert isinstance(harness.begun.outcome.exception(0), TransactionOpen)
    else:
        assert asks(harness, Api.INIT_PRODUCER_ID)


@pytest.mark.parametrize(
    ("code", "kind"), [(ErrorCode.INVALID_REQUEST, TransactionOpen), (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NotPermitted)]
)
def test_a_coordinator_that_refuses_to_describe_the_id(code: ErrorCode, kind: type[Exception]) -> None:
    """The producer does not register, because it might abort a prepared transaction."""
    harness = Guarded(OnOpen.ABORT_UNPREPARED, a_token())
    describe(harness, code=code)
    failure = harness.begun.outcome.exception(0)
    assert isinstance(failure, kind)
    assert code.name in str(failure)
    assert not asks(harness, Api.INIT_PRODUCER_ID)


def test_an_unused_id() -> None:
    """Nothing is open under it."""
    harness = Guarded(OnOpen.REFUSE)
    describe(harness, code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    assert asks(harness, Api.INIT_PRODUCER_ID)


def test_a_transaction_without_a_timeout_has_no_deadline() -> None:
    """KIP-939: the coordinator keeps the largest number there is."""
    harness = wrote(2)
    harness.call(Event.PREPARE)
    describe(harness, timeout_ms=2_147_483_647)  # what Kafka keeps then, its largest int32
    token = harness.manager.preparation.token
    assert token is not None
    assert token.deadline_ms is None


@pytest.mark.parametrize(("policy", "warned"), [(OnOpen.ABORT_UNPREPARED, 1), (OnOpen.REFUSE, 0), (OnOpen.ABORT, 0)])
def test_the_log_warns_that_a_registration_aborts(policy: OnOpen, warned: int, caplog: pytest.LogCaptureFixture) -> None:
    """A program without the token cannot know whether the open transaction was prepared. The log warns once and says how to keep it, unless
    the program asked for the abort. The bump of an epoch aborts no other producer's transaction, and does not
    warn."""
    harness = Guarded(policy)
    if policy is OnOpen.REFUSE:
        describe(harness, "PrepareAbort")
    for _ in range(3):
        harness.identify(code=ErrorCode.CONCURRENT_TRANSACTIONS)
        harness.advance(200)
    harness.identify()
    harness.begun.outcome.result(0)
    words = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert len(words) == warned
    assert all("transactional id tx: " in each and "pass prepared=[token] or on_open_transaction='refuse'" in each for each in words)


# -- another process ended it --------------------------------------------------------------------------------------------


def committed_elsewhere(**options: Any) -> CoordinatorHarness:
    """Another process has committed the prepared transaction, and the producer's own abort has said so."""
    harness, _ = prepared(2, **options)
    abort = harness.call(Event.ABORT)
    harness.end(ErrorCode.INVALID_TXN_STATE)
    assert isinstance(abort.outcome.exception(0), TransactionCommitted)
    assert harness.state is State.RENEWING
    return harness


def test_the_epoch_that_another_process_was_given() -> None:
    """With transaction version 2 the coordinator gave the next epoch to the process that committed. The producer finds it out, continues
    with it, and needs no InitProducerId, which a restarted coordinator would refuse."""
    harness = committed_elsewhere()
    begin = harness.call(Event.BEGIN)
    describe(harness, code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    harness.advance(200)
    describe(harness, "CompleteCommit", epoch=1)
    assert begin.outcome.result(0) == 2
    harness.send(b"next")
    assert harness.produces()[0].stamp == (PID, 1, 0)


@pytest.mark.parametrize(
    ("state", "epoch", "code"),
    [
        ("Empty", 2, ErrorCode.NONE),
        ("Empty", 1, ErrorCode.NONE),
        ("Ongoing", 1, ErrorCode.NONE),
        ("CompleteCommit", 3, ErrorCode.NONE),
        ("", -1, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        ("", -1, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
def test_an_epoch_that_may_be_another_producers(state: str, epoch: int, code: ErrorCode) -> None:
    """The producer takes no identity over that a newer producer may have. It registers with its own, and the coordinator decides."""
    harness = committed_elsewhere()
    begin = harness.call(Event.BEGIN)
    describe(harness, state, epoch=epoch, code=code)
    asked = harness.asked(Api.INIT_PRODUCER_ID).message
    assert (asked.producer_id, asked.producer_epoch) == (PID, 0)
    harness.identify(code=ErrorCode.PRODUCER_FENCED)
    failure = begin.outcome.exception(0)
    assert isinstance(failure, Fenced)
    assert "or another process ended it before the coordinator restarted" in str(failure)


def test_the_next_end_is_asked_about_anew() -> None:
    """An answer of InitProducerId settles the question: the next renewal asks only what it needs."""
    harness = committed_elsewhere()
    describe(harness, "Empty", epoch=2)
    harness.identify(epoch=1)
    harness.begin()
    harness.send(b"next")
    harness.refuse(harness.produces()[0], ErrorCode.INVALID_RECORD)
    harness.call(Event.ABORT)
    harness.end(ErrorCode.PRODUCER_FENCED)
    assert asks(harness, Api.INIT_PRODUCER_ID)


# -- KIP-939 -------------------------------------------------------------------------------------------------------------


class Native(CoordinatorHarness):
    """A producer that asks for two-phase commit, and has begun to register."""

    def __init__(self, *, keep: bool = False, newest: int = 6) -> None:
        super().__init__(two_phase=TwoPhase(wanted=True, keep=keep))
        self.newest = newest
        self.begun = self.call(Event.BEGIN)

    @property
    def wanted(self) -> tuple[int, bool, bool]:
        """Of the InitProducerId that waits for its answer: version, Enable2Pc, KeepPreparedTxn."""
        flight = self.asked(Api.INIT_PRODUCER_ID)
        return flight.command.version, flight.message.enable2_pc, flight.message.keep_prepared_txn


def test_two_phase_commit_as_brokers_have_it() -> None:
    """Where it is asked for, and where the broker offers it, no transaction of this producer times out; also not under its next epoch."""
    harness = Native()
    assert harness.wanted == (6, True, False)
    harness.identify()
    harness.begun.outcome.result(0)


@pytest.mark.parametrize(
    ("keep", "asked"),
    [(False, [(6, True, False), (5, False, False)]), (True, [(6, True, True), (6, True, False), (5, False, False)])],
)
def test_less_is_asked_for_where_a_broker_cannot(keep: bool, asked: list[tuple[int, bool, bool]]) -> None:
    """UNSUPPORTED_VERSION takes back one wish after the other, and the portable way is left."""
    harness = Native(keep=keep)
    for wanted in asked[:-1]:
        assert harness.wanted == wanted
        harness.identify(code=ErrorCode.UNSUPPORTED_VERSION)
    assert harness.wanted == asked[-1]
    harness.identify()
    harness.begun.outcome.result(0)


def test_a_broker_that_does_not_offer_it() -> None:
    """As releases are set: nothing of it is said to them."""
    assert Native(keep=True, newest=5).wanted == (5, False, False)


def test_a_broker_that_permits_no_two_phase_commit() -> None:
    """The error says what else is needed beside WRITE."""
    harness = Native()
    harness.identify(code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    failure = harness.begun.outcome.exception(0)
    assert isinstance(failure, NotPermitted)
    assert "transaction.two.phase.commit.enable" in str(failure)


@pytest.mark.parametrize("newest", [5, 6])
def test_an_epoch_that_a_broker_with_kip_939_may_have_given_to_a_newer_producer(newest: int) -> None:
    """A broker with version 6 may let a newer producer keep the open transaction and end it. The producer does not take its epoch."""
    harness = CoordinatorHarness()
    harness.newest = newest
    harness.begin()
    harness.send(b"row")
    harness.ack(harness.produces()[0])
    harness.call(Event.PREPARE)
    describe(harness)
    harness.call(Event.ABORT)
    harness.end(ErrorCode.INVALID_TXN_STATE)
    assert asks(harness, Api.INIT_PRODUCER_ID) is (newest == 6)
    assert asks(harness, Api.DESCRIBE_TRANSACTIONS) is (newest == 5)


@pytest.mark.parametrize("producer_id", [PID, 0])
def test_a_broker_that_keeps_what_is_prepared(producer_id: int) -> None:
    """No broker does yet; one that will is believed, and nothing is begun."""
    harness = Native(keep=True)
    answer = InitProducerIdResponse(producer_id=PID, producer_epoch=4, ongoing_txn_producer_id=producer_id, ongoing_txn_producer_epoch=2)
    harness.reply(harness.asked(Api.INIT_PRODUCER_ID), answer)
    failure = harness.begun.outcome.exception(0)
    assert isinstance(failure, TransactionOpen)
    assert f"(producer id {producer_id}, epoch 2)" in str(failure)
    assert harness.state is State.NEW
