"""One broker of the cluster: its address, whether it is up, and its own state.

Fetch sessions, connections and the use by clients belong to a broker and end with it. Its logs stay while it is down. Partitions belong to
the cluster.
"""

from __future__ import annotations

from collections.abc import Callable
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
    counts its starts: what began in an earlier one has ended. `clock_ms`: the cluster's clock. The broker's own is `ahead_ms` ahead of it.
    `loading_ms`: how long its coordinators take to load a partition. `slow_disk_ms`: how long its disk takes
    for a write. `move_bytes_per_second`: what it copies between its log
    directories (replica.alter.log.dirs.io.max.bytes.per.second); None: no limit."""

    def __init__(
        self, node_id: int, logs: Callable[[Callable[[], int]], LogManager], image: MetadataImage, clock_ms: Callable[[], int]
    ) -> None:
        self.node_id = node_id
        self.ahead_ms = self.loading_ms = self.slow_disk_ms = 0
        self._written_at_ms = 0  # when its slow disk will have done everything
        self.move_bytes_per_second: int | None = None
        self.paused = False
        self._clock_ms = clock_ms
        self._held: list[Callable[[], None]] = []  # what it does when it goes on
        self.image = image
        self.fenced = False
        self.logs = logs(self.now_ms)
        self.host = ""  # the host that clients are told to connect to
        self.port = 0
        self.listens_on = ""
        self.alive = True
        self.registered = True  # whether the controller knows it (UnregisterBroker)
        self.killed = False  # whether its last stop was a kill
        self.halts = False  # whether its disks have failed, so that it stops after the request at hand
        self.generation = 0
        self.sessions = SessionCache()
        self.connections: set[Connection] = set()
        self.on_disconnected: list[Callable[[int], object]] = []  # called with the number of each connection that has ended
        self.quota_manager: ClientQuotaManager | None = None  # None while there is no quota

    def stop(self) -> None:
        """Cuts every connection and abandons waiting requests."""
        self.alive = self.halts = self.paused = False
        self._held.clear()
        self._written_at_ms = 0
        self.generation += 1
        self.cut_connections()
        self.sessions.clear()
        self.quota_manager = None

    def now_ms(self) -> int:
        """The time by its own clock."""
        return max(0, self._clock_ms() + self.ahead_ms)

    def writing_ms(self) -> int:
        """How long the next write to its disk takes: those before come first, also when the disk is fast again. 0: no time."""
        if not self.slow_disk_ms and not self._written_at_ms:
            return 0
        now_ms = self._clock_ms()
        if not self.slow_disk_ms and self._written_at_ms < now_ms:
            self._written_at_ms = 0
            return 0
        self._written_at_ms = max(self._written_at_ms, now_ms) + (self.slow_disk_ms or 1)
        return self._written_at_ms - now_ms

    def when_running(self, run: Callable[[], None]) -> None:
        """Runs it now, or when the paused broker goes on. If it stops before, never."""
        if self.paused:
            self._held.append(run)
        else:
            run()

    def resume(self) -> None:
        """Goes on: does what it could not do while it was paused, in the same order."""
        self.paused = False
        held, self._held = self._held, []
        for run in held:
            run()

    def disconnected(self, connection: Connection) -> None:
        """That connection has ended, and its requests with it."""
        if connection in self.connections:
            self.connections.discard(connection)
            for each in self.on_disconnected:
                each(connection.id)

    def cut_connections(self) -> int:
        """Ends every client connection; returns how many there were."""
        connections = tuple(self.connections)
        for connection in connections:
            connection.cut()
        return len(connections)

    def start(self) -> None:
        self.alive = self.registered = True
