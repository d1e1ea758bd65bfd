"""The sockets of a proxy: one listener for each broker behind it, and the state that its connections share.

It moves bytes and decides nothing: ProxyConnections do. Everything except `post` runs on the loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from itertools import count
from typing import cast
from uuid import UUID

import msgspec

from fencepost.broker_stub.cluster.clock import RealClock
from fencepost.broker_stub.configs.server_properties import Place
from fencepost.broker_stub.faults.rules import Faults
from fencepost.broker_stub.faults.topics_and_partitions import TopicPartition
from fencepost.broker_stub.journal.journal import Journal
from fencepost.broker_stub.network.addresses import printable, spelled
from fencepost.broker_stub.network.limits import ACCEPT_BACKLOG, CLOSE_TURNS_MAX, WRITE_BUFFER_BYTES_MAX
from fencepost.broker_stub.network.listeners import bound, naming
from fencepost.broker_stub.proxy.connection import ProxyConnection
from fencepost.broker_stub.proxy.counters import ProxyCounters
from fencepost.broker_stub.proxy.fetch_sessions import FetchSessions
from fencepost.broker_stub.proxy.tls_side import TlsSide
from fencepost.producer.foundations.loop_post import post
from fencepost.producer.wire import Message

CONNECT_TIMEOUT_S = 10.0
NODES_MAX = 1000

Address = tuple[str, int]

_log = logging.getLogger(__name__)


class Hub:
    """Listeners, connections, the addresses of both sides, and the names of topic ids. `tls`: for clients' connections. `upstream_tls`: for
    those to brokers."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        faults: Faults,
        *,
        journal: Journal,
        place: Place,
        tls: ssl.SSLContext | None,
        upstream_tls: ssl.SSLContext | None,
    ) -> None:
        self.loop = loop
        self.faults = faults
        self.journal = journal
        self.clock = RealClock()
        self.counters = ProxyCounters()
        self.sessions = FetchSessions()
        self.connection_ids = count(1)
        self.addresses: dict[int, Address] = {}  # where clients find a node
        self._upstream: dict[int, Address] = {}  # where the node is
        self.upstream_tls = upstream_tls
        self._tls = tls
        self._place = place
        self._is_down = False
        self._listeners: dict[int, socket.socket] = {}
        self._servers: list[asyncio.Server] = []
        self._connections: set[ProxyConnection] = set()
        self._names: dict[UUID, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._transports: set[asyncio.Transport] = set()

    # -- what connections share --------------------------------------------------------------------------------------------

    def address_of(self, node: int, host: str, port: int) -> Address:
        """Where clients find the node that is at that address. A new node gets a listener. Raises OSError or ValueError when it cannot get
        one, or when there are more nodes than the limit."""
        if node not in self.addresses:
            if len(self.addresses) >= NODES_MAX:
                raise OSError(f"node {node} is one too many: the limit is {NODES_MAX} nodes")
            self._listen(node)
        self._upstream[node] = (host, port)
        return self.addresses[node]

    @property
    def upstream(self) -> dict[int, Address]:
        """Where each node is."""
        return dict(self._upstream)

    def name_of(self, topic_id: UUID) -> str | None:
        return self._names.get(topic_id)

    def learn(self, names: Mapping[UUID, str]) -> None:
        """Keeps the topic ids of a response."""
        self._names.update(names)

    def in_session(self, node: int, request: Message) -> list[TopicPartition]:
        """The partitions of the request's fetch session."""
        return self.sessions.partitions_of(node, request, self.name_of)

    def forget(self, connection: ProxyConnection) -> None:
        """Removes a connection that has ended."""
        self._connections.discard(connection)

    def opened(self, transport: asyncio.BaseTransport) -> asyncio.Transport:
        """Counts an open socket of either side."""
        # No assert, because uvloop's transport is no asyncio.Transport by class.
        transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        self._transports.add(transport)
        return transport

    def closed(self, transport: asyncio.BaseTransport | None) -> None:
        """Uncounts a socket of either side."""
        if transport is not None:
            self._transports.discard(cast(asyncio.Transport, transport))

    def post(self, run: Callable[[], None]) -> None:
        """Runs it on the loop, from any thread. Does nothing when the loop has ended."""
        post(self.loop, run)

    def cut_connections(self, node: int | None) -> int:
        connections = [connection for connection in self._connections if node is None or connection.node == node]
        for connection in connections:
            connection.cut()
        self.counters.connections_cut += len(connections)
        return len(connections)

    def stats(self) -> dict[str, int]:
        return {**msgspec.structs.asdict(self.counters), "open": len(self._connections)}

    async def down(self) -> None:
        """Cuts every connection and closes every socket. The caller may close the loop afterwards."""
        self._is_down = True
        for task in self._tasks:
            task.cancel()
        for server in self._servers:
            server.close()
        for listener in self._listeners.values():
            listener.close()
        for _ in range(CLOSE_TURNS_MAX):
            for connection in tuple(self._connections):
                connection.cut()
            for transport in tuple(self._transports):
                transport.abort()
            await asyncio.sleep(0)
            if not (self._connections or self._tasks or self._transports):
                break
        else:
            _log.warning("%d connections did not end", len(self._transports))
        await self.loop.shutdown_default_executor()  # it may have resolved names

    # -- sockets -----------------------------------------------------------------------------------------------------------

    def _listen(self, node: int) -> None:
        if self._is_down:
            raise ConnectionError("the proxy is closed")  # it may still have been looking for brokers
        number = len(self.addresses)
        host, port = self._place.host, self._place.port + number if self._place.port else 0
        self._listeners[node] = listener = bound(host, port)
        with naming(host, port):
            listener.listen(ACCEPT_BACKLOG)
        self.addresses[node] = (self._place.advertised_host, listener.getsockname()[1])
        self._spawn(self._serve(node, listener))

    async def _serve(self, node: int, listener: socket.socket) -> None:
        self._servers.append(await self.loop.create_server(partial(self._client_side, node), sock=listener, backlog=ACCEPT_BACKLOG))

    def _client_side(self, node: int) -> asyncio.Protocol:
        if self._tls is None:
            return _ClientSide(self, node)
        return TlsSide(self._tls, partial(_ClientSide, self, node), self.opened, self.closed)

    def joined(self, connection: ProxyConnection) -> None:
        """Connects to the broker of a client that has connected."""
        self.counters.connections += 1
        self._connections.add(connection)
        self._spawn(self._connect(connection))

    async def _connect(self, connection: ProxyConnection) -> None:
        host, port = self._upstream[connection.node]
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self.loop.create_connection(partial(_BrokerSide, self, connection), host, port, ssl=self.upstream_tls)
        except (OSError, OverflowError, ValueError) as error:  # an invalid address and an invalid port raise errors of other types
            level = logging.WARNING if isinstance(error, ssl.SSLError) else logging.INFO
            _log.log(level, "node %d at %s cannot be reached: %s", connection.node, printable(spelled(host, port)), error)
            self.counters.unreachable += 1
            connection.broker_lost()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _ClientSide(asyncio.Protocol):
    """The socket that a client opened."""

    def __init__(self, hub: Hub, node: int) -> None:
        self._hub = hub
        self._connection = ProxyConnection(hub, node)
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._connection.client_connected(self._hub.opened(transport))
        self._hub.joined(self._connection)

    def data_received(self, data: bytes) -> None:
        self._connection.client_sent(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._hub.closed(self._transport)
        self._connection.client_lost()

    def pause_writing(self) -> None:
        self._connection.choke_broker(True)

    def resume_writing(self) -> None:
        self._connection.choke_broker(False)


class _BrokerSide(asyncio.Protocol):
    """The socket to the broker."""

    def __init__(self, hub: Hub, connection: ProxyConnection) -> None:
        self._hub = hub
        self._connection = connection
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._connection.broker_connected(self._hub.opened(transport))

    def data_received(self, data: bytes) -> None:
        self._connection.broker_sent(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._hub.closed(self._transport)
        self._connection.broker_lost()

    def pause_writing(self) -> None:
        self._connection.choke_client(True)

    def resume_writing(self) -> None:
        self._connection.choke_client(False)
