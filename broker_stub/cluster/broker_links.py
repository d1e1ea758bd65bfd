"""The links between a cluster's brokers: severing and mending them.

Both ends still reach the controller, and clients reach both. A follower that does not reach its leader stops replicating. It carries no
bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.broker_stub.replication.fetchers import ReplicaFetchers

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.context import Context


class BrokerLinks:
    """The links of one cluster. Every link is up until it is severed."""

    def __init__(self, context: Context, fetchers: ReplicaFetchers) -> None:
        self._context = context
        self._fetchers = fetchers

    def sever(self, one: int, other: int) -> None:
        """Severs the link between these brokers."""
        self._context.severed.add(frozenset((one, other)))
        self._fetchers.link_changed(one, other)

    def mend(self, one: int, other: int) -> None:
        """Mends the link between these brokers. Followers catch up in the next tick."""
        self._context.severed.discard(frozenset((one, other)))
        self._fetchers.link_changed(one, other)

    @property
    def down(self) -> list[tuple[int, int]]:
        """The links that are severed."""
        return sorted((min(pair), max(pair)) for pair in self._context.severed)
