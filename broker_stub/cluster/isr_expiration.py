"""When leaders look for lagging followers; which one leaves is in `Replica.shrink_isr` (Kafka's `ReplicaManager.maybeShrinkIsr`).

While a follower is behind, it checks twice in replica.lag.time.max.ms. Only a severed link, a failed fetch or a fault delays a follower.
Each of them calls `watch`. So a healthy cluster has no timer for this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.broker_stub.cluster.timers import Timer

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.context import Context


class IsrExpiration:
    """Of one cluster."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._timer: Timer | None = None

    def watch(self) -> None:
        """Looks after half of the time, and again while a follower is behind."""
        if self._timer is None:
            interval_ms = max(1, int(self._context.config["replica.lag.time.max.ms"]) // 2)
            self._timer = self._context.timers.at(self._context.now_ms() + interval_ms, self._look)

    def _look(self) -> None:
        self._timer = None
        lag_max_ms = int(self._context.config["replica.lag.time.max.ms"])
        behind = [topic for topic in self._context.topics for each in topic.partitions if each.shrink_isr(lag_max_ms=lag_max_ms)]
        if behind:
            self.watch()
