"""The links between a cluster's brokers: severing and mending them, and the effect on followers.

Both ends still reach the controller, and clients reach both. A follower that does not reach its leader stops replicating. After
replica.lag.time.max.ms its leader removes it from the ISR, and checks twice in that time as Kafka's leaders do. It carries no bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fencepost.broker_stub.cluster.timers import Timer

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.context import Context
    from fencepost.broker_stub.cluster.partition import Partition


class BrokerLinks:
    """The links of one cluster. Every link is up until it is severed."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._looking: Timer | None = None

    def sever(self, one: int, other: int) -> None:
        """Severs the link between these brokers."""
        self._context.severed.add(frozenset((one, other)))
        self._follow()
        if self._looking is None:
            self._look()

    def mend(self, one: int, other: int) -> None:
        """Mends the link between these brokers. Followers catch up at once."""
        self._context.severed.discard(frozenset((one, other)))
        self._follow()

    @property
    def down(self) -> list[tuple[int, int]]:
        """The links that are severed."""
        return sorted((min(pair), max(pair)) for pair in self._context.severed)

    def _follow(self) -> None:
        live = self._context.live
        for partition in self._partitions():
            partition.follow(live)

    def _look(self) -> None:
        """Removes followers that have been behind for too long, and checks again while a link is down."""
        context, self._looking = self._context, None
        lag_max_ms = int(context.config["replica.lag.time.max.ms"])
        for partition in self._partitions():
            partition.give_up(lag_max_ms=lag_max_ms)
        if self._context.severed:
            self._looking = context.timers.at(context.now_ms() + max(1, lag_max_ms // 2), self._look)

    def _partitions(self) -> Iterator[Partition]:
        return (partition for topic in self._context.topics for partition in topic.partitions)
