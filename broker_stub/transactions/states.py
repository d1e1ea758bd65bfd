"""What a transaction coordinator remembers of one transactional id, and the states that this goes through (Kafka's TransactionMetadata).

A change is made in two steps: `prepare` says what is to come, which is then written to the log, and `complete` puts it in force. Between
the two the id is pending. It decides nothing: `txn_table` does.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from fencepost.broker_stub.cluster.producer_ids import Identity

NONE: Final = -1
EPOCH_EXHAUSTED: Final = 32766  # the largest epoch that a client may own
EPOCH_MAX: Final = 32767  # for fences and markers only
NEVER_TIMES_OUT_MS: Final = 2**31 - 1

TopicPartition = tuple[str, int]


class State(IntEnum):
    """The numbers are those of the log's records."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def wire_name(self) -> str:
        """What ListTransactions and DescribeTransactions call it."""
        return "".join(word.capitalize() for word in self.name.split("_"))


COMPLETE: Final = frozenset((State.COMPLETE_COMMIT, State.COMPLETE_ABORT))
IDLE: Final = COMPLETE | {State.EMPTY}
"""No transaction is open: the id may expire."""
PREPARED: Final = frozenset((State.PREPARE_COMMIT, State.PREPARE_ABORT))

BEFORE: Final[dict[State, frozenset[State]]] = {
    State.EMPTY: IDLE,
    State.ONGOING: IDLE | {State.ONGOING},
    State.PREPARE_COMMIT: frozenset((State.ONGOING,)),
    State.PREPARE_ABORT: IDLE | {State.ONGOING, State.PREPARE_EPOCH_FENCE},
    State.COMPLETE_COMMIT: frozenset((State.PREPARE_COMMIT,)),
    State.COMPLETE_ABORT: frozenset((State.PREPARE_ABORT,)),
    State.DEAD: IDLE,
    State.PREPARE_EPOCH_FENCE: frozenset((State.ONGOING,)),
}
"""From which states each one is reached."""


class Txn(Struct, frozen=True, kw_only=True):
    """The values of one transactional id, as a record of the log has them; `last_epoch` alone is in no record."""

    producer_id: int
    previous_producer_id: int = NONE
    next_producer_id: int = NONE
    epoch: int = NONE
    last_epoch: int = NONE
    timeout_ms: int
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NONE
    updated_ms: int
    client_version: int = 0

    @property
    def identity(self) -> Identity:
        return Identity(self.producer_id, self.epoch)

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.epoch >= EPOCH_EXHAUSTED


class TransactionMetadata:
    """One transactional id: the values in force, and the state that it is on its way to."""

    __slots__ = ("fence_failed", "pending", "txn")

    def __init__(self, txn: Txn) -> None:
        self.txn = txn
        self.pending: State | None = None
        self.fence_failed = False  # an epoch was raised for a fence that could not be written

    def prepare(self, coming: Txn) -> None:
        """These values are being written."""
        assert self.pending is None, f"pending {self.pending!r} already"
        assert self.txn.state in BEFORE[coming.state], f"{self.txn.state!r} -> {coming.state!r}"
        self.pending = coming.state

    def prepare_fence(self) -> None:
        """Its open transaction is about to be aborted by somebody else."""
        assert self.pending is None
        assert self.txn.state in BEFORE[State.PREPARE_EPOCH_FENCE]
        self.pending = State.PREPARE_EPOCH_FENCE

    def complete(self, coming: Txn) -> None:
        """They are written."""
        assert self.pending is coming.state, f"{self.pending!r} is pending, not {coming.state!r}"
        self.txn = coming
        self.pending = None

    def give_up(self) -> None:
        """They could not be written: all is as it was."""
        self.pending = None


def new_txn(producer_id: int, *, timeout_ms: int, now_ms: int) -> Txn:
    """An id that nobody has used, before its first epoch."""
    return Txn(producer_id=producer_id, timeout_ms=timeout_ms, updated_ms=now_ms)


def ended(txn: Txn, *, now_ms: int) -> Txn:
    """What a prepared transaction becomes once its markers are written. If its epochs are used up, the next producer id takes over."""
    assert txn.state in PREPARED
    state = State.COMPLETE_COMMIT if txn.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT
    done = replace(txn, state=state, partitions=frozenset(), updated_ms=now_ms, previous_producer_id=txn.producer_id)
    if txn.next_producer_id == NONE:
        return done
    return replace(done, producer_id=txn.next_producer_id, next_producer_id=NONE, epoch=0)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partitions of each topic, in order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics


def is_timed_out(known: TransactionMetadata, now_ms: int) -> bool:
    """Whether its transaction has been open for too long. The time runs from its first partition and nothing prolongs it."""
    txn = known.txn
    if txn.state is not State.ONGOING or known.pending is not None or txn.timeout_ms == NEVER_TIMES_OUT_MS:
        return False
    return txn.start_ms + txn.timeout_ms < now_ms


def is_expired(known: TransactionMetadata, now_ms: int, *, after_ms: int) -> bool:
    """Whether nobody has used the id for that long."""
    return known.txn.state in IDLE and known.pending is None and known.txn.updated_ms + after_ms <= now_ms
