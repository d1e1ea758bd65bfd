"""The appends of coordinators with acks=all: records of their own topics, and transaction markers.

`then` gets the code once: at once if every in-sync replica has the batch at once. There are no retries here; the caller decides what a
code means for the transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from fencepost.broker_stub.cluster.delayed_operation import DelayedOperation
from fencepost.broker_stub.log.errors import AppendRefused
from fencepost.broker_stub.log.producer_append_info import Origin
from fencepost.broker_stub.replication.replica import Replica
from fencepost.producer.wire import ErrorCode

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.context import Context

RETRY_MS: Final = 100
"""How long a coordinator waits before it retries a write."""

Then = Callable[[int], None]


class How(Struct, frozen=True, kw_only=True):
    """More about a batch: the transaction version of a marker, the guard of a transactional batch, and what to call once the leader's log
    has the batch."""

    transaction_version: int = 0
    guard: int | None = None
    written: Callable[[], None] | None = None


PLAINLY: Final = How()


def append(context: Context, replica: Replica, data: bytes, *, timeout_ms: int, then: Then, how: How = PLAINLY) -> None:
    """Appends one batch as a coordinator does, after the time that a slow disk takes."""
    node, epoch = replica.node, replica.leader_epoch
    starts = context.starts(node)

    def write() -> None:
        if (context.starts(node), replica.leader_epoch) == (starts, epoch):
            _append(context, replica, data, timeout_ms=timeout_ms, then=then, how=how)
        else:
            then(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    writing_ms = context.writing_ms(node)
    if writing_ms:
        context.later_on(node, writing_ms, write)
    else:
        write()


def _append(context: Context, replica: Replica, data: bytes, *, timeout_ms: int, then: Then, how: How) -> None:
    if not replica.leads:
        then(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return
    if len(replica.isr) < replica.min_isr:
        then(ErrorCode.NOT_ENOUGH_REPLICAS)
        return
    replica.expire_producers()
    try:
        result = replica.append(data, origin=Origin.COORDINATOR, transaction_version=how.transaction_version, guard=how.guard)
    except AppendRefused as refused:
        then(refused.code)
        return
    if how.written is not None:
        how.written()
    replica.tell_grown(result.size)
    if replica.log.high_watermark > result.last_offset:
        then(ErrorCode.NONE)
    else:
        _Replicating(context, replica, result.last_offset + 1, timeout_ms=timeout_ms, then=then)


class _Replicating(DelayedOperation):
    """A batch that is not on every in-sync replica."""

    def __init__(self, context: Context, replica: Replica, end_offset: int, *, timeout_ms: int, then: Then) -> None:
        super().__init__(context, replica.node)
        self._replica = replica
        self._end_offset = end_offset
        self._leader_epoch = replica.leader_epoch
        self._then = then
        self.wait_on([replica], timeout_ms)

    def try_complete(self) -> None:
        code = self._replica.replicated(self._end_offset, self._leader_epoch)
        if code is not None:
            self._complete(code)

    def expire(self) -> None:
        self._complete(ErrorCode.REQUEST_TIMED_OUT)

    def _complete(self, code: int) -> None:
        self.stop_waiting()
        self._then(code)
