"""One broker of the cluster: its address, whether it is up, and what it knows that no other broker does.

Fetch sessions, connections and what clients have used of it are a broker's own and end with it. Partitions are the cluster's: their
replicas share one storage.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from broker_stub.sessions import SessionCache

if TYPE_CHECKING:
    from broker_stub.cluster import Cluster
    from broker_stub.link import Link
    from broker_stub.throttling import Throttling


class Broker:
    """A node. `generation` counts its lives: what began in an earlier one is over."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.host = ""  # where clients are told to connect to
        self.port = 0
        self.listens_on = ""
        self.alive = True
        self.killed = False  # the last time that it went down
        self.generation = 0
        self.sessions = SessionCache()
        self.links: set[Link] = set()

    @cached_property
    def throttling(self) -> Throttling:
        """What clients have used of it, loaded when there is a quota."""
        from broker_stub.throttling import Throttling

        config = self.cluster.config
        windows, window_ms = int(config["quota.window.num"]), int(config["quota.window.size.seconds"]) * 1000
        return Throttling(self.cluster.quotas, windows=windows, window_ms=window_ms)

    def stop(self) -> None:
        """Cuts every connection; what runs is abandoned."""
        self.alive = False
        self.generation += 1
        for link in tuple(self.links):
            link.cut()
        self.sessions.clear()
        self.__dict__.pop("throttling", None)

    def start(self) -> None:
        self.alive = True
