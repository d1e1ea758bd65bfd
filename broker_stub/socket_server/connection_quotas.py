"""Kafka's limits of a broker's connections: how many, how many of each address, and how long they may be idle. No sockets.

As in Kafka (`ConnectionQuotas`, `Selector`): above `max.connections` a new connection waits, unaccepted, until another one ends. Above
`max.connections.per.ip` it is closed when it is accepted. A connection without traffic for `connections.max.idle.ms` is closed, also during
its handshake. Unlike in Kafka, a connection with a request in progress is not idle, so that a virtual clock can be advanced beyond the
response. Leaves out: limits of single listeners and addresses, and of the rate of new connections.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from fencepost.broker_stub.configs.topic_configs import BrokerConfig

LATE_SHARE: Final = 100  # an idle connection may live longer by this part of its time, so that one check covers many


class Seen(Protocol):
    """What the limits need of a connection."""

    @property
    def seen_ms(self) -> int:
        """When it last read or wrote."""
        ...

    @property
    def busy(self) -> bool:
        """Whether a request waits for its response."""
        ...

    def cut(self, *, flush: bool) -> None:
        """Ends it."""
        ...


class ConnectionQuotas:
    """The connections of one broker. Call `close` once for each `open`. Its limits may change while it runs (KIP-226)."""

    def __init__(self, config: BrokerConfig, node_id: int = 0) -> None:
        self._config = config
        self._node_id = node_id
        self._idle_ms = int(config["connections.max.idle.ms"])
        self._of: Counter[str] = Counter()
        self._open: dict[Seen, str] = {}

    def __len__(self) -> int:
        return len(self._open)

    @property
    def full(self) -> bool:
        """Whether the next connection must wait."""
        return len(self._open) >= int(self._config.on(self._node_id, "max.connections"))

    def opened(self, connection: Seen, ip: str) -> bool:
        """Counts a connection. Returns whether it may stay."""
        self._open[connection] = ip
        self._of[ip] += 1
        return self._of[ip] <= int(self._config.on(self._node_id, "max.connections.per.ip"))

    def closed(self, connection: Seen) -> None:
        """Uncounts a connection. A second call does nothing."""
        ip = self._open.pop(connection, None)
        if ip is not None:
            self._of[ip] -= 1
            if not self._of[ip]:
                del self._of[ip]

    def look(self, now_ms: int) -> int | None:
        """Ends idle connections. Returns when to check again, None without connections."""
        if self._idle_ms < 0:
            return None
        oldest_ms = now_ms
        for connection in tuple(self._open):
            if connection.busy:
                continue
            if now_ms - connection.seen_ms >= self._idle_ms:
                connection.cut(flush=True)
            else:
                oldest_ms = min(oldest_ms, connection.seen_ms)
        return max(oldest_ms + self._idle_ms, now_ms + self._idle_ms // LATE_SHARE + 1) if self._open else None
