"""The rules by which a transaction coordinator answers InitProducerId and AddPartitionsToTxn, as tables. The first matching row decides.

Rows have names: I1 to I9 for InitProducerId, A1 to A6 for partitions to add or to verify. `end_table` has those of EndTxn. A decision
has its row, the answer, and the values to write, if any. The tables change nothing and read no clock. Handlers check permissions, the
coordinator, and what a version of a request can express.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from fencepost.broker_stub.cluster.producer_ids import Identity
from fencepost.broker_stub.transactions.states import EPOCH_EXHAUSTED, IDLE, NONE, PREPARED, State, TopicPartition, TransactionMetadata, Txn
from fencepost.producer.wire.codes import ErrorCode


class Decision(Struct, frozen=True, kw_only=True):
    """The decision about a request: the answer, and the values that the log must have before the answer is sent."""

    row: str
    code: ErrorCode
    coming: Txn | None = None
    identity: Identity | None = None
    fences: bool = False
    """The coordinator must abort the open transaction first."""


class Init(Struct, frozen=True, kw_only=True):
    """InitProducerId: the identity that the producer already has, if any, and the timeout that it wants."""

    expected: Identity | None
    timeout_ms: int
    now_ms: int
    fresh_id: Callable[[], int]


class Add(Struct, frozen=True, kw_only=True):
    """Partitions to add or to verify, with the producer's identity. `version` is the client's transaction version."""

    identity: Identity
    partitions: frozenset[TopicPartition]
    now_ms: int
    version: int = 0


Q = TypeVar("Q")


class Row(Struct, Generic[Q], frozen=True):
    """One row of a table: its condition, its answer, and the values to write."""

    name: str
    matches: Callable[[TransactionMetadata, Q], bool]
    code: ErrorCode = ErrorCode.NONE
    becomes: Callable[[Txn, Q], Txn] | None = None
    identity: Callable[[Txn], Identity] | None = None
    fences: bool = False


def decide_init(known: TransactionMetadata, asked: Init) -> Decision:
    """The producer id and epoch that the producer has from now on."""
    return decide(INIT_ROWS, known, asked)


def decide_add(known: TransactionMetadata, asked: Add) -> Decision:
    """The code for adding the partitions to the transaction."""
    return decide(ADD_ROWS, known, asked)


def decide_verify(known: TransactionMetadata, asked: Add) -> Decision:
    """The code for the identity. After NONE each partition gets its own code."""
    return decide(VERIFY_ROWS, known, asked)


def decide(rows: tuple[Row[Q], ...], known: TransactionMetadata, asked: Q) -> Decision:
    """The decision of the first matching row."""
    for row in rows:
        if row.matches(known, asked):
            coming = row.becomes(known.txn, asked) if row.becomes is not None else None
            identity = row.identity(coming or known.txn) if row.identity is not None else None
            return Decision(row=row.name, code=row.code, coming=coming, identity=identity, fences=row.fences)
    raise AssertionError(f"no row for {known.txn} and {asked}")  # the last row matches every request


def always(known: TransactionMetadata, asked: Q) -> bool:
    """Matches every request."""
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


def own(txn: Txn) -> Identity:
    """The identity once this is written."""
    return txn.identity


INIT_ROWS: Final[tuple[Row[Init], ...]] = (
    Row("I1", lambda known, asked: known.pending is not None, ErrorCode.CONCURRENT_TRANSACTIONS),
    Row("I2", _is_another, ErrorCode.PRODUCER_FENCED),
    Row("I3", lambda known, asked: known.txn.state in PREPARED, ErrorCode.CONCURRENT_TRANSACTIONS),
    Row("I4", _has_no_epoch_left, becomes=_rotated, identity=own),
    Row("I5", _expects_nothing, becomes=_raised, identity=own),
    Row("I6", _expects_its_epoch, becomes=_raised, identity=own),
    Row("I7", _expects_its_last_epoch, becomes=_repeated, identity=own),
    Row("I8", lambda known, asked: known.txn.state in IDLE, ErrorCode.PRODUCER_FENCED),
    Row("I9", always, ErrorCode.CONCURRENT_TRANSACTIONS, fences=True),
)


# AddPartitionsToTxn, and the verification for Produce and TxnOffsetCommit


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
    Row("A6", always, becomes=_with_partitions),
)

VERIFY_ROWS: Final[tuple[Row[Add], ...]] = (*_WHOSE, Row("V", always))
