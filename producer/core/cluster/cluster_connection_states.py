"""The brokers as the core knows them: connections, requests in flight, backoff, throttling, idle time.

It decides when to make or close a connection. The engine does it.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from msgspec import Struct

from fencepost.producer.config.settings import MetadataRecovery, Settings
from fencepost.producer.core.cluster.outage import Outage
from fencepost.producer.core.events import NEVER, NO_FEATURES, Command, Connect, Die, Disconnect, Features
from fencepost.producer.errors import AuthenticationFailed, Fatal, NoUsableBroker, plain
from fencepost.producer.foundations.address import Address
from fencepost.producer.wire.codecs.codec import Codec
from fencepost.producer.wire.codes import Api

log = logging.getLogger("fencepost.producer")

PRODUCE_VERSIONS: Final = range(3, 14)
"""The versions that the producer sends. Versions 0 to 2 belong to record formats without producer ids (KIP-98)."""

PRODUCE_VERSION_WITH_ZSTD: Final = 7
"""Brokers refuse zstd in earlier versions, because old consumers cannot decompress it (KIP-110)."""

READ_MS: Final = 1_000.0
"""How long the answers that arrived in a standstill of the producer may take to be read."""

UNWANTED_MS: Final = 1_000.0
"""If a node could be tried for so long and was not, no connection to it is wanted."""

NO_BROKER: Final = "no broker can be used for %.0f s; %s; tried %s; check bootstrap_servers, security_protocol, the network and the brokers"
NOT_THIS_BROKER: Final = (
    "%s cannot be used for %.0f s, and others can; %s; its newest failure: %s; check its advertised address, the network and the broker"
)
NOTHING_WAITS: Final = "no record waits for one"

_ANYTHING: Final = ("this producer needs", PRODUCE_VERSIONS[0], "0.11")


def backoff_ms(attempt: int, base_ms: float, cap_ms: float, draw: float) -> float:
    """base·2^attempt ±20 %, at most `cap_ms` (`ExponentialBackoff`). `attempt` counts from 0, `draw` is uniform in [0, 1)."""
    return min(cap_ms, min(cap_ms, base_ms * 2.0 ** min(attempt, 30)) * (0.8 + 0.4 * draw))


class LinkState(enum.Enum):
    """The state of a node's connection."""

    DOWN = "down"
    CONNECTING = "connecting"
    UP = "up"
    CLOSING = "closing"


class Request(Struct):
    """A request in flight. A subclass has what the reader of its response needs."""

    request_id: int
    api: Api
    begun_ms: float
    timeout_at_ms: float


R = TypeVar("R", bound=Request)


class Node(Struct):
    """One broker, or one bootstrap address (negative ids, as in the Java client). `failures`: since the last success; `losses`: in all.
    `connect_failed`: the newest attempt to connect failed. `silent`: the APIs of which the last request timed out. `refused`: why retrying
    cannot help. `leaving`: the core forgets the node as soon as its connection is closed."""

    node_id: int
    address: Address
    state: LinkState = LinkState.DOWN
    failures: int = 0
    losses: int = 0
    retry_at_ms: float = 0.0
    muted_until_ms: float = 0.0
    used_ms: float = 0.0
    last_failure: str = ""
    connect_failed: bool = False
    silent: set[Api] = set()
    leaving: bool = False
    refused: NoUsableBroker | None = None
    versions: dict[int, tuple[int, int]] = {}
    produce_least: int = PRODUCE_VERSIONS[0]
    requests: dict[int, Request] = {}
    produces: int = 0

    @property
    def name(self) -> str:
        """The broker and its address, for messages. A bootstrap address has no broker's id."""
        return f"{f'broker {self.node_id}' if self.node_id >= 0 else 'bootstrap server'} at {self.address}"

    def version(self, api: Api, most: int, *, least: int = 0) -> int | None:
        """The highest version of an api from `least` to `most` that the broker offers, or None."""
        span = self.versions.get(api)
        return min(span[1], most) if span is not None and span[0] <= most and span[1] >= least else None

    def produce_version(self, allowed: range = PRODUCE_VERSIONS) -> int | None:
        """The version of Produce to use, or None: see `unusable`."""
        return self.version(Api.PRODUCE, allowed[-1], least=max(self.produce_least, allowed[0]))

    def too_old(self) -> bool:
        """Whether the broker only accepts formats from before Kafka 0.11, or is too old for zstd and the producer uses zstd."""
        span = self.versions.get(Api.PRODUCE)
        return span is not None and span[1] < self.produce_least

    def unusable(self, allowed: range = PRODUCE_VERSIONS) -> Fatal:
        """Why nothing can be written to this broker. `allowed`: the versions of Produce that the producer may use."""
        span = self.versions.get(Api.PRODUCE)
        offered = f"versions {span[0]} to {span[1]}" if span is not None else "no version"
        lacks_zstd = span is not None and PRODUCE_VERSIONS[0] <= span[1] < self.produce_least
        user, least, since = ("compression_type=zstd needs", self.produce_least, "2.1") if lacks_zstd else _ANYTHING
        if allowed != PRODUCE_VERSIONS and not self.too_old():
            user, least = "the transaction's version needs", max(allowed[0], self.produce_least)
        needed = f"{user} {least} to {allowed[-1]}" + (f": the broker must be Kafka {since} or later" if self.too_old() else "")
        return Fatal(f"the broker at {self.address} offers {offered} of Produce, and {needed}")

    def ready(self, now_ms: float) -> bool:
        """Whether requests may be written now."""
        return self.state is LinkState.UP and self.muted_until_ms <= now_ms


class ClusterConnectionStates:
    """All nodes, by id. `bootstrapping`: the bootstrap addresses may be tried; once brokers are known, only `rebootstrap` allows it.
    `features`: the newest features that a broker sent. `waits`: says what waits for a broker."""

    def __init__(self, settings: Settings, draw: Callable[[], float], bootstrap: list[Address]) -> None:
        self._settings = settings
        self._draw = draw
        self._nodes = {-1 - i: Node(-1 - i, address) for i, address in enumerate(bootstrap)}
        self._next_request = 0
        # Never later than the next work of `upkeep`. Such work is rare, so most calls of `upkeep` only compare this time.
        self._due_ms = NEVER
        self._outage = Outage()
        self._outages: dict[int, Outage] = {}
        self.bootstrapping = True
        self.features = NO_FEATURES
        self.waits: Callable[[], str] = str

    def __iter__(self) -> Iterator[Node]:
        return iter(list(self._nodes.values()))

    def get(self, node_id: int) -> Node | None:
        return self._nodes.get(node_id)

    def learn(self, brokers: dict[int, Address]) -> list[Command]:
        """Take the brokers of a metadata response, and close connections to brokers that are gone or moved. Negative ids in a response are
        ignored, because they mean bootstrap addresses here."""
        brokers = {node_id: address for node_id, address in brokers.items() if node_id >= 0}
        commands: list[Command] = []
        self.bootstrapping = self.bootstrapping and not brokers
        for node in self:
            if node.node_id >= 0 and node.address != brokers.get(node.node_id):
                commands += self.disconnect(node, "the broker left the cluster or changed its address")
                self._outages.pop(node.node_id, None)
                if node.node_id not in brokers and node.state is LinkState.DOWN:
                    del self._nodes[node.node_id]
        for node_id, address in brokers.items():
            known = self._nodes.get(node_id)
            if known is None:
                self._nodes[node_id] = Node(node_id, address)
                continue
            known.leaving = False
            if known.address != address:
                known.address = address
                known.failures, known.retry_at_ms = 0, 0.0
                known.connect_failed, known.refused = False, None
                known.silent.clear()
        return commands

    def start_over(self, reason: str) -> list[Command]:
        """Close every connection and forget the brokers; the bootstrap addresses are tried at once."""
        self.bootstrapping = True
        self._outages.clear()
        commands: list[Command] = []
        for node in self:
            commands += self.disconnect(node, reason)
            node.leaving = node.node_id >= 0
            if node.leaving and node.state is LinkState.DOWN:
                del self._nodes[node.node_id]
        return commands

    def only_bootstrap(self) -> bool:
        """Whether only bootstrap addresses are known."""
        return all(node.node_id < 0 for node in self._nodes.values())

    def exhausted(self) -> bool:
        """Whether no connection is up, and the newest finished attempt at every known broker failed. A running attempt changes nothing:
        an address that does not answer takes the whole connection timeout each time."""
        known = [node for node in self if node.node_id >= 0]
        return not self.bootstrapping and all(map(_tried, known)) and not any(node.state is LinkState.UP for node in self)

    def connect(self, node: Node, now_ms: float) -> list[Command]:
        """Connect to the node unless it is connected, connecting, or backing off."""
        if node.state is not LinkState.DOWN or node.retry_at_ms > now_ms:
            return []
        node.state = LinkState.CONNECTING
        outage: Outage | None = self._outage
        if any(each.state is LinkState.UP for each in self):
            # A bootstrap address that fails is no loss where a broker is connected.
            outage = self._outages.setdefault(node.node_id, Outage()) if node.node_id >= 0 else None
        if outage is not None:
            outage.begin(now_ms)
            self._note(outage.due_ms)
        return [Connect(node.node_id, node.address.host, node.address.port)]

    def disconnect(self, node: Node, reason: str) -> list[Command]:
        """Close the node's connection."""
        if node.state not in (LinkState.UP, LinkState.CONNECTING):
            return []
        node.state = LinkState.CLOSING
        return [Disconnect(node.node_id, reason)]

    def connected(
        self, node: Node, versions: dict[int, tuple[int, int]], now_ms: float, *, features: Features = NO_FEATURES
    ) -> list[Command]:
        """The connection is up. A broker that is too old ends the producer at once, so that the error names the cause."""
        if node.state is LinkState.CONNECTING:
            node.state = LinkState.UP
            self._outage.end()
            self._outages.pop(node.node_id, None)
        node.versions = versions
        if features.epoch >= self.features.epoch:
            self.features = features
        if self._settings.compression_type is Codec.ZSTD:
            node.produce_least = PRODUCE_VERSION_WITH_ZSTD
        node.failures = 0
        node.connect_failed, node.refused = False, None
        node.used_ms = now_ms
        self._note(now_ms + self._settings.connections_max_idle_ms)
        return [Die(node.unusable())] if node.too_old() else []

    def lost(self, node: Node, reason: str, now_ms: float, *, refused: NoUsableBroker | None = None) -> list[Request]:
        """The connection is lost; returns its requests without a response."""
        settings = self._settings
        node.connect_failed = node.state is LinkState.CONNECTING or refused is not None
        node.refused = refused
        node.state = LinkState.DOWN
        node.last_failure = reason
        delay = backoff_ms(node.failures, settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms, self._draw())
        node.retry_at_ms = now_ms + delay
        self._note(node.retry_at_ms)
        node.failures += 1
        node.losses += 1
        dead = list(node.requests.values())
        node.requests.clear()
        node.produces = 0
        if node.leaving:
            del self._nodes[node.node_id]
        return dead

    def begin(self, node: Node, api: Api, now_ms: float, kind: type[R]) -> R:
        """Register a request that is about to be written, as an object of `kind`."""
        self._next_request += 1
        request = kind(self._next_request, api, now_ms, now_ms + self._settings.request_timeout_ms)
        node.requests[request.request_id] = request
        node.produces += api is Api.PRODUCE
        node.used_ms = now_ms
        self._note(request.timeout_at_ms)
        return request

    def finish(self, node: Node, request_id: int, now_ms: float) -> Request | None:
        """Unregister an answered request, and return it; None if it is not known (any more)."""
        request = node.requests.pop(request_id, None)
        if request is not None:
            node.produces -= request.api is Api.PRODUCE
            node.silent.discard(request.api)
            node.used_ms = now_ms
            self._note(now_ms + self._settings.connections_max_idle_ms)
        return request

    def mute(self, node: Node, until_ms: float) -> None:
        """Send nothing to the throttling broker until then, or until a later time from an earlier response."""
        node.muted_until_ms = max(node.muted_until_ms, until_ms)
        self._note(until_ms)

    def pick(self, now_ms: float, api: Api) -> tuple[Node | None, list[Command]]:
        """A node for a request that any broker can answer: the connected node with the fewest requests. Without one, connect to the node
        whose backoff ended first. A node that let the last such request time out comes after all others."""
        up = [node for node in self if node.ready(now_ms)]
        idle = [node for node in self._within_reach() if node.state is LinkState.DOWN and node.retry_at_ms <= now_ms]
        answering = [node for node in up if api not in node.silent]
        if up and (answering or all(api in node.silent for node in idle)):
            return min(answering or up, key=lambda node: (len(node.requests), node.node_id < 0)), []
        if any(node.state is LinkState.CONNECTING and not (node.node_id >= 0 and node.connect_failed) for node in self) or not idle:
            return None, []
        return None, self.connect(min(idle, key=lambda node: (api in node.silent, node.retry_at_ms, self._draw())), now_ms)

    def no_usable_broker(self) -> NoUsableBroker | None:
        """Why no broker can be used with these settings: the newest attempt at every node failed, and at least one of them fails again.
        None otherwise."""
        recovers = self._settings.metadata_recovery_strategy is MetadataRecovery.REBOOTSTRAP
        nodes = list(self) if recovers else self._within_reach()
        refusals = [node.refused for node in nodes if node.refused is not None]
        if not refusals or not all(node.connect_failed and node.state is LinkState.DOWN for node in nodes):
            return None
        kind = AuthenticationFailed if any(isinstance(each, AuthenticationFailed) for each in refusals) else NoUsableBroker
        # A broker may be there under its bootstrap address and under its id.
        found = dict.fromkeys(f"{node.address}: {node.last_failure}" for node in nodes)
        return kind("; ".join(found))

    def last_failures(self) -> str:
        """The last failure of each address that has one; empty if none has."""
        return "; ".join(dict.fromkeys(f"{node.address}: {node.last_failure}" for node in self if node.last_failure))

    def trouble(self) -> str:
        """What happened at each address that was tried, for messages."""
        tried = [node for node in self if node.last_failure or node.state is LinkState.CONNECTING]
        # A broker may be there under its bootstrap address and under its id.
        return (
            "; ".join(dict.fromkeys(f"{node.address}: {node.last_failure or 'no answer yet'}" for node in tried))
            or "no response came in this time"
        )

    def _within_reach(self) -> list[Node]:
        """The nodes to which a connection may be made. Existing connections to bootstrap addresses stay in use."""
        return [node for node in self if node.node_id >= 0 or self.bootstrapping]

    def upkeep(self, now_ms: float) -> list[Command]:
        """Close connections with overdue requests, and idle connections. Warn if no broker can be used for long."""
        commands: list[Command] = []
        if now_ms < self._due_ms:
            return commands
        for node in self:
            overdue = {request.api for request in node.requests.values() if request.timeout_at_ms <= now_ms}
            if overdue:
                node.silent |= overdue
                commands += self.disconnect(
                    node, f"a request was not answered within request_timeout_ms={plain(self._settings.request_timeout_ms)}"
                )
            elif not node.requests and node.state is LinkState.UP and now_ms - node.used_ms >= self._settings.connections_max_idle_ms:
                commands += self.disconnect(node, f"idle for connections_max_idle_ms={plain(self._settings.connections_max_idle_ms)}")
        if self._outage.due_ms <= now_ms:
            self._warn(now_ms)
        for node_id, outage in list(self._outages.items()):
            if outage.due_ms <= now_ms:
                self._warn_of(node_id, outage, now_ms)
        self._due_ms = self._first_due(now_ms)
        return commands

    def next_deadline(self, now_ms: float) -> float:
        """The latest time for the next `upkeep`, in ms."""
        return self._due_ms

    def stood_still(self, late_ms: float, now_ms: float) -> None:
        """The producer itself did nothing for so long: answers may have arrived, and outages are younger than they look."""
        for node in self:
            for request in node.requests.values():
                request.timeout_at_ms = max(request.timeout_at_ms, now_ms + READ_MS)
        for outage in (self._outage, *self._outages.values()):
            outage.stood_still(late_ms, now_ms)

    def _warn(self, now_ms: float) -> None:
        """Warn that no broker can be used, unless no connection is wanted any more."""
        if all(_unwanted(node, now_ms) for node in self):
            self._outage.end()
            return
        log.warning(NO_BROKER, self._outage.warned(now_ms), self.waits() or NOTHING_WAITS, self.trouble())

    def _warn_of(self, node_id: int, outage: Outage, now_ms: float) -> None:
        """Warn that this broker cannot be used, unless no connection to it is wanted any more. Without any other it is one of all."""
        node = self._nodes.get(node_id)
        if node is None or _unwanted(node, now_ms) or not any(each.state is LinkState.UP for each in self):
            del self._outages[node_id]
            return
        why = node.last_failure or "no answer yet"
        log.warning(NOT_THIS_BROKER, node.name, outage.warned(now_ms), self.waits() or NOTHING_WAITS, why)

    def _note(self, at_ms: float) -> None:
        """`upkeep` may have work at that time."""
        self._due_ms = min(self._due_ms, at_ms)

    def _first_due(self, now_ms: float) -> float:
        times = [self._outage.due_ms, *(outage.due_ms for outage in self._outages.values())]
        for node in self:
            if node.state is LinkState.UP:
                idle_at = node.used_ms + self._settings.connections_max_idle_ms
                times += [request.timeout_at_ms for request in node.requests.values()] or [idle_at]
            for at in (node.muted_until_ms, node.retry_at_ms):
                if at > now_ms:
                    times.append(at)
        return min(times)


def _tried(node: Node) -> bool:
    """Whether the newest finished attempt to connect failed."""
    return node.connect_failed and node.state in (LinkState.DOWN, LinkState.CONNECTING)


def _unwanted(node: Node, now_ms: float) -> bool:
    """Whether no connection to it is wanted: a wanted one is attempted as soon as its backoff has passed."""
    return node.state is LinkState.DOWN and node.retry_at_ms + UNWANTED_MS < now_ms
