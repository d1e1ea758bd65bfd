"""An operation that waits on partitions until it can complete, or until its time is over (Kafka's DelayedOperation).

A Fetch waits for records; a Produce and a coordinator's append wait until every in-sync replica has their batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from fencepost.broker_stub.cluster.context import Context
from fencepost.broker_stub.cluster.partition import Partition
from fencepost.broker_stub.cluster.timers import Timer


class DelayedOperation(ABC):
    """Waits from `wait_on` to `stop_waiting`. Completes at most once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._partitions: list[Partition] = []
        self._timer: Timer | None = None
        self._will_check = False

    def wait_on(self, partitions: Iterable[Partition], timeout_ms: int) -> None:
        """Calls `try_complete` after changes of these partitions, and `expire` when the time is over."""
        self._partitions = [*partitions]
        for partition in self._partitions:
            partition.watchers[self] = None
        self._timer = self._context.timers.at(self._context.now_ms() + timeout_ms, self.expire)

    def stop_waiting(self) -> None:
        for partition in self._partitions:
            partition.watchers.pop(self, None)
        self._partitions = []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def grew(self, size_bytes: int) -> None:  # noqa: B027 - a default, and no gap
        """Does nothing, because new records alone complete no append. A Fetch overrides this."""

    def changed(self) -> None:
        if not self._will_check:
            self._will_check = True
            self._context.soon(self._check)

    def _check(self) -> None:
        self._will_check = False
        if self._timer is not None:
            self.try_complete()

    @abstractmethod
    def try_complete(self) -> None:
        """Completes the operation, if its condition holds now."""

    @abstractmethod
    def expire(self) -> None:
        """Completes the operation, because its time is over."""
