"""What a transaction coordinator answers who wants an identity, or partitions in a transaction, as tables: the first row that matches a
question decides it.

Rows carry the names under which Kafka's behaviour is known here: I1 to I9 for InitProducerId, A1 to A6 for partitions to be added or
verified; `txn_end_table` has those of EndTxn. A decision says which row it came from, what to answer, and which values are to be written,
if any. It changes nothing, knows no time but the one it is given, and does not look at permissions, routes or what a version of a request
may say.
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


Q = TypeVar("Q")


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
    return decide(INIT_ROWS, known, asked)


def decide_add(known: TransactionMetadata, asked: Add) -> Decision:
    """Whether the partitions become part of its transaction."""
    return decide(ADD_ROWS, known, asked)


def decide_verify(known: TransactionMetadata, asked: Add) -> Decision:
    """Whether the identity may write; NONE says nothing yet about each partition."""
    return decide(VERIFY_ROWS, known, asked)


def decide(rows: tuple[Row[Q], ...], known: TransactionMetadata, asked: Q) -> Decision:
    """By the first row that matches."""
    for row in rows:
        if row.matches(known, asked):
            coming = row.becomes(known.txn, asked) if row.becomes is not None else None
            identity = row.identity(coming or known.txn) if row.identity is not None else None
            return Decision(row=row.name, code=row.code, coming=coming, identity=identity, fences=row.fences)
    raise AssertionError(f"no row for {known.txn} and {asked}")  # the last rows match everything that is left


def always(known: TransactionMetadata, asked: Q) -> bool:
    """What is left."""
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
    """As it is once this is written."""
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
    Row("A6", always, becomes=_with_partitions),
)

VERIFY_ROWS: Final[tuple[Row[Add], ...]] = (*_WHOSE, Row("V", always))
