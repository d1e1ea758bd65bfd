"""The state of one transactional id in its coordinator, and the transitions between states (Kafka's TransactionMetadata).

A change takes two steps: `prepare` sets the pending values, which the coordinator writes to the log, and `complete` puts them in force.
Between the two the id is pending. This file decides nothing: `init_and_add_table` and `end_table` do.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from fencepost.broker_stub.cluster.producer_ids import Identity
from fencepost.producer.wire.records import PRODUCER_EPOCH_MAX

NONE: Final = -1
EPOCH_EXHAUSTED: Final = PRODUCER_EPOCH_MAX - 1
"""The largest epoch that a client may own: the last one is for fences and markers."""

NEVER_TIMES_OUT_MS: Final = 2**31 - 1

TopicPartition = tuple[str, int]


class State(IntEnum):
    """The numbers in the records of the log."""

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
        """The name in ListTransactions and DescribeTransactions."""
        return "".join(word.capitalize() for word in self.name.split("_"))


COMPLETE: Final = frozenset((State.COMPLETE_COMMIT, State.COMPLETE_ABORT))
IDLE: Final = COMPLETE | {State.EMPTY}
"""The states in which no transaction is open, so that the id may expire."""
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
"""The states from which each one is reached."""


class Txn(Struct, frozen=True, kw_only=True):
    """The values of one transactional id, as in a record of the log, and `last_epoch`, which no record has."""

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
    """One transactional id: the values in force, and the pending state."""

    __slots__ = ("fence_failed", "pending", "txn")

    def __init__(self, txn: Txn) -> None:
        self.txn = txn
        self.pending: State | None = None
        self.fence_failed = False  # the coordinator raised the epoch for a fence and could not write it

    def prepare(self, coming: Txn) -> None:
        """Sets the values that are being written."""
        assert self.pending is None, f"pending {self.pending!r} already"
        assert self.txn.state in BEFORE[coming.state], f"{self.txn.state!r} -> {coming.state!r}"
        self.pending = coming.state

    def prepare_fence(self) -> None:
        """Raises the epoch, because the coordinator is about to abort the open transaction."""
        assert self.pending is None
        assert self.txn.state in BEFORE[State.PREPARE_EPOCH_FENCE]
        self.pending = State.PREPARE_EPOCH_FENCE

    def complete(self, coming: Txn) -> None:
        """Puts the written values in force."""
        assert self.pending is coming.state, f"{self.pending!r} is pending, not {coming.state!r}"
        self.txn = coming
        self.pending = None

    def give_up(self) -> None:
        """Keeps the values in force, because the write failed."""
        self.pending = None


def new_txn(producer_id: int, *, timeout_ms: int, now_ms: int) -> Txn:
    """A new id, before its first epoch."""
    return Txn(producer_id=producer_id, timeout_ms=timeout_ms, updated_ms=now_ms)


def ended(txn: Txn, *, now_ms: int) -> Txn:
    """The values of a prepared transaction once its markers are written. If its epochs are used up, the next producer id takes over."""
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
    """Whether its transaction has timed out. The time runs from its first partition, and nothing prolongs it."""
    txn = known.txn
    if txn.state is not State.ONGOING or known.pending is not None or txn.timeout_ms == NEVER_TIMES_OUT_MS:
        return False
    return txn.start_ms + txn.timeout_ms < now_ms


def is_expired(known: TransactionMetadata, now_ms: int, *, after_ms: int) -> bool:
    """Whether no request has used the id for that long."""
    return known.txn.state in IDLE and known.pending is None and known.txn.updated_ms + after_ms <= now_ms
