"""The sockets of a cluster: one listener per broker, all on one event loop, which owns everything.

It moves bytes and time and decides nothing: frames go to links, through TLS where that is wanted, and `tick` is called when the cluster's
next deadline has come. All of it runs on the loop's thread except `bind`. A stopped broker's port stays reserved, by a socket that is bound
and does not listen: connections are refused, and no other process can take the port before the broker is back.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from broker_stub.clock import Clock
from broker_stub.cluster import Cluster
from broker_stub.connections import Connections
from broker_stub.link import Link
from broker_stub.listening import bound, deaf, naming
from broker_stub.principal import ANONYMOUS, LOCALHOST, of_certificate
from broker_stub.timers import Timer
from producer.wire import Buffer, FrameSplitter, FrameTooLarge

if TYPE_CHECKING:
    from producer.wire.tls import TlsPipe

ACCEPT_BACKLOG = 128
WRITE_BUFFER_BYTES_MAX = 4 * 1024 * 1024
JOINED_BYTES_MAX = 64 * 1024  # smaller answers are sent in one piece
DOWN_TURNS_MAX = 100
HANDSHAKE_TIMEOUT_S = 10.0
ACCEPT_AGAIN_S = 1.0  # after the system has refused to give a socket

_log = logging.getLogger(__name__)


class Server:
    """Listeners, connections and the one timer."""

    def __init__(self, cluster: Cluster, clock: Clock, loop: asyncio.AbstractEventLoop, *, tls: ssl.SSLContext | None = None) -> None:
        self.cluster = cluster
        self.loop = loop
        self.tls = tls
        self._clock = clock
        self._sockets: dict[int, socket.socket] = {}
        self._connections: set[_Connection] = set()
        self._limits = {node_id: Connections(cluster.config) for node_id in cluster.brokers}
        self._looks: dict[int, Timer] = {}  # when each node's connections are looked at for idle ones
        self._waiting: set[int] = set()  # nodes that accept nobody for now
        self._accepting: set[asyncio.Task[object]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for_ms: int | None = None
        cluster.post = self.post
        self._unwatch = clock.watch(partial(self.post, _nothing))

    def bind(self, host: str, port: int) -> None:
        """Every broker gets its socket, listening: clients may connect before the loop runs. Ports are consecutive, or free ones for 0."""
        try:
            for number, broker in enumerate(self.cluster.brokers.values()):
                listener = bound(host, port + number if port else 0)
                self._sockets[broker.node_id] = listener
                with naming(host, port + number):
                    listener.listen(ACCEPT_BACKLOG)
                broker.host, broker.port = host, listener.getsockname()[1]
        except OSError:
            self._close_sockets()
            raise

    def serve(self) -> None:
        """Begins to accept on every socket."""
        for node_id in self._sockets:
            self._accept_on(node_id)

    def stop_broker(self, node_id: int, *, clean: bool) -> None:
        broker = self.cluster.brokers[node_id]
        if broker.alive:
            self.loop.remove_reader(self._sockets[node_id])
            self._sockets[node_id] = deaf(self._sockets[node_id])
            self.cluster.stop_broker(node_id, clean=clean)
        self.arm()

    def start_broker(self, node_id: int, *, port: int | None = None) -> None:
        broker = self.cluster.brokers[node_id]
        if not broker.alive:
            if port is not None:
                moved = bound(broker.host, port)
                self._sockets[node_id].close()
                self._sockets[node_id] = moved
                broker.port = moved.getsockname()[1]
            self.cluster.start_broker(node_id)
            self._sockets[node_id].listen(ACCEPT_BACKLOG)
            self._accept_on(node_id)
        self.arm()

    def post(self, run: Callable[[], None]) -> None:
        """Has it run on the loop, from any thread; nothing happens when the loop has ended."""
        try:
            self.loop.call_soon_threadsafe(self._run, run)
        except RuntimeError:
            _log.debug("the cluster is down, %r is not run", run)

    def arm(self) -> None:
        """Runs what is due and sets the timer for what comes next. To be called after everything that touched the cluster."""
        cluster = self.cluster
        deadline_ms = cluster.next_deadline()
        while deadline_ms is not None and deadline_ms <= cluster.now_ms():
            cluster.tick()
            deadline_ms = cluster.next_deadline()
        if deadline_ms == self._armed_for_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_s = self._clock.delay_s(deadline_ms) if deadline_ms is not None else None
        self._timer = self.loop.call_later(delay_s, self._due) if delay_s is not None else None
        self._armed_for_ms = deadline_ms if self._timer is not None else None

    async def down(self) -> None:
        """Cuts every connection and closes every socket; the loop may be closed afterwards."""
        self._unwatch()
        for listener in self._sockets.values():
            self.loop.remove_reader(listener)
        self._close_sockets()
        for task in self._accepting:
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        for _ in range(DOWN_TURNS_MAX):
            for connection in tuple(self._connections):
                connection.cut(flush=False)
            if not self._connections and not self._accepting:
                return
            await asyncio.sleep(0)
        _log.warning("%d connections did not end", len(self._connections))

    def _run(self, run: Callable[[], None]) -> None:
        run()
        self.arm()

    def _due(self) -> None:
        self._timer = None
        self._armed_for_ms = None
        self.arm()

    def _accept_on(self, node_id: int) -> None:
        listener = self._sockets[node_id]
        listener.setblocking(False)
        self._waiting.discard(node_id)
        self.loop.add_reader(listener, self._accept, node_id, listener)

    def _accept(self, node_id: int, listener: socket.socket) -> None:
        limits = self._limits[node_id]
        try:
            for _ in range(ACCEPT_BACKLOG):
                if limits.full:
                    self._wait(node_id)
                    return
                accepted, peer = listener.accept()
                connection = _Connection(self, node_id)
                if not limits.opened(connection, peer[0]):
                    _log.info("broker %d refuses a connection from %s: max.connections.per.ip", node_id, peer[0])
                    limits.closed(connection)
                    accepted.close()
                    continue
                accepted.setblocking(False)
                task = self.loop.create_task(self._take_over(connection, accepted))
                self._accepting.add(task)
                task.add_done_callback(partial(self._accepted, connection, accepted))
        except BlockingIOError:
            return  # that was all
        except OSError as error:
            _log.warning("broker %d cannot accept a connection: %s", node_id, error)
            self._wait(node_id)
            self.loop.call_later(ACCEPT_AGAIN_S, self._go_on_accepting, node_id)  # one may end, and not of this broker

    def _wait(self, node_id: int) -> None:
        """Leaves new connections where they are for now."""
        self._waiting.add(node_id)
        self.loop.remove_reader(self._sockets[node_id])

    def _go_on_accepting(self, node_id: int) -> None:
        if node_id in self._waiting and self.cluster.brokers[node_id].alive and node_id in self._sockets:
            self._accept_on(node_id)

    async def _take_over(self, connection: _Connection, accepted: socket.socket) -> None:
        try:
            await self.loop.connect_accepted_socket(lambda: connection, accepted)
        except OSError as error:
            _log.warning("broker %d lost a connection while accepting it: %s", connection.node_id, error)
            accepted.close()
            self._ended(connection)

    def _accepted(self, connection: _Connection, accepted: socket.socket, task: asyncio.Task[object]) -> None:
        """A task that is cancelled before its first step never knows of its socket, so that is closed here."""
        self._accepting.discard(task)
        if task.cancelled():
            accepted.close()
            self._ended(connection)

    def _began(self, connection: _Connection) -> None:
        self._connections.add(connection)
        if connection.node_id not in self._looks:
            self._look_for_idle(connection.node_id)

    def _ended(self, connection: _Connection) -> None:
        self._connections.discard(connection)
        limits = self._limits[connection.node_id]
        limits.closed(connection)
        if not len(limits) and connection.node_id in self._looks:
            self._looks.pop(connection.node_id).cancel()
        self._go_on_accepting(connection.node_id)

    def _look_for_idle(self, node_id: int) -> None:
        """Ends what is idle, and comes again while there is anything."""
        self._looks.pop(node_id, None)
        next_look_ms = self._limits[node_id].look(self.cluster.now_ms())
        if next_look_ms is not None:
            self._looks[node_id] = self.cluster.timers.at(next_look_ms, partial(self._look_for_idle, node_id))

    def _close_sockets(self) -> None:
        for listener in self._sockets.values():
            listener.close()
        self._sockets.clear()


class _Connection(asyncio.Protocol):
    """One accepted socket and its link. With TLS there is no link before the handshake is over."""

    def __init__(self, server: Server, node_id: int) -> None:
        self._server = server
        self.node_id = node_id
        self.seen_ms = server.cluster.now_ms()
        self._splitter = FrameSplitter()
        self._transport: asyncio.Transport | None = None
        self._link: Link | None = None
        self._tls: TlsPipe | None = None
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server._began(self)
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES_MAX)
        if self._server.tls is None:
            self._connect(transport, ANONYMOUS)
            return
        from producer.wire.tls import TlsPipe

        self._tls = TlsPipe(self._server.tls, server_side=True)
        self._patience = self._server.loop.call_later(HANDSHAKE_TIMEOUT_S, transport.abort)

    def _connect(self, transport: asyncio.Transport, principal: str) -> None:
        try:
            host = (transport.get_extra_info("peername") or (LOCALHOST,))[0]
            self._link = self._server.cluster.connect(self.node_id, self, principal=principal, host=host)
        except ConnectionRefusedError:
            transport.abort()  # the broker stopped while the connection was being accepted

    @property
    def busy(self) -> bool:
        return self._link is not None and self._link.busy

    def data_received(self, data: bytes) -> None:
        self.seen_ms = self._server.cluster.now_ms()
        if self._tls is None:
            self._take(data)
            return
        self._take(self._decrypt(data, self._tls))
        if self._tls.ended and self._transport is not None:
            self.cut(flush=True)  # some clients wait until their goodbye is answered

    def _decrypt(self, data: bytes, tls: TlsPipe) -> bytes:
        """What the bytes say; once the handshake is over there is a link that it can be said to. What is not TLS, or the client's alert,
        ends the connection with an alert, if TLS has one for that."""
        transport = self._transport
        assert transport is not None
        try:
            return tls.receive(data)
        except ssl.SSLError as error:
            _log.info("broker %d closes a connection: %s", self.node_id, error)
            transport.write(tls.pending())
            transport.close()
            return b""
        finally:
            transport.write(tls.pending())
            if tls.established and self._patience is not None:
                self._patience.cancel()
                self._patience = None
                self._connect(transport, of_certificate(tls.peer_certificate()))

    def _take(self, data: bytes) -> None:
        link = self._link
        if link is None or not link.open:
            return
        too_large = False
        try:
            frames = self._splitter.feed(data)
        except FrameTooLarge as error:
            frames, too_large = error.frames, True
        for frame in frames:
            link.receive(frame)
        if too_large:
            link.cut()
        self._server.arm()

    def connection_lost(self, error: Exception | None) -> None:
        self._server._ended(self)
        if self._patience is not None:
            self._patience.cancel()
        if self._link is not None:
            self._link.lost()
            self._server.arm()

    def pause_writing(self) -> None:
        if self._link is not None:
            self._link.choke(True)

    def resume_writing(self) -> None:
        if self._link is not None:
            self._link.choke(False)
            self._server.arm()

    # What the link asks of it

    def write(self, parts: list[Buffer]) -> None:
        assert self._transport is not None
        self.seen_ms = self._server.cluster.now_ms()
        if self._tls is not None:
            for part in parts:
                self._tls.send(part)
            self._transport.write(self._tls.pending())
        elif len(parts) == 1:
            self._transport.write(parts[0])
        elif sum(memoryview(part).nbytes for part in parts) <= JOINED_BYTES_MAX:
            self._transport.write(b"".join(parts))
        else:
            # `writelines` joins before Python 3.12 and forgets flow control in some releases after it.
            for part in parts:
                self._transport.write(part)

    def cut(self, *, flush: bool) -> None:
        assert self._transport is not None
        if flush:
            if self._tls is not None:
                self._tls.end()
                self._transport.write(self._tls.pending())
            self._transport.close()
        else:
            self._transport.abort()

    def pause(self, paused: bool) -> None:
        assert self._transport is not None
        if paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()


def _nothing() -> None:
    """A jump of the clock is nothing by itself: `arm` does what has come due."""
