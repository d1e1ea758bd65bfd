"""One exchange: a request, and its response. The journal keeps it; fault rules look at it while it runs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum

from fencepost.broker_stub.faults.groups_and_transactional_ids import groups_of, transactional_ids_of
from fencepost.broker_stub.faults.topics_and_partitions import TopicPartition
from fencepost.producer.wire import Message


class Heard(Enum):
    """What a proxy sent to its client of the broker's response."""

    NOTHING = "nothing"  # a fault dropped it or cut the connection, the client has gone, no response came, or it has not left yet
    CHANGED = "changed"  # a fault changed an error or the throttle time, or the proxy answered a part of the request itself
    ALL = "all"  # as the broker sent it, except for the addresses and versions that a proxy always changes


class Exchange:
    """One request and its response; `response` is None without one, or before it.

    In a stub's journal `response` is what the client could see: None if a fault dropped it. `heard` is None. In a proxy's journal
    `response` is what the broker sent, and `heard` says what the client got of it.

    `number` counts the exchanges of a journal, from 1 on. `ended_ms` is when the response was ready or was dropped, None before that, and
    for ever if the connection or the broker ended first. `faults` are the rules that acted on it, as text.
    """

    __slots__ = (
        "_partitions",
        "api",
        "at_ms",
        "client_id",
        "connection_id",
        "correlation_id",
        "ended_ms",
        "faults",
        "heard",
        "kept",
        "node",
        "number",
        "on_settled",
        "request",
        "response",
        "version",
        "weight",
    )

    def __init__(
        self,
        *,
        node: int,
        connection_id: int,
        api: int,
        version: int,
        correlation_id: int,
        client_id: str | None,
        request: Message,
        at_ms: int,
        partitions: Callable[[], Collection[TopicPartition]] | None = None,
        heard: Heard | None = None,
    ) -> None:
        self.node = node
        self.connection_id = connection_id
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.request = request
        self.response: Message | None = None
        self.heard = heard
        self.at_ms = at_ms
        self.ended_ms: int | None = None
        self.faults: tuple[str, ...] = ()
        self.number = 0
        self.weight = 0
        self.kept = False  # kept by the journal, which counts its weight
        self._partitions = partitions
        self.on_settled: Callable[[Exchange], None] | None = None  # tells the journal's followers

    def partitions(self) -> Collection[TopicPartition]:
        """The (topic, partition)s the request names, resolved. Empty once the exchange has ended."""
        return self._partitions() if self._partitions is not None else ()

    def groups(self) -> Collection[str]:
        """The groups the request names."""
        return groups_of(self.request)

    def transactional_ids(self) -> Collection[str]:
        """The transactional ids the request names."""
        return transactional_ids_of(self.request)

    def settle(self) -> None:
        """Ends the exchange: forgets what only a running exchange needs, and tells the journal's followers of the response."""
        on_settled, self.on_settled, self._partitions = self.on_settled, None, None
        if on_settled is not None and self.response is not None:
            on_settled(self)

    def __repr__(self) -> str:
        answer = type(self.response).__name__ if self.response is not None else None
        heard = f", heard: {self.heard.value}" if self.heard is not None else ""
        return f"Exchange({type(self.request).__name__} v{self.version} to node {self.node} at {self.at_ms}, {answer}{heard})"
