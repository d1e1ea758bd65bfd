"""The coordinator's tables, row by row: which row decides, its response, and the values that it writes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, product
from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.broker_stub.cluster.producer_ids import Identity
from fencepost.broker_stub.transactions.end_table import END_ROWS, END_ROWS_WITH_BUMP, End, decide_end
from fencepost.broker_stub.transactions.init_and_add_table import (
    ADD_ROWS,
    INIT_ROWS,
    VERIFY_ROWS,
    Add,
    Decision,
    Init,
    decide_add,
    decide_init,
    decide_verify,
)
from fencepost.broker_stub.transactions.states import (
    BEFORE,
    IDLE,
    NEVER_TIMES_OUT_MS,
    State,
    TransactionMetadata,
    Txn,
    ended,
    is_expired,
    is_timed_out,
    new_txn,
)
from fencepost.producer.wire import ErrorCode

NOW_MS = 5_000
PID, PREVIOUS, FRESH = 7, 6, 100
A0, A1 = ("a", 0), ("a", 1)
OK, CONCURRENT, FENCED = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED
MAPPING, BAD_STATE = ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_TXN_STATE


def known(state: State = State.EMPTY, epoch: int = 5, *, pending: State | None = None, **values: Any) -> TransactionMetadata:
    """An id in this state at this epoch."""
    if state is State.ONGOING:
        values = {"partitions": frozenset((A0,)), "start_ms": 1_000, **values}
    metadata = TransactionMetadata(Txn(producer_id=PID, epoch=epoch, timeout_ms=60_000, updated_ms=2_000, state=state, **values))
    metadata.pending = pending
    return metadata


def init(metadata: TransactionMetadata, *expected: int) -> Decision:
    """InitProducerId with this expected identity, or without one."""
    identity = Identity(*expected) if expected else None
    return decide_init(metadata, Init(expected=identity, timeout_ms=30_000, now_ms=NOW_MS, fresh_id=lambda: FRESH))


def add(metadata: TransactionMetadata, *partitions: tuple[str, int], pid: int = PID, epoch: int = 5, version: int = 2) -> Decision:
    return decide_add(metadata, Add(identity=Identity(pid, epoch), partitions=frozenset(partitions), now_ms=NOW_MS, version=version))


def end(
    metadata: TransactionMetadata, *, commit: bool = True, pid: int = PID, epoch: int = 5, version: int = 0, internal: bool = False
) -> Decision:
    asked = End(identity=Identity(pid, epoch), commit=commit, now_ms=NOW_MS, fresh_id=lambda: FRESH, internal=internal)
    return decide_end(metadata, asked, version=version)


def said(decision: Decision) -> tuple[str, ErrorCode, tuple[int, int] | None]:
    """Row, answer and identity."""
    return decision.row, decision.code, decision.identity


INITS = [
    ("I1", known(pending=State.ONGOING), (), CONCURRENT, None),
    ("I1", known(State.PREPARE_COMMIT, pending=State.COMPLETE_COMMIT), (99, 1), CONCURRENT, None),
    ("I2", known(), (99, 5), FENCED, None),
    ("I2", known(previous_producer_id=PREVIOUS), (PREVIOUS, 32765), FENCED, None),
    ("I2", known(State.PREPARE_COMMIT), (99, 5), FENCED, None),
    ("I3", known(State.PREPARE_COMMIT), (), CONCURRENT, None),
    ("I3", known(State.PREPARE_ABORT), (PID, 5), CONCURRENT, None),
    ("I4", known(State.COMPLETE_COMMIT, 32766), (), OK, (FRESH, 0, -1)),
    ("I4", known(State.EMPTY, 32766), (PID, 32766), OK, (FRESH, 0, 32766)),
    ("I4", known(State.COMPLETE_ABORT, 32767), (), OK, (FRESH, 0, -1)),
    ("I5", known(), (), OK, (PID, 6, -1)),
    ("I5", known(State.EMPTY, -1), (), OK, (PID, 0, -1)),
    ("I5", known(State.EMPTY, 32765), (), OK, (PID, 32766, -1)),
    ("I6", known(State.COMPLETE_ABORT), (PID, 5), OK, (PID, 6, 5)),
    ("I6", known(State.EMPTY, -1), (99, 17), OK, (PID, 0, -1)),
    ("I7", known(last_epoch=4), (PID, 4), OK, (PID, 5, 4)),
    ("I7", known(State.EMPTY, 0, last_epoch=32766, previous_producer_id=PREVIOUS), (PREVIOUS, 32766), OK, (PID, 0, 32766)),
    ("I8", known(last_epoch=4), (PID, 3), FENCED, None),
    ("I8", known(State.COMPLETE_COMMIT), (PID, 6), FENCED, None),
    ("I9", known(State.ONGOING), (), CONCURRENT, None),
    ("I9", known(State.ONGOING), (PID, 3), CONCURRENT, None),
]


@pytest.mark.parametrize(
    ("row", "metadata", "expected", "code", "becomes"), INITS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_init_producer_id(row: str, metadata: TransactionMetadata, expected: tuple[int, ...], code: ErrorCode, becomes: Any) -> None:
    """A request for an identity gets the next one, the last one again, a new producer id, or a refusal, as the row says."""
    decision = init(metadata, *expected)
    assert (decision.row, decision.code, decision.fences) == (row, code, row == "I9")
    if becomes is None:
        assert (decision.coming, decision.identity) == (None, None)
        return
    coming = decision.coming
    assert coming is not None
    assert (coming.producer_id, coming.epoch, coming.last_epoch) == becomes
    assert decision.identity == coming.identity
    assert (coming.state, coming.partitions, coming.start_ms) == (State.EMPTY, frozenset(), -1)
    assert (coming.timeout_ms, coming.updated_ms, coming.previous_producer_id) == (30_000, NOW_MS, PID)


ADDS = [
    ("A1", known(pending=State.EMPTY), {"pid": 99}, CONCURRENT),
    ("A2", known(State.ONGOING), {"pid": 99, "epoch": 4}, MAPPING),
    ("A3", known(State.ONGOING), {"epoch": 4}, FENCED),
    ("A3", known(State.ONGOING), {"epoch": 6}, FENCED),
    ("A3", known(State.PREPARE_COMMIT), {"epoch": 4}, FENCED),
    ("A4", known(State.PREPARE_COMMIT), {}, CONCURRENT),
    ("A4", known(State.PREPARE_ABORT), {}, CONCURRENT),
    ("A5", known(State.ONGOING), {}, OK),
]


@pytest.mark.parametrize(("row", "metadata", "asked", "code"), ADDS, ids=lambda value: value if isinstance(value, str) else "")
def test_add_partitions_without_a_write(row: str, metadata: TransactionMetadata, asked: dict[str, int], code: ErrorCode) -> None:
    """A producer that is not the owner, or that comes while the last transaction ends, adds nothing. A partition that is there is not added
    again."""
    decision = add(metadata, A0, **asked)
    assert (decision.row, decision.code, decision.coming) == (row, code, None)


@pytest.mark.parametrize("state", [*sorted(IDLE), State.ONGOING], ids=lambda state: f"A6 {state.name}")
def test_partitions_are_added(state: State) -> None:
    """A6: the transaction begins with its first partition, and its time with it; further ones join."""
    decision = add(known(state), A1)
    coming = decision.coming
    assert said(decision) == ("A6", OK, None)
    assert coming is not None
    assert (coming.state, coming.identity, coming.client_version) == (State.ONGOING, (PID, 5), 2)
    if state is State.ONGOING:
        assert (coming.partitions, coming.start_ms) == (frozenset((A0, A1)), 1_000)
    else:
        assert (coming.partitions, coming.start_ms) == (frozenset((A1,)), NOW_MS)


def test_verification_looks_at_owners_and_states_only() -> None:
    """A2 to A4 hold for a verification, too. A pending change does not matter then."""

    def verify(metadata: TransactionMetadata, pid: int = PID, epoch: int = 5) -> tuple[str, ErrorCode]:
        decision = decide_verify(metadata, Add(identity=Identity(pid, epoch), partitions=frozenset((A0,)), now_ms=NOW_MS))
        assert decision.coming is None
        return decision.row, decision.code

    assert verify(known(State.ONGOING), pid=99) == ("A2", MAPPING)
    assert verify(known(State.ONGOING), epoch=6) == ("A3", FENCED)
    assert verify(known(State.PREPARE_ABORT)) == ("A4", CONCURRENT)
    assert verify(known(State.EMPTY, pending=State.ONGOING)) == ("V", OK)


ENDS = [
    ("E1", known(State.ONGOING), {"pid": 99}, MAPPING),
    ("E2", known(State.ONGOING), {"epoch": 4}, FENCED),
    ("E2", known(State.ONGOING), {"epoch": 6}, FENCED),
    ("E2", known(State.ONGOING), {"epoch": 4, "internal": True}, FENCED),
    ("E3", known(State.ONGOING, pending=State.ONGOING), {}, CONCURRENT),
    ("E3", known(State.PREPARE_COMMIT, pending=State.COMPLETE_COMMIT), {"commit": False}, CONCURRENT),
    ("E5", known(State.COMPLETE_COMMIT), {}, OK),
    ("E5", known(State.COMPLETE_ABORT), {"commit": False}, OK),
    ("E6", known(State.PREPARE_COMMIT), {}, CONCURRENT),
    ("E6", known(State.PREPARE_ABORT), {"commit": False}, CONCURRENT),
    ("E7", known(State.EMPTY), {}, BAD_STATE),
    ("E7", known(State.EMPTY), {"commit": False}, BAD_STATE),
    ("E7", known(State.COMPLETE_COMMIT), {"commit": False}, BAD_STATE),
    ("E7", known(State.PREPARE_ABORT), {}, BAD_STATE),
]


@pytest.mark.parametrize(("row", "metadata", "asked", "code"), ENDS, ids=lambda value: value if isinstance(value, str) else "")
def test_an_end_that_changes_nothing(row: str, metadata: TransactionMetadata, asked: dict[str, Any], code: ErrorCode) -> None:
    """Before transaction version 2 only an open transaction ends. A repeated request for a completed end succeeds."""
    decision = end(metadata, **asked)
    assert (decision.row, decision.code, decision.coming, decision.identity) == (row, code, None, None)


@pytest.mark.parametrize("commit", [True, False], ids=["E4 commit", "E4 abort"])
def test_an_end_keeps_the_epoch(commit: bool) -> None:
    """E4: the transaction is prepared with the epoch that it had; complete, it keeps that, too."""
    decision = end(known(State.ONGOING, last_epoch=4), commit=commit)
    coming = decision.coming
    assert said(decision) == ("E4", OK, None)
    assert coming is not None
    assert (coming.identity, coming.last_epoch, coming.partitions, coming.client_version) == ((PID, 5), 4, frozenset((A0,)), 0)
    assert coming.state is (State.PREPARE_COMMIT if commit else State.PREPARE_ABORT)
    done = ended(coming, now_ms=NOW_MS + 1)
    assert (done.identity, done.partitions, done.updated_ms) == ((PID, 5), frozenset(), NOW_MS + 1)
    assert done.state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)


def test_a_fence_brings_its_epoch() -> None:
    """E4 by the coordinator: the markers have the fence's epoch, and no last epoch is known any more."""
    metadata = known(State.ONGOING, last_epoch=4)
    metadata.prepare_fence()
    coming = end(metadata, commit=False, epoch=6, internal=True).coming
    assert coming is not None
    assert (coming.state, coming.identity, coming.last_epoch) == (State.PREPARE_ABORT, (PID, 6), -1)


OVERFLOWED: dict[str, Any] = {"epoch": 0, "last_epoch": 32766, "previous_producer_id": PREVIOUS}

BUMPS = [
    ("F1", known(State.ONGOING, pending=State.ONGOING), {"pid": 99}, CONCURRENT, None),
    ("F1", known(State.PREPARE_COMMIT, 6, pending=State.COMPLETE_COMMIT), {}, CONCURRENT, None),
    ("F2", known(State.ONGOING), {"pid": 99}, MAPPING, None),
    ("F2", known(State.COMPLETE_COMMIT, **OVERFLOWED), {"pid": PREVIOUS, "epoch": 32765}, MAPPING, None),
    ("F3", known(State.ONGOING, 6), {}, FENCED, None),
    ("F3", known(State.EMPTY, 4), {}, FENCED, None),
    ("F3", known(State.EMPTY, 6), {}, FENCED, None),
    ("F3", known(State.PREPARE_COMMIT), {}, FENCED, None),
    ("F3", known(State.COMPLETE_COMMIT, 7), {}, FENCED, None),
    ("F3", known(State.ONGOING, 0, last_epoch=32766, previous_producer_id=PREVIOUS), {"pid": PREVIOUS, "epoch": 32766}, FENCED, None),
    ("F5", known(State.PREPARE_COMMIT, 6), {}, CONCURRENT, None),
    ("F5", known(State.PREPARE_COMMIT, 6), {"commit": False}, BAD_STATE, None),
    ("F5", known(State.PREPARE_ABORT, 6), {"commit": False}, CONCURRENT, None),
    ("F5", known(State.PREPARE_ABORT, 6), {}, BAD_STATE, None),
    ("F6", known(State.EMPTY), {}, BAD_STATE, None),
    ("F7", known(State.COMPLETE_COMMIT, 6), {}, OK, (PID, 6)),
    ("F7", known(State.COMPLETE_COMMIT, **OVERFLOWED), {"pid": PREVIOUS, "epoch": 32766}, OK, (PID, 0)),
    ("F7", known(State.COMPLETE_COMMIT), {}, BAD_STATE, None),
    ("F7", known(State.COMPLETE_COMMIT, 6), {"commit": False}, BAD_STATE, None),
    ("F8", known(State.COMPLETE_ABORT, 6), {"commit": False}, OK, (PID, 6)),
    ("F8", known(State.COMPLETE_ABORT, 6), {}, BAD_STATE, None),
    ("F8", known(State.COMPLETE_ABORT), {}, BAD_STATE, None),
]


@pytest.mark.parametrize(("row", "metadata", "asked", "code", "identity"), BUMPS, ids=lambda value: value if isinstance(value, str) else "")
def test_an_end_with_bump_that_changes_nothing(
    row: str, metadata: TransactionMetadata, asked: dict[str, Any], code: ErrorCode, identity: tuple[int, int] | None
) -> None:
    """From transaction version 2 on the epoch tells a retry from the end of the next transaction."""
    decision = end(metadata, version=2, **asked)
    assert said(decision) == (row, code, identity)
    assert decision.coming is None


@pytest.mark.parametrize(
    ("row", "state", "commit"),
    [
        ("F4", State.ONGOING, True),
        ("F4", State.ONGOING, False),
        ("F6", State.EMPTY, False),
        ("F7", State.COMPLETE_COMMIT, False),
        ("F8", State.COMPLETE_ABORT, False),
    ],
)
def test_an_end_raises_the_epoch(row: str, state: State, commit: bool) -> None:
    """F4, and aborts of nothing: the markers and the producer's next transaction have the next epoch."""
    decision = end(known(state), commit=commit, version=2)
    coming = decision.coming
    assert said(decision) == (row, OK, (PID, 6))
    assert coming is not None
    assert (coming.identity, coming.last_epoch, coming.next_producer_id, coming.client_version) == ((PID, 6), 5, -1, 2)
    assert coming.start_ms == (1_000 if state is State.ONGOING else NOW_MS)
    assert ended(coming, now_ms=NOW_MS).identity == (PID, 6)


def test_the_last_epoch_leads_to_a_new_producer_id() -> None:
    """F4 at epoch 32766: the markers carry 32767, the producer goes on with a new id at epoch 0, and its retry is known."""
    decision = end(known(State.ONGOING, 32766), epoch=32766, version=2)
    coming = decision.coming
    assert said(decision) == ("F4", OK, (FRESH, 0))
    assert coming is not None
    assert (coming.identity, coming.next_producer_id) == ((PID, 32767), FRESH)
    done = ended(coming, now_ms=NOW_MS)
    assert (done.identity, done.last_epoch, done.previous_producer_id, done.next_producer_id) == ((FRESH, 0), 32766, PID, -1)
    assert said(end(TransactionMetadata(done), epoch=32766, version=2)) == ("F7", OK, (FRESH, 0))
    assert init(TransactionMetadata(done), PID, 32766).row == "I7"


def test_no_epoch_is_above_the_highest() -> None:
    """F4 at epoch 32767, where only a fence gets to: the markers carry it again, and a new producer id follows."""
    metadata = known(State.ONGOING, 32767)
    metadata.prepare_fence()
    coming = end(metadata, commit=False, epoch=32767, version=2, internal=True).coming
    assert coming is not None
    assert (coming.identity, coming.next_producer_id) == ((PID, 32767), FRESH)


def test_every_line_of_the_tables_is_there_once_and_in_order() -> None:
    """The tables are those of Kafka's coordinator, and the cases here ask every row."""
    for rows, letter, length in ((INIT_ROWS, "I", 9), (ADD_ROWS, "A", 6), (END_ROWS, "E", 7), (END_ROWS_WITH_BUMP, "F", 8)):
        assert list(dict.fromkeys(row.name for row in rows)) == [f"{letter}{number}" for number in range(1, length + 1)]
    assert [row.name for row in VERIFY_ROWS] == ["A2", "A3", "A4", "V"]
    assert {row for row, *_ in INITS} == {row.name for row in INIT_ROWS}


STATES = [state for state in State if state not in (State.DEAD, State.PREPARE_EPOCH_FENCE)]


@pytest.mark.parametrize(("state", "pending"), [*product(STATES, [None, State.PREPARE_EPOCH_FENCE, State.EMPTY])])
def test_every_question_has_an_answer_and_every_change_is_legal(state: State, pending: State | None) -> None:
    """For every request in every state a row decides, and the state that it writes may follow. An error writes nothing."""
    fresh = count(FRESH)
    for epoch, other, commit, internal in product((-1, 4, 5, 32766, 32767), (PID, PREVIOUS), (True, False), (True, False)):
        metadata = known(state, pending=pending, previous_producer_id=PREVIOUS, last_epoch=4)
        ask = End(identity=Identity(other, epoch), commit=commit, now_ms=NOW_MS, fresh_id=lambda: next(fresh), internal=internal)
        asked: list[Callable[[], Decision]] = [
            lambda: init(metadata, other, epoch),  # noqa: B023  # called at once
            lambda: add(metadata, A1, pid=other, epoch=epoch),  # noqa: B023
            lambda: decide_end(metadata, ask, version=0),  # noqa: B023
            lambda: decide_end(metadata, ask, version=2),  # noqa: B023
        ]
        for decision in (each() for each in asked):
            coming = decision.coming
            if coming is not None:
                assert decision.code == OK
                metadata.give_up()
                metadata.prepare(coming)
                metadata.give_up()


def test_a_change_is_in_force_when_it_is_complete() -> None:
    """Between its two steps the old values hold, and a change that could not be written leaves them."""
    metadata = known(State.EMPTY)
    coming = replace(metadata.txn, state=State.ONGOING)
    metadata.prepare(coming)
    assert (metadata.pending, metadata.txn.state) == (State.ONGOING, State.EMPTY)
    metadata.give_up()
    assert (metadata.pending, metadata.txn.state) == (None, State.EMPTY)
    metadata.prepare(coming)
    metadata.complete(coming)
    assert (metadata.pending, metadata.txn.state) == (None, State.ONGOING)
    with pytest.raises(AssertionError):
        metadata.prepare(replace(coming, state=State.COMPLETE_COMMIT))


def test_names_and_numbers_of_the_states_are_kafkas() -> None:
    """As its records and its tools have them."""
    assert [state.wire_name for state in State] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
    assert list(State) == list(range(8)) == list(BEFORE)


def test_time_runs_from_the_first_partition() -> None:
    """A transaction times out after its own timeout, unless it is ending, or has two-phase commit's timeout."""
    metadata = known(State.ONGOING)
    assert not is_timed_out(metadata, 61_000)
    assert is_timed_out(metadata, 61_001)
    metadata.pending = State.PREPARE_COMMIT
    assert not is_timed_out(metadata, 61_001)
    assert not is_timed_out(known(State.COMPLETE_COMMIT, start_ms=0), 61_001)
    prepared = known(State.ONGOING)
    prepared.txn = replace(prepared.txn, timeout_ms=NEVER_TIMES_OUT_MS)
    assert not is_timed_out(prepared, NEVER_TIMES_OUT_MS * 2)


def test_an_unused_id_expires() -> None:
    """Never while a transaction is open or something is being written."""
    assert is_expired(known(State.COMPLETE_ABORT), 2_100, after_ms=100)
    assert not is_expired(known(State.COMPLETE_ABORT), 2_099, after_ms=100)
    assert not is_expired(known(State.ONGOING), 9_000, after_ms=100)
    assert not is_expired(known(State.EMPTY, pending=State.ONGOING), 9_000, after_ms=100)
    assert is_expired(TransactionMetadata(new_txn(1, timeout_ms=1, now_ms=0)), 100, after_ms=100)
