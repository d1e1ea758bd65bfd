"""The outcome of a prepared transaction: each conclusion from the answers of a coordinator and of logs. No conclusion lacks its
evidence."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fencepost.producer.wire.messages.describe_transactions import TransactionState
from fencepost.txn.recovery.outcome import (
    NO_DEADLINE_MS,
    Evidence,
    Marker,
    Outcome,
    Reading,
    conclude,
    next_identity,
    read_coordinator,
    read_marker_of,
    registered_since,
)
from tests.txn.recovery.test_token import TOKEN

PID, EPOCH = TOKEN.identity
TV = {1: replace(TOKEN, transaction_version=1), 2: TOKEN}
NOW_MS = 1_700_000_010_000


def state(name: str, epoch: int, pid: int = PID) -> TransactionState:
    assert TOKEN.started_ms is not None
    return TransactionState(
        transactional_id=TOKEN.transactional_id,
        transaction_state=name,
        transaction_start_time_ms=TOKEN.started_ms,
        producer_id=pid,
        producer_epoch=epoch,
    )


@pytest.mark.parametrize(
    ("name", "ahead", "expected"),
    [
        ("Ongoing", 0, {1: Outcome.OPEN, 2: Outcome.OPEN}),
        ("PrepareCommit", 0, {1: Outcome.COMMITTED, 2: Outcome.COMMITTED}),
        ("CompleteCommit", 0, {1: Outcome.COMMITTED, 2: Outcome.COMMITTED}),
        ("PrepareAbort", 0, {1: Outcome.ABORTED, 2: Outcome.ABORTED}),
        ("CompleteAbort", 0, {1: Outcome.ABORTED, 2: Outcome.ABORTED}),
        ("Empty", 0, {1: None, 2: None}),
        ("CompleteCommit", 1, {1: None, 2: Outcome.COMMITTED}),
        ("PrepareCommit", 1, {1: None, 2: Outcome.COMMITTED}),
        ("CompleteAbort", 1, {1: None, 2: Outcome.ABORTED}),
        ("Ongoing", 1, {1: None, 2: None}),
        ("Empty", 1, {1: None, 2: None}),
        ("CompleteCommit", 2, {1: None, 2: None}),
        ("CompleteCommit", -1, {1: None, 2: None}),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_what_the_coordinators_present_says(name: str, ahead: int, expected: dict[int, Outcome | None], version: int) -> None:
    """It decides for the token's own identity, and for the one that a transaction of version 2 ends with; nothing later does."""
    assert read_coordinator(TV[version], state(name, EPOCH + ahead)) is expected[version]
    assert read_coordinator(TV[version], state(name, EPOCH + ahead, pid=PID + 1)) is None


NEXT = (PID, EPOCH + 1)


@pytest.mark.parametrize(
    ("name", "ahead", "expected"),
    [
        ("CompleteCommit", 1, NEXT),
        ("CompleteAbort", 1, NEXT),
        ("PrepareCommit", 1, None),
        ("Empty", 1, None),
        ("Ongoing", 1, None),
        ("CompleteCommit", 0, None),
        ("CompleteCommit", 2, None),
    ],
)
def test_the_identity_that_follows(name: str, ahead: int, expected: tuple[int, int] | None) -> None:
    """The producer takes an identity over only if the coordinator shows that the end of its own transaction gave it: the next epoch of the
    same producer id, in a completed transaction with the same start. With version 1 the next epoch is a newer producer's."""
    told = state(name, EPOCH + ahead)
    assert next_identity(TOKEN, told) == expected
    assert next_identity(TV[1], told) is None
    assert next_identity(replace(TOKEN, started_ms=None), told) is None
    assert next_identity(TOKEN, state(name, EPOCH + ahead, pid=PID + 1)) is None
    assert TOKEN.started_ms is not None
    assert next_identity(TOKEN, replace(told, transaction_start_time_ms=TOKEN.started_ms + 1)) is None


def test_a_later_transaction_of_the_same_identity() -> None:
    """A client of another make may go on under it, with transaction version 1: that one began at another time, and is not the token's."""
    later = replace(state("Ongoing", EPOCH), transaction_start_time_ms=NOW_MS)
    assert read_coordinator(TV[1], later) is None
    assert read_coordinator(replace(TV[1], started_ms=None), later) is Outcome.OPEN


@pytest.mark.parametrize(
    ("version", "ahead", "committed", "intact", "reading"),
    [
        (1, 0, True, False, Reading.OURS),
        (1, 0, False, False, Reading.OURS),
        (1, 1, False, True, Reading.OURS),  # fenced, or timed out
        (1, 1, False, False, Reading.PAST),  # as well that of the next producer
        (1, 1, True, True, Reading.PAST),  # a commit never raises the epoch
        (1, 2, False, True, Reading.PAST),
        (1, -1, True, True, Reading.NOT_OURS),
        (2, 1, True, False, Reading.OURS),
        (2, 1, False, False, Reading.OURS),
        (2, 0, True, True, Reading.NOT_OURS),  # of the one before, written twice (KAFKA-19999)
        (2, 2, True, True, Reading.PAST),
    ],
)
def test_what_a_marker_says(version: int, ahead: int, committed: bool, intact: bool, reading: Reading) -> None:
    """Only a marker that can be of no other transaction is taken for this one's."""
    assert read_marker_of(TV[version], epoch=EPOCH + ahead, committed=committed, intact=intact) is reading


def found(*, committed: bool, partition: int = 0) -> Evidence:
    return Evidence("orders", partition, Marker("orders", partition, 20, EPOCH + 1, committed))


MUTE = Evidence("orders", 3, why="there is no such partition (any more)", lost=True)
LATER = state("Ongoing", EPOCH + 4)


def test_one_marker_is_enough() -> None:
    """One marker decides, also if other partitions have lost theirs, and with or without the id at the coordinator."""
    for known in (LATER, None):
        status = conclude(TOKEN, known, [found(committed=True), MUTE], NOW_MS)
        assert (status.outcome, status.markers) == (Outcome.COMMITTED, (found(committed=True).marker,))
        assert status.why == "orders-0 has its commit marker at offset 20 (epoch 8)"
    assert conclude(TOKEN, LATER, [found(committed=False)], NOW_MS).outcome is Outcome.ABORTED


def test_without_any_marker_nothing_is_concluded() -> None:
    """The logs are lost and another producer has the id. The outcome is unknown, and the answer says why, for each partition."""
    status = conclude(TOKEN, LATER, [MUTE, Evidence("orders", 0)], NOW_MS)
    assert status.outcome is Outcome.UNKNOWN
    assert "the coordinator has Ongoing under producer id 4000, epoch 11" in status.why
    assert "orders-3: there is no such partition (any more); orders-0: no marker of it yet" in status.why
    assert "does not know transactional id 'orders-1'" in conclude(TOKEN, None, [MUTE], NOW_MS).why
    assert conclude(TOKEN, None, [], NOW_MS).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("name", "ahead", "version", "expected"),
    [
        ("Ongoing", 0, 1, False),
        ("CompleteCommit", 0, 1, False),
        ("PrepareAbort", 1, 1, False),
        ("CompleteAbort", 1, 1, False),
        ("CompleteAbort", 1, 2, False),
        ("CompleteCommit", 1, 2, False),
        ("CompleteCommit", 1, 1, True),
        ("Empty", 1, 1, True),
        ("Empty", 1, 2, True),
        ("Ongoing", 1, 2, True),
        ("Empty", 2, 1, True),
        ("CompleteAbort", 2, 2, True),
    ],
)
def test_the_coordinators_state_shows_a_later_registration(name: str, ahead: int, version: int, *, expected: bool) -> None:
    """A transaction's own end shows at most the next epoch. What a registration left has another state, or a later epoch."""
    version2 = version == 2
    assert registered_since((PID, EPOCH), state(name, EPOCH + ahead), version2=version2) is expected
    assert registered_since((PID, EPOCH), state(name, EPOCH + ahead, pid=PID + 1), version2=version2)


def test_contradictions_are_no_outcome() -> None:
    """Where two partitions, or a partition and the coordinator, say different things, both are told and none is believed."""
    for known, evidence in (
        (LATER, [found(committed=True), found(committed=False, partition=3)]),
        (state("CompleteCommit", EPOCH + 1), [found(committed=False)]),
    ):
        status = conclude(TOKEN, known, evidence, NOW_MS)
        assert status.outcome is Outcome.UNKNOWN
        assert "contradictory" in status.why


def test_an_open_transaction_has_a_deadline() -> None:
    """By the coordinator's clock, and the words say how long that is; past it the coordinator aborts when it next looks; a transaction
    without one says so."""
    open_state = state("Ongoing", EPOCH)
    status = conclude(TOKEN, open_state, [], NOW_MS)
    assert (status.outcome, status.deadline_left_s) == (Outcome.OPEN, 50.0)
    for later_ms, words in ((0, "for another 50.0 s"), (49_900, "for another 0.1 s"), (50_000, "has passed"), (60_000, "has passed")):
        assert conclude(TOKEN, open_state, [], NOW_MS + later_ms).why.endswith(words)
    timeless = replace(TOKEN, deadline_ms=None)
    assert conclude(timeless, replace(open_state, transaction_timeout_ms=NO_DEADLINE_MS), [], NOW_MS).why.endswith("no deadline")
    assert TOKEN.started_ms is not None
    until_ms = NOW_MS + 70_000 - TOKEN.started_ms
    assert conclude(timeless, replace(open_state, transaction_timeout_ms=until_ms), [], NOW_MS).why.endswith("for another 70.0 s")
