"""An operation that waits on replicas until it can complete, or until its time is over (Kafka's DelayedOperation).

A Fetch waits for records; a Produce and a coordinator's append wait until every in-sync replica has their batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from fencepost.broker_stub.cluster.context import Context
from fencepost.broker_stub.cluster.timers import Timer
from fencepost.broker_stub.replication.replica import Replica


class DelayedOperation(ABC):
    """Waits from `wait_on` to `stop_waiting` on a broker. Completes at most once."""

    def __init__(self, context: Context, node: int) -> None:
        self._context = context
        self._node = node
        self._replicas: list[Replica] = []
        self._timer: Timer | None = None
        self._waits = False
        self._will_check = False

    def wait_on(self, replicas: Iterable[Replica], timeout_ms: int | None) -> None:
        """Calls `try_complete` after changes of these replicas, and `expire` when the time is over; None: it has no end yet."""
        self._waits = True
        self._replicas = [*replicas]
        for replica in self._replicas:
            replica.watchers[self] = None
        if timeout_ms is not None:
            self.expire_in(timeout_ms)

    def expire_in(self, timeout_ms: int) -> None:
        """Sets the end of the waiting, if it has none yet."""
        if self._timer is None:
            self._timer = self._context.later_on(self._node, timeout_ms, self._expire)

    def stop_waiting(self) -> None:
        for replica in self._replicas:
            replica.watchers.pop(self, None)
        self._replicas = []
        self._waits = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def grew(self, size_bytes: int) -> None:  # noqa: B027 - a default, and no gap
        """Does nothing, because new records alone complete no append. A Fetch overrides this."""

    def changed(self) -> None:
        if not self._will_check:
            self._will_check = True
            self._context.later_on(self._node, 0, self._check)

    def _check(self) -> None:
        self._will_check = False
        if self._waits:
            self.try_complete()

    def _expire(self) -> None:
        if self._waits:
            self.expire()

    @abstractmethod
    def try_complete(self) -> None:
        """Completes the operation, if its condition holds now."""

    @abstractmethod
    def expire(self) -> None:
        """Completes the operation, because its time is over."""
