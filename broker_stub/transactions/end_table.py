"""The rules by which a transaction coordinator answers EndTxn and ends a transaction itself.

Rows E1 to E7 are for clients before transaction version 2, rows F1 to F8 for later ones. Read the table as the one in `init_and_add_table`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from fencepost.broker_stub.cluster.producer_ids import Identity
from fencepost.broker_stub.transactions.init_and_add_table import Decision, Row, always, decide, own
from fencepost.broker_stub.transactions.states import (
    COMPLETE,
    EPOCH_EXHAUSTED,
    IDLE,
    NONE,
    PREPARED,
    State,
    TransactionMetadata,
    Txn,
)
from fencepost.producer.wire.codes import ErrorCode
from fencepost.producer.wire.records import PRODUCER_EPOCH_MAX

EPOCH_BUMP_SINCE: Final = 2
"""The transaction version from which every end raises the epoch (KIP-890)."""


class End(Struct, frozen=True, kw_only=True):
    """EndTxn by this identity. `internal`: the coordinator itself ends the transaction, to fence its producer or because it timed out."""

    identity: Identity
    commit: bool
    now_ms: int
    fresh_id: Callable[[], int]
    internal: bool = False


def decide_end(known: TransactionMetadata, asked: End, *, version: int) -> Decision:
    """How the transaction ends: by the client's transaction version, or the cluster's where the coordinator ends it itself."""
    return decide(END_ROWS if version < EPOCH_BUMP_SINCE else END_ROWS_WITH_BUMP, known, asked)


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
    """The epoch stays, except that a fence brings its own epoch."""
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
    Row("E7", always, ErrorCode.INVALID_TXN_STATE),
)


def _is_retry(known: TransactionMetadata, asked: End) -> bool:
    """The request has the epoch before the current one, because the answer to an end was lost."""
    return known.pending is None and known.txn.epoch == asked.identity.epoch + 1


def _is_retry_of_the_last_epoch(known: TransactionMetadata, asked: End) -> bool:
    """The same, where the lost answer had a new producer id."""
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
        epoch=min(txn.epoch + 1, PRODUCER_EPOCH_MAX),
        last_epoch=txn.epoch,
        start_ms=txn.start_ms if txn.state is State.ONGOING else asked.now_ms,
        updated_ms=asked.now_ms,
        client_version=EPOCH_BUMP_SINCE,
    )


def _to_go_on_with(txn: Txn) -> Identity:
    """The producer id and epoch once the transaction is complete."""
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
    Row("F7", _retries_in(State.COMPLETE_COMMIT), identity=own),
    Row("F7", _aborts_in(State.COMPLETE_COMMIT), becomes=_prepared_with_bump, identity=_to_go_on_with),
    Row("F7", _in(State.COMPLETE_COMMIT), ErrorCode.INVALID_TXN_STATE),
    Row("F8", _retries_in(State.COMPLETE_ABORT), identity=own),
    Row("F8", _aborts_in(State.COMPLETE_ABORT), becomes=_prepared_with_bump, identity=_to_go_on_with),
    Row("F8", always, ErrorCode.INVALID_TXN_STATE),
)
"""Rows that Kafka decides in one place: there Kafka distinguishes commit, abort and retry."""
