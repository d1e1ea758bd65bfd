"""Sharing, on the owner's side: the requests before it, which participant gets a partition, and what the end of the transaction does."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.producer.core.events import Called
from fencepost.producer.wire import Api, ErrorCode
from fencepost.txn.coordinator.pending_calls import Call
from fencepost.txn.coordinator.state_machine import Event, State
from fencepost.txn.errors import DeliveryAborted, IllegalCall, MustAbort, TransactionTimeout
from fencepost.txn.shared.participation import BadParticipation, Participation, Written
from fencepost.txn.shared.shared_partitions import NotReturned, NotShareable, ShareRequest
from tests.producer.core.harness import PID, TOPIC
from tests.txn.coordinator.harness import CALL_MS, CoordinatorHarness

BOTH = pytest.mark.parametrize("version", [1, 2])


def ask(harness: CoordinatorHarness, *partitions: int) -> Call:
    """A share that is not waited for."""
    call = Call(
        Event.SHARE, deadline_ms=harness.now + CALL_MS, share_request=ShareRequest(partitions=tuple((TOPIC, each) for each in partitions))
    )
    harness.happen(Called(call))
    return call


def participation_of(call: Call) -> Participation:
    call.outcome.result(0)
    assert call.share_request is not None
    assert call.share_request.participation is not None
    return call.share_request.participation


def share(harness: CoordinatorHarness, *partitions: int) -> Participation:
    """What is shared, with the coordinator asked where it has to be."""
    call = ask(harness, *partitions)
    if not call.outcome.done():
        harness.add()
    return participation_of(call)


def give_back(harness: CoordinatorHarness, *written: Written) -> BaseException | None:
    call = Call(Event.RETURNED, deadline_ms=harness.now + CALL_MS, share_request=ShareRequest(written=written))
    harness.happen(Called(call))
    return call.outcome.exception(0)


def account(partition: int, records: int, *, first: int = 0, offset: int = 10) -> Written:
    return Written(TOPIC, partition, records, offset, offset + records - 1, first + records)


def end(harness: CoordinatorHarness, event: Event = Event.COMMIT, *, code: int = 0) -> Call:
    """End the transaction; version 1 takes a new epoch then."""
    call = harness.call(event)
    harness.end(code)
    return call


def opened(version: int, **settings: Any) -> CoordinatorHarness:
    return CoordinatorHarness(version=version, partitions=4, **settings).begin()


def test_an_interrupted_share_shares_nothing() -> None:
    """Ctrl-C strikes while the coordinator is asked: the partition that it adds afterwards has no participant, and is not in the way of the
    commit, or of another share."""
    harness = opened(1)
    call = ask(harness, 1)
    assert call.outcome.cancel()
    harness.add()
    assert give_back(harness, account(1, 0)) is not None
    assert participation_of(ask(harness, 1)).partitions == ((TOPIC, 1),)


def test_version_1_adds_all_of_it_in_one_request() -> None:
    """The participation is there when the coordinator has every partition, and is of the transaction's identity."""
    harness = opened(1)
    call = ask(harness, 1, 3)
    (topic,) = harness.asked(Api.ADD_PARTITIONS_TO_TXN).message.v3_and_below_topics
    assert (topic.name, topic.partitions) == (TOPIC, [1, 3])
    harness.add(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert not call.outcome.done()
    harness.advance(30)
    harness.add()
    participation = participation_of(call)
    assert (participation.transactional_id, participation.identity, participation.transaction_version) == ("tx", (PID, 0), 1)
    assert participation.sequences == ((TOPIC, 1, 0), (TOPIC, 3, 0))


def test_version_2_shares_without_a_request() -> None:
    """No request is needed: the leader adds the partition with the first write of a participant."""
    harness = opened(2)
    assert participation_of(ask(harness, 0)).transaction_version == 2
    assert harness.silent()


def test_a_share_that_takes_too_long_can_be_made_again() -> None:
    """Nothing is decided by the first; the second has what the coordinator was told meanwhile."""
    harness = opened(1)
    first = ask(harness, 0)
    harness.advance(CALL_MS + 1)
    assert isinstance(first.outcome.exception(0), TransactionTimeout)
    harness.add()
    assert participation_of(ask(harness, 0)).partitions == ((TOPIC, 0),)


def test_a_missing_partition_blocks_nothing_after_its_share() -> None:
    """With version 1 it is asked about for as long as the share waits for it. Then the transaction goes on without it, and can be
    committed; what a batch or another share waits for is still asked for."""
    harness = opened(1)
    first = ask(harness, 2, 3)
    harness.add(ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    harness.advance(CALL_MS / 2)
    second = ask(harness, 2)
    harness.send(b"row", partition=1)
    harness.advance(CALL_MS / 2 + 1)
    assert isinstance(first.outcome.exception(0), TransactionTimeout)
    harness.add(ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED)
    harness.advance(1_000)
    (topic,) = harness.asked(Api.ADD_PARTITIONS_TO_TXN).message.v3_and_below_topics
    assert sorted(topic.partitions) == [1, 2]
    harness.add()
    assert participation_of(second).partitions == ((TOPIC, 2),)
    harness.ack(harness.produces()[0])
    assert give_back(harness, account(2, 1)) is None
    assert end(harness).outcome.exception(0) is None


@BOTH
@pytest.mark.parametrize("event", [Event.COMMIT, Event.ABORT])
def test_what_was_shared_is_ended_although_its_owner_wrote_nothing(version: int, event: Event) -> None:
    """EndTxn is sent, and the next transaction has another epoch, also with version 1: no participation of the one before is of use in
    it."""
    harness = opened(version)
    share(harness, 0)
    if event is Event.COMMIT:
        give_back(harness, account(0, 1))
    call = end(harness, event)
    assert call.outcome.result(0) >= 0
    if version == 1:
        assert harness.state is State.RENEWING
        harness.identify(epoch=1)
    harness.begin()
    assert share(harness, 0).identity == (PID, 1)


@BOTH
def test_sequences_go_on_with_the_next_participation(version: int) -> None:
    """A second participation of a partition in the same transaction begins where the first stopped; in the next transaction at 0."""
    harness = opened(version)
    share(harness, 0, 1)
    assert give_back(harness, account(0, 7), account(1, 0, offset=-1)) is None
    assert share(harness, 1, 0).sequences == ((TOPIC, 1, 0), (TOPIC, 0, 7))
    assert give_back(harness, account(0, 3, first=7)) is None
    assert share(harness, 0).sequences == ((TOPIC, 0, 10),)
    end(harness, Event.ABORT)
    if version == 1:
        harness.identify(epoch=1)
    harness.begin()
    assert share(harness, 0).sequences == ((TOPIC, 0, 0),)


@BOTH
def test_a_participation_goes_on_behind_what_its_owner_wrote(version: int) -> None:
    """With transaction version 1 the epoch stays, and so do the sequences that the owner's earlier transactions have used: a participant
    that began at 0 would be taken for a repeat of them, acknowledged, and be in no log."""
    harness = CoordinatorHarness(version=version).begin()
    harness.send(b"row")
    if version < 2:
        harness.add()
    harness.ack(harness.produces()[0])
    end(harness)
    harness.begin()
    assert share(harness, 0, 1).sequences == ((TOPIC, 0, 1 if version < 2 else 0), (TOPIC, 1, 0))


@BOTH
def test_one_writer_at_a_time(version: int) -> None:
    """What is shared is not shared again, nor what its owner wrote; the reason is said, and the transaction goes on."""
    harness = opened(version)
    harness.send(b"own", partition=0)
    if version == 1:
        harness.add()
    share(harness, 1)
    for partition, words in (
        (0, "t-0 cannot be shared: its owner has written to it"),
        (1, "t-1 was shared in this transaction and not returned"),
    ):
        refused = ask(harness, 2, partition).outcome.exception(0)
        assert isinstance(refused, NotShareable)
        assert words in str(refused)
    assert harness.state is State.OPEN
    assert share(harness, 2).partitions == ((TOPIC, 2),)


@BOTH
@pytest.mark.parametrize("back", [False, True])
def test_the_owner_keeps_off(version: int, back: bool) -> None:
    """A record of its own for a partition that was shared, returned or not, spoils the transaction before it is sent."""
    harness = opened(version)
    share(harness, 0)
    if back:
        give_back(harness, account(0, 1))
    (future,) = harness.send(b"own", partition=0)
    harness.advance(0)
    assert isinstance(future.exception(0), DeliveryAborted)
    assert harness.produces() == []
    refused = harness.call(Event.COMMIT).outcome.exception(0)
    assert isinstance(refused, MustAbort)
    assert "t-0 was shared, so its owner cannot write to it" in str(refused)
    end(harness, Event.ABORT)


def test_accounts_that_do_not_fit() -> None:
    """Of another participation, or of what was not shared: refused whole, and nothing of them is kept."""
    harness = opened(2)
    share(harness, 0, 1)
    for wrong, words in (
        ((account(0, 5), account(2, 5)), "t-2 is not shared"),
        ((account(0, 5), account(1, 5, first=3)), "t-1: 5 records from sequence 0 on cannot end at 8"),
    ):
        refused = give_back(harness, *wrong)
        assert isinstance(refused, BadParticipation)
        assert words in str(refused)
    assert give_back(harness, account(0, 5)) is None
    assert isinstance(give_back(harness, account(0, 5)), BadParticipation)


def test_a_commit_of_nothing() -> None:
    """With version 2 the coordinator does not know of a transaction without a record: where all that was shared came back empty that
    is no failure; where some of it may have been written it is."""
    harness = opened(2)
    share(harness, 0)
    give_back(harness, account(0, 0, offset=-1))
    assert end(harness, code=ErrorCode.INVALID_TXN_STATE).outcome.result(0) >= 0
    harness.identify(epoch=1)
    harness.begin()
    share(harness, 0)
    give_back(harness, account(0, 1))
    assert isinstance(end(harness, code=ErrorCode.INVALID_TXN_STATE).outcome.exception(0), MustAbort)


def test_a_refused_commit_is_none_where_offsets_were_taken() -> None:
    """A commit that the coordinator refuses has failed if it took offsets of the transaction, even if no participant wrote a record."""
    harness = opened(2)
    share(harness, 0)
    harness.send_offsets(5)
    harness.take_offsets()
    assert give_back(harness, account(0, 0, offset=-1)) is None
    assert isinstance(end(harness, code=ErrorCode.INVALID_TXN_STATE).outcome.exception(0), MustAbort)


def test_one_participant_of_two_wrote_something() -> None:
    """What one account says is not forgotten over the next one, which says that nothing was written there."""
    harness = opened(2)
    share(harness, 0, 1)
    assert give_back(harness, account(0, 1), account(1, 0, offset=-1)) is None
    assert isinstance(end(harness, code=ErrorCode.INVALID_TXN_STATE).outcome.exception(0), MustAbort)


@BOTH
def test_what_came_back_is_over_with_its_transaction(version: int) -> None:
    """A partition that was shared and returned has sequences from 0 on in the next transaction, and its owner may write there."""
    harness = opened(version)
    for epoch in (1, 2):
        assert share(harness, 0).sequences == ((TOPIC, 0, 0),)
        assert give_back(harness, account(0, 3)) is None
        end(harness)
        if version < 2:
            harness.identify(epoch=epoch)
        harness.begin()
    harness.send(b"own", partition=0)
    if version < 2:
        harness.add()
    assert harness.state is State.OPEN
    assert harness.produces()[0].values == [b"own"]


def test_a_refused_commit_is_none_where_its_owner_wrote() -> None:
    """Participants wrote nothing, and the owner did: a coordinator that has no such transaction any more has not committed the owner's
    records, so the commit must not be told as one."""
    harness = opened(2)
    share(harness, 0)
    harness.send(b"own", partition=1)
    harness.ack(harness.produces()[0])
    assert give_back(harness, account(0, 0, offset=-1)) is None
    commit = end(harness, code=ErrorCode.INVALID_TXN_STATE)
    assert isinstance(commit.outcome.exception(0), MustAbort)
    assert harness.state is State.SPOILED


@BOTH
def test_a_conflict_is_over_with_its_transaction(version: int) -> None:
    """The owner wrote where it had shared, and aborted: the next transaction can be shared, returned and committed as any."""
    harness = opened(version)
    share(harness, 0)
    harness.send(b"conflict", partition=0)
    assert harness.state is State.SPOILED
    end(harness, Event.ABORT)
    if version == 1:
        harness.identify(epoch=1)
    harness.begin()
    share(harness, 0)
    harness.send(b"own", partition=1)
    if version == 1:
        harness.add()
    harness.ack(harness.produces()[0])
    assert give_back(harness, account(0, 7)) is None
    commit = end(harness)
    assert commit.outcome.exception(0) is None


@BOTH
def test_a_commit_before_everything_came_back(version: int) -> None:
    """It is refused with how much of which participation is missing, and nothing has happened: the rest can be returned, the transaction
    committed. An abort, and a token, are there at once."""
    harness = opened(version)
    share(harness, 0, 1)
    share(harness, 2)
    give_back(harness, account(0, 1))
    share(harness, 0)
    refused = harness.call(Event.COMMIT).outcome.exception(0)
    assert isinstance(refused, NotReturned)
    assert (
        "'tx': 1 of the 2 partitions of participation 1 (t-1) and 1 of the 1 partition of participation 2 (t-2)"
        " and 1 of the 1 partition of participation 3 (t-0) not returned" in str(refused)
    )
    assert harness.state is State.OPEN
    give_back(harness, account(0, 1, first=1), account(1, 0, offset=-1), account(2, 1))
    assert end(harness).outcome.result(0) >= 0
    if version == 1:
        harness.identify(epoch=1)
    harness.begin()
    share(harness, 0, 1, 2, 3)
    refused = harness.call(Event.COMMIT).outcome.exception(0)
    assert "4 of the 4 partitions of participation 1 (t-0, t-1, t-2, ...)" in str(refused)
    assert end(harness, Event.ABORT).outcome.result(0) >= 0
    if version == 1:
        harness.identify(epoch=2)
    harness.begin()
    share(harness, 0)
    prepared = harness.call(Event.PREPARE)
    harness.advance(0)
    assert not prepared.outcome.done()  # the coordinator is asked


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_partition_that_cannot_be_added(code: ErrorCode) -> None:
    """The share raises what the transaction has to be aborted for."""
    harness = opened(1)
    call = ask(harness, 0)
    harness.add(code)
    assert isinstance(call.outcome.exception(0), MustAbort)


def test_a_partition_that_is_not_looked_at_because_of_another() -> None:
    """One of several partitions is not known yet: all of them are asked for again, and the transaction goes on."""
    harness = opened(1)
    call = ask(harness, 0, 1)
    harness.add(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED)
    assert harness.state is State.OPEN
    harness.advance(200)
    harness.add()
    assert len(participation_of(call).sequences) == 2


def test_an_abort_ends_a_share_that_waits() -> None:
    """A `share` that waits for the coordinator raises MustAbort as soon as the transaction is aborted."""
    harness = opened(1)
    call = ask(harness, 0)
    harness.call(Event.ABORT)
    assert isinstance(call.outcome.exception(0), MustAbort)


def test_nothing_is_shared_outside_a_transaction() -> None:
    """The calls that fit are named."""
    harness = opened(2)
    end_of_nothing = harness.call(Event.COMMIT)
    assert end_of_nothing.outcome.result(0) >= 0
    with pytest.raises(IllegalCall, match="share: the producer is between transactions; what can be called now: init, begin"):
        ask(harness, 0).outcome.result(0)


@BOTH
def test_where_participants_wrote_is_known_if_the_outcome_is_not(version: int) -> None:
    """Their first offsets are where the search for markers begins."""
    harness = opened(version)
    share(harness, 0, 1)
    give_back(harness, account(0, 2, offset=30), account(1, 0, offset=-1))
    share(harness, 0)
    give_back(harness, account(0, 2, first=2, offset=50))
    harness.call(Event.COMMIT)
    harness.manager.abandon(MustAbort("the end"))
    token = harness.manager.preparation.in_question
    assert token is not None
    assert [(each.topic, each.partition, each.offset) for each in token.partitions] == [(TOPIC, 0, 30)]
