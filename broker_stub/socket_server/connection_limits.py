"""How many connections a broker has, who has them, and which of them are idle: Kafka's limits, without a socket.

As Kafka has it (`ConnectionQuotas`, `Selector`): above `max.connections` a new connection waits, unaccepted, until another one ends;
above `max.connections.per.ip` it is closed as soon as it is accepted; one that has said and heard nothing for `connections.max.idle.ms`
is closed, the handshake not yet done included. Unlike there, one whose request is still being answered is not idle, so that a virtual
clock can be advanced beyond an answer that is due. Left out: limits of single listeners and addresses, and of the rate of new connections.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from fencepost.broker_stub.configs.topic_configs import BrokerConfig

LATE_SHARE: Final = 100  # an idle connection may live longer by this part of its time, so that many are looked at together


class Seen(Protocol):
    """A connection, as far as it matters here."""

    @property
    def seen_ms(self) -> int:
        """When it last said or heard something."""
        ...

    @property
    def busy(self) -> bool:
        """Whether one of its requests is still to be answered."""
        ...

    def cut(self, *, flush: bool) -> None:
        """Ends it."""
        ...


class Connections:
    """One broker's. Whoever opens one must close it again, once."""

    def __init__(self, config: BrokerConfig) -> None:
        self._limit = int(config["max.connections"])
        self._limit_per_ip = int(config["max.connections.per.ip"])
        self._idle_ms = int(config["connections.max.idle.ms"])
        self._of: Counter[str] = Counter()
        self._open: dict[Seen, str] = {}

    def __len__(self) -> int:
        return len(self._open)

    @property
    def full(self) -> bool:
        """Whether the next one has to wait."""
        return len(self._open) >= self._limit

    def opened(self, connection: Seen, ip: str) -> bool:
        """One was accepted; whether it may stay."""
        self._open[connection] = ip
        self._of[ip] += 1
        return self._of[ip] <= self._limit_per_ip

    def closed(self, connection: Seen) -> None:
        """It has ended; a second call does nothing."""
        ip = self._open.pop(connection, None)
        if ip is not None:
            self._of[ip] -= 1
            if not self._of[ip]:
                del self._of[ip]

    def look(self, now_ms: int) -> int | None:
        """Ends what is idle, and says when to look again; None while there is nothing to look at."""
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
