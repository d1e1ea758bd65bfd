"""The links between a cluster's brokers, and between each broker and the controller: severing them, slowing them down and mending them.

Clients reach every broker all the same. A follower that does not reach its leader stops replicating. What a link to the controller does is
in `controller_link`. This carries no bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

from fencepost.broker_stub.cluster.context import CONTROLLER

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.context import Context
    from fencepost.broker_stub.replication.fetchers import ReplicaFetchers

End = int | Literal["controller"]


class BrokerLinks:
    """The links of one cluster. Every link is up until it is severed. `controller_changed` is called with each broker whose link to the
    controller changed."""

    def __init__(
        self, context: Context, fetchers: ReplicaFetchers, *, watch_lag: Callable[[], None], controller_changed: Callable[[int], None]
    ) -> None:
        self._context = context
        self._fetchers = fetchers
        self._watch_lag = watch_lag
        self._controller_changed = controller_changed

    def sever(self, one: int, other: int, *, one_way: bool = False) -> None:
        """Severs the link. `one_way`: only what `one` sends is lost."""
        self._context.severed.update([(one, other)] if one_way else [(one, other), (other, one)])
        self._changed(one, other)

    def mend(self, one: int, other: int) -> None:
        """Mends the link, both ways. Followers catch up in the next tick."""
        self._context.severed.difference_update(((one, other), (other, one)))
        self._changed(one, other)

    def slow_down(self, one: int, other: int, ms: int) -> None:
        """From now on a message takes so long: a follower's fetch, a transaction marker, what the controller decides, and each response."""
        pair = frozenset((one, other))
        if ms:
            self._context.slow[pair] = ms
            self._watch_lag()
        else:
            self._context.slow.pop(pair, None)
        if CONTROLLER in pair:
            self._controller_changed(one or other)

    def _changed(self, one: int, other: int) -> None:
        if CONTROLLER in (one, other):
            self._controller_changed(one or other)
        else:
            self._fetchers.link_changed(one, other)

    @property
    def slow(self) -> list[tuple[int, int, int]]:
        """The links that are slow, with their milliseconds."""
        return sorted((min(pair), max(pair), ms) for pair, ms in self._context.slow.items())

    @property
    def down(self) -> list[tuple[int, int]]:
        """The links that are severed both ways."""
        return sorted(pair for pair in self._context.severed if pair[::-1] in self._context.severed and pair[0] < pair[1])

    @property
    def one_way(self) -> list[tuple[int, int]]:
        """The links on which only what the first one sends is lost."""
        return sorted(pair for pair in self._context.severed if pair[::-1] not in self._context.severed)


def named(ends: Iterable[tuple[int, int]]) -> list[tuple[End, End]]:
    """The links as users name them."""
    return [(_name(one), _name(other)) for one, other in ends]


def _name(end: int) -> End:
    return end or "controller"
