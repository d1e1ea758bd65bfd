"""How the leader of a partition asks the coordinator whether a producer's transaction has the partition, or adds it to the transaction
(Kafka's AddPartitionsToTxnManager).

One request is open at a time for a transactional id and a leader. A newer request of the same producer replaces it; one of an older epoch
fails. While the last transaction of a producer of transaction version 2 is still being completed, the leader asks again, for at most
`add.partitions.to.txn.retry.backoff.max.ms`. The caller translates codes for its client.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from fencepost.broker_stub.cluster.broker_call import call_broker
from fencepost.broker_stub.cluster.internal_append import Then
from fencepost.broker_stub.cluster.producer_ids import Identity
from fencepost.broker_stub.replication.partition_state import NO_LEADER
from fencepost.broker_stub.transactions.states import TopicPartition
from fencepost.producer.wire import ErrorCode

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.context import Context
    from fencepost.broker_stub.transactions.coordinators import TransactionCoordinators

ThenEach = Callable[[dict[TopicPartition, int]], None]
CLIENT_VERSION_THAT_ADDS = 2


class Mode(Enum):
    """What the leader asks, and which code the client gets if the transaction does not have the partition (Kafka's
    TransactionSupportedOperation). It depends on the version of the client's request."""

    DEFAULT_ERROR = "verify, and answer INVALID_TXN_STATE"
    GENERIC_ERROR_SUPPORTED = "verify, and answer TRANSACTION_ABORTABLE"
    ADD_PARTITION = "add"

    @classmethod
    def of(cls, version: int, *, abortable_since: int, adds_since: int) -> Mode:
        """The mode for a request of this version."""
        if version >= adds_since:
            return cls.ADD_PARTITION
        return cls.GENERIC_ERROR_SUPPORTED if version >= abortable_since else cls.DEFAULT_ERROR

    @property
    def adds(self) -> bool:
        """Whether the client has transaction version 2: a write adds its partition, and each transaction has its own epoch."""
        return self is Mode.ADD_PARTITION


class Question(Struct, frozen=True, kw_only=True):
    """A producer's identity and the partitions that it writes to."""

    transactional_id: str
    identity: Identity
    partitions: frozenset[TopicPartition]
    mode: Mode


class TransactionVerification:
    """The requests of all brokers to coordinators."""

    def __init__(self, context: Context, transactions: TransactionCoordinators) -> None:
        self._context = context
        self._transactions = transactions
        self._open: dict[tuple[int, str], _Open] = {}
        config = context.config
        self._retry_ms = int(config["add.partitions.to.txn.retry.backoff.ms"])
        self._retry_max_ms = int(config["add.partitions.to.txn.retry.backoff.max.ms"])

    def ask(self, node_id: int, question: Question, then: ThenEach) -> None:
        """`then` gets a code for every partition."""
        if question.mode.adds:
            self._add(node_id, question, self._context.now_ms() + self._retry_max_ms, then)
            return

        def answered(codes: dict[TopicPartition, int]) -> None:
            then({each: _told(code, question.mode) for each, code in codes.items()})

        coordinator = self._transactions.leader_of(question.transactional_id, node_id)
        if coordinator == NO_LEADER:
            answered(dict.fromkeys(question.partitions, int(ErrorCode.COORDINATOR_NOT_AVAILABLE)))
            return
        lost = dict.fromkeys(question.partitions, int(ErrorCode.NETWORK_EXCEPTION))
        verify = partial(self._transactions.verify, question.transactional_id, coordinator, question.identity, question.partitions)
        call_broker(self._context, node_id, coordinator, lambda respond: respond(verify()), answered, refused=lost, timed_out=lost)

    def _add(self, node_id: int, question: Question, until_ms: int, then: ThenEach) -> None:
        context = self._context

        def answered(code: int) -> None:
            if code == ErrorCode.CONCURRENT_TRANSACTIONS and context.now_ms() < until_ms:
                context.later_on(node_id, self._retry_ms, lambda: self._add(node_id, question, until_ms, then))
            else:
                then(dict.fromkeys(question.partitions, _told(code, question.mode)))

        coordinator = self._transactions.leader_of(question.transactional_id, node_id)
        if coordinator == NO_LEADER:
            answered(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        if not context.reach(node_id, coordinator):
            answered(ErrorCode.NETWORK_EXCEPTION)
            return
        key = (node_id, question.transactional_id)
        before = self._open.get(key)
        if before is not None:
            if before.epoch > question.identity.epoch:
                answered(ErrorCode.INVALID_PRODUCER_EPOCH)
                return
            older = before.epoch < question.identity.epoch
            self._close(key, before, ErrorCode.INVALID_PRODUCER_EPOCH if older else ErrorCode.NETWORK_EXCEPTION)
        opened = self._open[key] = _Open(question.identity.epoch, answered)
        call_broker(
            context,
            node_id,
            coordinator,
            lambda respond: self._transactions.add(
                question.transactional_id,
                coordinator,
                question.identity,
                question.partitions,
                version=CLIENT_VERSION_THAT_ADDS,
                then=respond,
            ),
            lambda code: self._close(key, opened, code),
            refused=int(ErrorCode.NETWORK_EXCEPTION),
            timed_out=int(ErrorCode.NETWORK_EXCEPTION),
        )

    def _close(self, key: tuple[int, str], opened: _Open, code: int) -> None:
        if self._open.get(key) is opened:
            del self._open[key]
            opened.then(code)


class _Open:
    """A request that the coordinator has not answered yet."""

    __slots__ = ("epoch", "then")

    def __init__(self, epoch: int, then: Then) -> None:
        self.epoch = epoch
        self.then = then


def _told(code: int, mode: Mode) -> int:
    if code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code == ErrorCode.TRANSACTION_ABORTABLE and mode is Mode.DEFAULT_ERROR:
        return ErrorCode.INVALID_TXN_STATE
    return code
