"""One broker of the cluster: its address, whether it is up, and what it knows that no other broker does.

Fetch sessions, connections and what clients have used of it are a broker's own and end with it. Partitions are the cluster's: their
replicas share one storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fencepost.broker_stub.cluster.fetch_sessions import SessionCache

if TYPE_CHECKING:
    from fencepost.broker_stub.quotas.throttling import Throttling


class Connection(Protocol):
    """A client's connection to a broker."""

    @property
    def id(self) -> int:
        """Its number."""
        ...

    @property
    def principal(self) -> str:
        """Who it belongs to."""
        ...

    def cut(self) -> None:
        """Ends it at once."""
        ...


class Broker:
    """A node. `generation` counts its lives: what began in an earlier one is over."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.host = ""  # where clients are told to connect to
        self.port = 0
        self.listens_on = ""
        self.alive = True
        self.killed = False  # the last time that it went down
        self.generation = 0
        self.sessions = SessionCache()
        self.links: set[Connection] = set()
        self.throttling: Throttling | None = None  # what clients have used of it, once there is a quota

    def stop(self) -> None:
        """Cuts every connection; what runs is abandoned."""
        self.alive = False
        self.generation += 1
        for link in tuple(self.links):
            link.cut()
        self.sessions.clear()
        self.throttling = None

    def start(self) -> None:
        self.alive = True
