"""The links between a cluster's brokers: severing them, slowing them down and mending them.

Both ends still reach the controller, and clients reach both. A follower that does not reach its leader stops replicating. It carries no
bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fencepost.broker_stub.replication.fetchers import ReplicaFetchers

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.context import Context


class BrokerLinks:
    """The links of one cluster. Every link is up until it is severed."""

    def __init__(self, context: Context, fetchers: ReplicaFetchers, *, watch_lag: Callable[[], None]) -> None:
        self._context = context
        self._fetchers = fetchers
        self._watch_lag = watch_lag

    def sever(self, one: int, other: int) -> None:
        """Severs the link between these brokers."""
        self._context.severed.add(frozenset((one, other)))
        self._fetchers.link_changed(one, other)

    def mend(self, one: int, other: int) -> None:
        """Mends the link between these brokers. Followers catch up in the next tick."""
        self._context.severed.discard(frozenset((one, other)))
        self._fetchers.link_changed(one, other)

    def slow_down(self, one: int, other: int, ms: int) -> None:
        """From now on a message between these brokers takes so long: a follower's fetch, a transaction marker, and each response."""
        pair = frozenset((one, other))
        if ms:
            self._context.slow[pair] = ms
            self._watch_lag()
        else:
            self._context.slow.pop(pair, None)

    @property
    def slow(self) -> list[tuple[int, int, int]]:
        """The links that are slow, with their milliseconds."""
        return sorted((min(pair), max(pair), ms) for pair, ms in self._context.slow.items())

    @property
    def down(self) -> list[tuple[int, int]]:
        """The links that are severed."""
        return sorted((min(pair), max(pair)) for pair in self._context.severed)
