"""What a transaction coordinator answers, as tables: the first row that matches a question decides it.

Rows carry the names under which Kafka's behaviour is known here: I1 to I9 for InitProducerId, A1 to A6 for partitions to be added or
verified, E1 to E7 for EndTxn before transaction version 2, F1 to F8 from then on. A decision says which row it came from, what to answer,
and which values are to be written, if any. It changes nothing, knows no time but the one it is given, and does not look at permissions,
routes or what a version of a request may say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from broker_stub.coordinators.txn_states import (
    COMPLETE,
    EPOCH_EXHAUSTED,
    EPOCH_MAX,
    IDLE,
    NONE,
    PREPARED,
    Identity,
    State,
    TopicPartition,
    TransactionMetadata,
    Txn,
)
from producer.wire.codes import ErrorCode

EPOCH_BUMP_SINCE: Final = 2
"""The transaction version from which the epoch goes up with every end (KIP-890)."""


class Decision(Struct, frozen=True, kw_only=True):
    """What becomes of a question: the answer, and what has to be in the log before it is given."""

    row: str
    code: ErrorCode
    coming: Txn | None = None
    identity: Identity | None = None
    fences: bool = False
    """The open transaction is to be aborted in the name of somebody else."""


class Init(Struct, frozen=True, kw_only=True):
    """InitProducerId: the identity that the producer expects to have, if it says so, and what it wants."""

    expected: Identity | None
    timeout_ms: int
    now_ms: int
    fresh_id: Callable[[], int]


class Add(Struct, frozen=True, kw_only=True):
    """Partitions to be added, or verified, in the name of this identity. `version` is the client's transaction version."""

    identity: Identity
    partitions: frozenset[TopicPartition]
    now_ms: int
    version: int = 0


class End(Struct, frozen=True, kw_only=True):
    """EndTxn by this identity; `internal` if it is the coordinator that fences."""

    identity: Identity
    commit: bool
    now_ms: int
    fresh_id: Callable[[], int]
    internal: bool = False


Q = TypeVar("Q", Init, Add, End)


class Row(Struct, Generic[Q], frozen=True):
    """One line of a table: when it matches, what it answers, and which values it wants written."""

    name: str
    matches: Callable[[TransactionMetadata, Q], bool]
    code: ErrorCode = ErrorCode.NONE
    becomes: Callable[[Txn, Q], Txn] | None = None
    identity: Callable[[Txn], Identity] | None = None
    fences: bool = False


def decide_init(known: TransactionMetadata, asked: Init) -> Decision:
    """Who the producer is from now on."""
    return _decide(INIT_ROWS, known, asked)


def decide_add(known: TransactionMetadata, asked: Add) -> Decision:
    """Whether the partitions become part of its transaction."""
    return _decide(ADD_ROWS, known, asked)


def decide_verify(known: TransactionMetadata, asked: Add) -> Decision:
    """Whether the identity may write; NONE says nothing yet about each partition."""
    return _decide(VERIFY_ROWS, known, asked)


def decide_end(known: TransactionMetadata, asked: End, *, version: int) -> Decision:
    """How its transaction ends, by the client's transaction version, or the cluster's where the coordinator ends it itself."""
    return _decide(END_ROWS if version < EPOCH_BUMP_SINCE else END_ROWS_WITH_BUMP, known, asked)


def _decide(rows: tuple[Row[Q], ...], known: TransactionMetadata, asked: Q) -> Decision:
    for row in rows:
        if row.matches(known, asked):
            coming = row.becomes(known.txn, asked) if row.becomes is not None else None
            identity = row.identity(coming or known.txn) if row.identity is not None else None
            return Decision(row=row.name, code=row.code, coming=coming, identity=identity, fences=row.fences)
    raise AssertionError(f"no row for {known.txn} and {asked}")  # the last rows match everything that is left


def _always(known: TransactionMetadata, asked: Q) -> bool:
    return True


# InitProducerId


def _is_another(known: TransactionMetadata, asked: Init) -> bool:
    txn, expected = known.txn, asked.expected
    if expected is None or txn.epoch == NONE or expected.producer_id == txn.producer_id:
        return False
    return expected.producer_id != txn.previous_producer_id or expected.epoch < EPOCH_EXHAUSTED


def _has_no_epoch_left(known: TransactionMetadata, asked: Init) -> bool:
    txn = known.txn
    return txn.state in IDLE and txn.is_epoch_exhausted and (asked.expected is None or asked.expected.epoch == txn.epoch)


def _expects_nothing(known: TransactionMetadata, asked: Init) -> bool:
    return known.txn.state in IDLE and asked.expected is None


def _expects_its_epoch(known: TransactionMetadata, asked: Init) -> bool:
    txn = known.txn
    return txn.state in IDLE and asked.expected is not None and txn.epoch in (NONE, asked.expected.epoch)


def _expects_its_last_epoch(known: TransactionMetadata, asked: Init) -> bool:
    return known.txn.state in IDLE and asked.expected is not None and asked.expected.epoch == known.txn.last_epoch


def _begun(txn: Txn, asked: Init, producer_id: int, epoch: int, last_epoch: int) -> Txn:
    return Txn(
        producer_id=producer_id,
        previous_producer_id=txn.producer_id,
        epoch=epoch,
        last_epoch=last_epoch,
        timeout_ms=asked.timeout_ms,
        updated_ms=asked.now_ms,
        client_version=txn.client_version,
    )


def _rotated(txn: Txn, asked: Init) -> Txn:
    return _begun(txn, asked, asked.fresh_id(), 0, txn.epoch if asked.expected is not None else NONE)


def _raised(txn: Txn, asked: Init) -> Txn:
    return _begun(txn, asked, txn.producer_id, txn.epoch + 1, txn.epoch if asked.expected is not None else NONE)


def _repeated(txn: Txn, asked: Init) -> Txn:
    return _begun(txn, asked, txn.producer_id, txn.epoch, txn.last_epoch)


def _own(txn: Txn) -> Identity:
    return txn.identity


INIT_ROWS: Final[tuple[Row[Init], ...]] = (
    Row("I1", lambda known, asked: known.pending is not None, ErrorCode.CONCURRENT_TRANSACTIONS),
    Row("I2", _is_another, ErrorCode.PRODUCER_FENCED),
    Row("I3", lambda known, asked: known.txn.state in PREPARED, ErrorCode.CONCURRENT_TRANSACTIONS),
    Row("I4", _has_no_epoch_left, becomes=_rotated, identity=_own),
    Row("I5", _expects_nothing, becomes=_raised, identity=_own),
    Row("I6", _expects_its_epoch, becomes=_raised, identity=_own),
    Row("I7", _expects_its_last_epoch, becomes=_repeated, identity=_own),
    Row("I8", lambda known, asked: known.txn.state in IDLE, ErrorCode.PRODUCER_FENCED),
    Row("I9", _always, ErrorCode.CONCURRENT_TRANSACTIONS, fences=True),
)


# AddPartitionsToTxn, and what brokers ask on behalf of Produce and TxnOffsetCommit


def _has_all(known: TransactionMetadata, asked: Add) -> bool:
    return known.txn.state is State.ONGOING and asked.partitions <= known.txn.partitions


def _with_partitions(txn: Txn, asked: Add) -> Txn:
    return replace(
        txn,
        state=State.ONGOING,
        previous_producer_id=txn.producer_id,
        partitions=txn.partitions | asked.partitions,
        start_ms=asked.now_ms if txn.state in IDLE else txn.start_ms,
        updated_ms=asked.now_ms,
        client_version=asked.version,
    )


_WHOSE: Final[tuple[Row[Add], ...]] = (
    Row("A2", lambda known, asked: asked.identity.producer_id != known.txn.producer_id, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    Row("A3", lambda known, asked: asked.identity.epoch != known.txn.epoch, ErrorCode.PRODUCER_FENCED),
    Row("A4", lambda known, asked: known.txn.state in PREPARED, ErrorCode.CONCURRENT_TRANSACTIONS),
)

ADD_ROWS: Final[tuple[Row[Add], ...]] = (
    Row("A1", lambda known, asked: known.pending is not None, ErrorCode.CONCURRENT_TRANSACTIONS),
    *_WHOSE,
    Row("A5", _has_all),
    Row("A6", _always, becomes=_with_partitions),
)

VERIFY_ROWS: Final[tuple[Row[Add], ...]] = (*_WHOSE, Row("V", _always))


# EndTxn


def _is_pending(known: TransactionMetadata, asked: End) -> bool:
    return known.pending not in (None, State.PREPARE_EPOCH_FENCE)


def _is_ongoing(known: TransactionMetadata, asked: End) -> bool:
    return known.txn.state is State.ONGOING


def _other_producer(known: TransactionMetadata, asked: End) -> bool:
    return asked.identity.producer_id != known.txn.producer_id


def _other_epoch(known: TransactionMetadata, asked: End) -> bool:
    return asked.identity.epoch < known.txn.epoch if asked.internal else asked.identity.epoch != known.txn.epoch


def _ended_so(known: TransactionMetadata, asked: End) -> bool:
    return known.txn.state is (State.COMPLETE_COMMIT if asked.commit else State.COMPLETE_ABORT)


def _ends_so(known: TransactionMetadata, asked: End) -> bool:
    return known.txn.state is _prepared(asked)


def _prepared(asked: End) -> State:
    return State.PREPARE_COMMIT if asked.commit else State.PREPARE_ABORT


def _prepared_txn(txn: Txn, asked: End) -> Txn:
    """The epoch stays, but for a fence, which brings its own."""
    return replace(
        txn,
        state=_prepared(asked),
        previous_producer_id=txn.producer_id,
        epoch=asked.identity.epoch,
        last_epoch=NONE if asked.internal else txn.last_epoch,
        updated_ms=asked.now_ms,
        client_version=0,
    )


END_ROWS: Final[tuple[Row[End], ...]] = (
    Row("E1", _other_producer, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    Row("E2", _other_epoch, ErrorCode.PRODUCER_FENCED),
    Row("E3", _is_pending, ErrorCode.CONCURRENT_TRANSACTIONS),
    Row("E4", _is_ongoing, becomes=_prepared_txn),
    Row("E5", _ended_so),
    Row("E6", _ends_so, ErrorCode.CONCURRENT_TRANSACTIONS),
    Row("E7", _always, ErrorCode.INVALID_TXN_STATE),
)


def _is_retry(known: TransactionMetadata, asked: End) -> bool:
    """The epoch is the one before the present one: the answer to an end was lost."""
    return known.pending is None and known.txn.epoch == asked.identity.epoch + 1


def _is_retry_of_the_last_epoch(known: TransactionMetadata, asked: End) -> bool:
    """The same, where a new producer id came with it."""
    before = Identity(known.txn.previous_producer_id, EPOCH_EXHAUSTED)
    return known.pending is None and asked.identity == before and known.txn.epoch == 0


def _has_a_wrong_epoch(known: TransactionMetadata, asked: End) -> bool:
    txn, epoch = known.txn, asked.identity.epoch
    if asked.internal:
        return epoch < txn.epoch
    if txn.state in PREPARED:
        return not _is_retry(known, asked)
    if txn.state in COMPLETE:
        return epoch != txn.epoch and not _is_retry(known, asked) and not _is_retry_of_the_last_epoch(known, asked)
    return epoch != txn.epoch


def _retries_what_was_done(known: TransactionMetadata, asked: End) -> bool:
    return _ended_so(known, asked) and (_is_retry(known, asked) or _is_retry_of_the_last_epoch(known, asked))


def _aborts_nothing(known: TransactionMetadata, asked: End) -> bool:
    return known.txn.state in IDLE and not asked.commit and asked.identity.epoch == known.txn.epoch


def _prepared_with_bump(txn: Txn, asked: End) -> Txn:
    return replace(
        txn,
        state=_prepared(asked),
        previous_producer_id=txn.producer_id,
        next_producer_id=asked.fresh_id() if txn.is_epoch_exhausted else NONE,
        epoch=min(txn.epoch + 1, EPOCH_MAX),
        last_epoch=txn.epoch,
        start_ms=txn.start_ms if txn.state is State.ONGOING else asked.now_ms,
        updated_ms=asked.now_ms,
        client_version=EPOCH_BUMP_SINCE,
    )


def _to_go_on_with(txn: Txn) -> Identity:
    """The identity once the transaction is complete."""
    return Identity(txn.next_producer_id, 0) if txn.next_producer_id != NONE else txn.identity


def _in(state: State) -> Callable[[TransactionMetadata, End], bool]:
    return lambda known, asked: known.txn.state is state


def _retries_in(state: State) -> Callable[[TransactionMetadata, End], bool]:
    return lambda known, asked: known.txn.state is state and _retries_what_was_done(known, asked)


def _aborts_in(state: State) -> Callable[[TransactionMetadata, End], bool]:
    return lambda known, asked: known.txn.state is state and _aborts_nothing(known, asked)


END_ROWS_WITH_BUMP: Final[tuple[Row[End], ...]] = (
    Row("F1", _is_pending, ErrorCode.CONCURRENT_TRANSACTIONS),
    Row(
        "F2",
        lambda known, asked: _other_producer(known, asked) and not _is_retry_of_the_last_epoch(known, asked),
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ),
    Row("F3", _has_a_wrong_epoch, ErrorCode.PRODUCER_FENCED),
    Row("F4", _is_ongoing, becomes=_prepared_with_bump, identity=_to_go_on_with),
    Row("F5", _ends_so, ErrorCode.CONCURRENT_TRANSACTIONS),
    Row("F5", lambda known, asked: known.txn.state in PREPARED, ErrorCode.INVALID_TXN_STATE),
    Row("F6", _aborts_in(State.EMPTY), becomes=_prepared_with_bump, identity=_to_go_on_with),
    Row("F6", _in(State.EMPTY), ErrorCode.INVALID_TXN_STATE),
    Row("F7", _retries_in(State.COMPLETE_COMMIT), identity=_own),
    Row("F7", _aborts_in(State.COMPLETE_COMMIT), becomes=_prepared_with_bump, identity=_to_go_on_with),
    Row("F7", _in(State.COMPLETE_COMMIT), ErrorCode.INVALID_TXN_STATE),
    Row("F8", _retries_in(State.COMPLETE_ABORT), identity=_own),
    Row("F8", _aborts_in(State.COMPLETE_ABORT), becomes=_prepared_with_bump, identity=_to_go_on_with),
    Row("F8", _always, ErrorCode.INVALID_TXN_STATE),
)
"""Several rows of one name are one line of Kafka's, which asks there whether it is a commit, an abort, or a retry."""
