"""The links between a cluster's brokers: which of them are down, and what becomes of the followers at their ends.

Both ends still reach the controller, and clients reach both. A follower that does not reach its leader stays where it is; after
replica.lag.time.max.ms its leader gives it up, looking twice in that time as Kafka's leaders do. It carries no bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker_stub.timers import Timer

if TYPE_CHECKING:
    from broker_stub.cluster import Cluster
    from broker_stub.partitions import Partition


class Between:
    """Every link is up until it is severed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._down: set[frozenset[int]] = set()
        self._looking: Timer | None = None

    def reach(self, one: int, other: int) -> bool:
        """Whether these brokers can talk to each other."""
        return frozenset((one, other)) not in self._down

    def sever(self, one: int, other: int) -> None:
        """These brokers no longer reach each other."""
        self._down.add(frozenset((one, other)))
        self._follow()
        if self._looking is None:
            self._look()

    def mend(self, one: int, other: int) -> None:
        """These brokers reach each other again: followers catch up at once."""
        self._down.discard(frozenset((one, other)))
        self._follow()

    @property
    def down(self) -> list[tuple[int, int]]:
        """The links that are severed."""
        return sorted((min(pair), max(pair)) for pair in self._down)

    def _follow(self) -> None:
        live = self._cluster.live
        for partition in self._partitions():
            partition.follow(live)

    def _look(self) -> None:
        """Gives up who has been behind for too long, and looks again while a link is down."""
        cluster, self._looking = self._cluster, None
        lag_max_ms = int(cluster.config["replica.lag.time.max.ms"])
        for partition in self._partitions():
            partition.give_up(lag_max_ms=lag_max_ms)
        if self._down:
            self._looking = cluster.timers.at(cluster.now_ms() + max(1, lag_max_ms // 2), self._look)

    def _partitions(self) -> Iterator[Partition]:
        return (partition for topic in self._cluster.topics for partition in topic.partitions)
