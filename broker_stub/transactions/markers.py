"""The markers that end a transaction in its partitions (Kafka's TransactionMarkerChannelManager).

The coordinator retries a partition whose leader it cannot reach, or that has too few replicas. It gives up a partition that has seen a
newer producer or coordinator, or that was deleted. Like Kafka it takes a partition without leader for deleted, where the transaction then
stays undecided.
Fault rules that name WRITE_TXN_MARKERS act on each attempt. This file does not decide how a transaction ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from fencepost.broker_stub.cluster.broker_call import TIMEOUT_MS, call_broker
from fencepost.broker_stub.cluster.internal_append import RETRY_MS, How, Then, append
from fencepost.broker_stub.replication.partition_state import NO_LEADER
from fencepost.broker_stub.transactions.states import TopicPartition
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.records.control_batch import ControlType, encode_marker

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.context import Context
    from fencepost.broker_stub.replication.replica import Replica

_AGAIN: Final = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )
)
_DONE: Final = frozenset((ErrorCode.NONE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION))
# Any other code ends the attempts: INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED, or a code that Kafka never sends.


class TxnMarker(Struct, frozen=True, kw_only=True):
    """What a marker contains."""

    producer_id: int
    epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int


def write_marker(context: Context, replica: Replica, marker: TxnMarker, then: Then) -> None:
    """Appends the marker, and tells the context's listeners that the transaction has ended in that partition."""
    data = encode_marker(
        ControlType.COMMIT if marker.commit else ControlType.ABORT,
        producer_id=marker.producer_id,
        producer_epoch=marker.epoch,
        coordinator_epoch=marker.coordinator_epoch,
        timestamp=context.brokers[replica.node].now_ms(),
    )

    def written(code: int) -> None:
        if not code:
            for ended in context.on_transaction_ended:
                ended(replica, marker.producer_id, commit=marker.commit)
        then(code)

    append(context, replica, data, timeout_ms=TIMEOUT_MS, then=written, how=How(transaction_version=marker.transaction_version))


class Markers:
    """The markers of one transaction on their way. `left` has the partitions that still wait for one; `done` is called when there are none.

    `valid` is called before each attempt: a coordinator that has lost its partition writes nothing.
    """

    def __init__(
        self,
        context: Context,
        node_id: int,
        marker: TxnMarker,
        *,
        transactional_id: str,
        partitions: Collection[TopicPartition],
        valid: Callable[[], bool],
        done: Callable[[], None],
    ) -> None:
        self.left = set(partitions)
        self._context = context
        self._node_id = node_id
        self._marker = marker
        self._transactional_id = transactional_id
        self._valid = valid
        self._done: Callable[[], None] | None = done

    def send(self) -> None:
        for each in sorted(self.left):
            self._try(each)
        self._look()

    def _try(self, each: TopicPartition) -> None:
        if not self._valid():
            return
        then = partial(self._answered, each)
        if not self._context.faults.installed:
            self._write(each, then)
            return
        from fencepost.broker_stub.cluster.broker_requests import Asked, BrokerRequest

        asked = Asked(
            Api.WRITE_TXN_MARKERS,
            node=self._leader_of(each),
            client_id=f"broker-{self._node_id}-txn-marker-sender",
            partition=each,
            transactional_id=self._transactional_id,
        )
        BrokerRequest(self._context, asked, partial(self._write, each), then).start()

    def _write(self, each: TopicPartition, then: Then) -> None:
        if not self._valid():
            return
        leader = self._leader_of(each)
        if leader == NO_LEADER:
            then(ErrorCode.NONE)
            return
        call_broker(
            self._context,
            self._node_id,
            leader,
            partial(self._write_at, leader, each),
            then,
            refused=int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
            timed_out=int(ErrorCode.REQUEST_TIMED_OUT),
        )

    def _write_at(self, leader: int, each: TopicPartition, then: Then) -> None:
        """The leader processes the request."""
        replica = self._context.replica(leader, *each)
        if replica is None or not replica.leads:
            then(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            write_marker(self._context, replica, self._marker, then)

    def _leader_of(self, each: TopicPartition) -> int:
        """The partition's leader, as far as the coordinator knows."""
        return self._context.led_by(self._node_id, *each)

    def _answered(self, each: TopicPartition, code: int) -> None:
        if self._context.brokers[self._node_id].paused:
            self._context.brokers[self._node_id].when_running(partial(self._answered, each, code))
            return
        if code in _AGAIN:
            self._context.later_on(self._node_id, RETRY_MS, partial(self._try, each))
            return
        if code not in _DONE:
            self._done = None  # stays prepared until another coordinator reads the log
            return
        self.left.discard(each)
        self._look()

    def _look(self) -> None:
        if not self.left and self._done is not None and self._valid():
            done, self._done = self._done, None
            done()
