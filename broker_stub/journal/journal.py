"""The newest exchanges of a cluster, for assertions: `stub.journal.requests(Api.PRODUCE)`, or the same of `proxy.journal`.

The journal is bounded by count and by memory. A caller that has to see every exchange follows the journal instead.
"""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import Protocol

from fencepost.broker_stub.arguments import check_arguments, is_whole
from fencepost.broker_stub.journal.exchange import Exchange
from fencepost.broker_stub.journal.memory import footprint
from fencepost.producer.foundations.rlock import RLock

EXCHANGE_BYTES = 64 * 1024
"""The mean memory of a request and its response up to which the journal keeps as many exchanges as its limit says."""
EXCHANGE_ITSELF_BYTES = 512


class Follower(Protocol):
    """Is told of every exchange, in the thread that serves the brokers. It must be quick and must not raise."""

    def asked(self, exchange: Exchange) -> None:
        """The request has arrived, and the broker has done nothing yet."""
        ...

    def answered(self, exchange: Exchange) -> None:
        """The exchange has its response. Without a response this is never called."""
        ...


class Journal:
    """The newest exchanges, oldest first; readable from any thread."""

    def __init__(self, limit: int) -> None:
        self._lock = RLock()
        self._kept: deque[Exchange] = deque()
        self._limit = limit
        self._bytes_max = limit * EXCHANGE_BYTES
        self._bytes = 0
        self._numbers = count(1)
        self.followers: tuple[Follower, ...] = ()
        self.enabled = limit > 0  # whether exchanges are kept or followed

    def __repr__(self) -> str:
        return f"Journal(exchanges={len(self._kept)}, limit={self._limit})"

    def follow(self, follower: Follower) -> None:
        """Tells the follower of every exchange that begins from now on, also those beyond the limit."""
        with self._lock:
            self.followers = (*self.followers, follower)
            self.enabled = True

    def add(self, exchange: Exchange) -> None:
        """Keeps the exchange. Its request must be `lightened`."""
        exchange.weight = EXCHANGE_ITSELF_BYTES + len(exchange.client_id or "") + footprint(exchange.request, self._bytes_max)
        with self._lock:
            exchange.number = next(self._numbers)
            self._kept.append(exchange)
            self._bytes += exchange.weight
            exchange.kept = True
            self._make_room()
        exchange.on_settled = self._tell_followers
        for follower in self.followers:
            follower.asked(exchange)

    def weigh(self, exchange: Exchange) -> None:
        """Counts the memory of the response, which has arrived."""
        if exchange.response is None or not exchange.kept:
            return
        more = footprint(exchange.response, self._bytes_max)
        with self._lock:
            if exchange.kept:
                exchange.weight += more
                self._bytes += more
                self._make_room()

    def _tell_followers(self, exchange: Exchange) -> None:
        for follower in self.followers:
            follower.answered(exchange)

    def _make_room(self) -> None:
        """Removes the oldest exchanges beyond the limits. The caller holds the lock."""
        while len(self._kept) > self._limit or self._bytes > self._bytes_max:
            oldest = self._kept.popleft()
            oldest.kept = False
            self._bytes -= oldest.weight

    def requests(self, api: int | None = None, *, node: int | None = None, client_id: str | None = None) -> list[Exchange]:
        """The kept exchanges of that API, node and client, oldest first. Raises TypeError for what no exchange has, such as a name in place
        of an Api."""
        given: object = api
        if given is not None and not is_whole(given):
            raise TypeError(f"journal.requests({given!r}): an Api, such as Api.PRODUCE, or the number of one")
        check_arguments(**{name: value for name, value in (("node", node), ("client_id", client_id)) if value is not None})
        with self._lock:
            kept = list(self._kept)
        return [
            each
            for each in kept
            if (api is None or each.api == api)
            and (node is None or each.node == node)
            and (client_id is None or each.client_id == client_id)
        ]

    def clear(self) -> None:
        """Forgets every kept exchange."""
        with self._lock:
            for each in self._kept:
                each.kept = False
            self._kept.clear()
            self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)
