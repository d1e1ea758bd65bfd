"""One broker of the cluster: its address, whether it is up, and its own state.

Fetch sessions, connections and the use by clients belong to a broker and end with it. Its logs stay while it is down. Partitions belong to
the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fencepost.broker_stub.cluster.fetch_sessions import SessionCache
from fencepost.broker_stub.cluster.log_manager import LogManager

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.metadata_image import MetadataImage
    from fencepost.broker_stub.quotas.client_quota_manager import ClientQuotaManager


class Connection(Protocol):
    """A client's connection to a broker."""

    @property
    def id(self) -> int:
        """Its number."""
        ...

    @property
    def principal(self) -> str:
        """Its principal."""
        ...

    def cut(self) -> None:
        """Ends it at once."""
        ...


class Broker:
    """A broker. `image`: what it knows of the cluster. `fenced`: the controller does not hear from it, and counts it as down. `generation`
    counts its starts: what began in an earlier one has ended."""

    def __init__(self, node_id: int, logs: LogManager, image: MetadataImage) -> None:
        self.node_id = node_id
        self.image = image
        self.fenced = False
        self.logs = logs
        self.host = ""  # the host that clients are told to connect to
        self.port = 0
        self.listens_on = ""
        self.alive = True
        self.killed = False  # whether its last stop was a kill
        self.halts = False  # whether its disk has failed, so that it stops after the request at hand
        self.generation = 0
        self.sessions = SessionCache()
        self.connections: set[Connection] = set()
        self.quota_manager: ClientQuotaManager | None = None  # None while there is no quota

    def stop(self) -> None:
        """Cuts every connection and abandons waiting requests."""
        self.alive = self.halts = False
        self.generation += 1
        self.cut_connections()
        self.sessions.clear()
        self.quota_manager = None

    def cut_connections(self) -> int:
        """Ends every client connection; returns how many there were."""
        connections = tuple(self.connections)
        for connection in connections:
            connection.cut()
        return len(connections)

    def start(self) -> None:
        self.alive = True
