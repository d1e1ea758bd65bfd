"""The sockets of a cluster: one listener per broker, all on one event loop.

It moves bytes and time and decides nothing: frames go to ClientConnections, and it calls `tick` at the cluster's next deadline. Everything
except `bind` runs on the loop's thread. A stopped broker's port stays reserved by a bound socket that does not listen: connections are
refused, and no other process can take the port before the broker is back.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial

from fencepost.broker_stub.cluster.clock import Clock
from fencepost.broker_stub.cluster.timers import Timer
from fencepost.broker_stub.configs.resource_types import ResourceType
from fencepost.broker_stub.network.limits import ACCEPT_BACKLOG, CLOSE_TURNS_MAX
from fencepost.broker_stub.network.listeners import bound, deaf, naming
from fencepost.broker_stub.socket_server.acceptor import Acceptor
from fencepost.broker_stub.socket_server.connection import Connection
from fencepost.broker_stub.socket_server.connection_quotas import ConnectionQuotas
from fencepost.producer.foundations.loop_post import post

ACCEPT_AGAIN_S = 1.0  # after the system has refused a socket
COMPLAIN_AGAIN_S = 1.0

_log = logging.getLogger(__name__)


class Server:
    """Listeners, connections and the one timer."""

    def __init__(self, acceptor: Acceptor, clock: Clock, loop: asyncio.AbstractEventLoop, *, tls: ssl.SSLContext | None = None) -> None:
        self.acceptor = acceptor
        self.cluster = cluster = acceptor.cluster
        self.loop = loop
        self.tls = tls
        self._clock = clock
        self._sockets: dict[int, socket.socket] = {}
        self._connections: set[Connection] = set()
        self._limits = {node_id: ConnectionQuotas(cluster.config, node_id) for node_id in cluster.brokers}
        self._looks: dict[int, Timer] = {}  # the next check for idle connections, by node
        self._waiting: set[int] = set()  # nodes that accept no connections for now
        self._silent_until = 0.0
        self._accepting: set[asyncio.Task[object]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for_ms: int | None = None
        cluster.post = self.post
        cluster.on_configs_changed.append(self._obey_new_limits)
        cluster.kill = partial(self.stop_broker, clean=False, failed=True)
        self._unwatch = clock.watch(partial(self.post, _nothing))

    def bind(self, host: str, port: int, *, advertised_host: str) -> None:
        """Binds a listening socket for every broker: clients may connect before the loop runs. Ports are consecutive; for 0, free ones."""
        try:
            for number, broker in enumerate(self.cluster.brokers.values()):
                listener = bound(host, port + number if port else 0)
                self._sockets[broker.node_id] = listener
                with naming(host, port + number):
                    listener.listen(ACCEPT_BACKLOG)
                broker.listens_on = host
                broker.host, broker.port = advertised_host, listener.getsockname()[1]
        except OSError:
            self._close_sockets()
            raise

    def serve(self) -> None:
        """Begins to accept on every socket."""
        for node_id in self._sockets:
            self._accept_on(node_id)
        self.arm()

    def stop_broker(self, node_id: int, *, clean: bool, lost_power: bool = False, failed: bool = False) -> None:
        broker = self.cluster.brokers[node_id]
        if broker.alive:
            self.loop.remove_reader(self._sockets[node_id])
            self._sockets[node_id] = deaf(self._sockets[node_id])
            self.cluster.stop_broker(node_id, clean=clean, lost_power=lost_power, failed=failed)
        self.arm()

    def start_broker(self, node_id: int, *, port: int | None = None) -> None:
        broker = self.cluster.brokers[node_id]
        if not broker.alive:
            if port is not None:
                moved = bound(broker.listens_on, port)
                self._sockets[node_id].close()
                self._sockets[node_id] = moved
                broker.port = moved.getsockname()[1]
            self.cluster.start_broker(node_id)
            self._sockets[node_id].listen(ACCEPT_BACKLOG)
            self._accept_on(node_id)
        self.arm()

    def post(self, run: Callable[[], None]) -> None:
        """Runs it on the loop, from any thread. Does nothing when the loop has ended."""
        if not post(self.loop, self._run, run):
            _log.debug("the cluster is down, %r is not run", run)

    def arm(self) -> None:
        """Runs what is due and sets the timer for the next deadline. Call this after every change of the cluster."""
        self.cluster.timers.worked()
        self._tick_and_wait()

    def _tick_and_wait(self) -> None:
        cluster = self.cluster
        deadline_ms, now_ms = cluster.next_deadline(), cluster.now_ms()
        must_tick = cluster.timers.housekeeping_is_due(now_ms)  # also if nothing else has a deadline, as under a load of appends
        while must_tick or (deadline_ms is not None and deadline_ms <= cluster.now_ms()):
            must_tick = False
            try:
                cluster.tick()
            except Exception:  # noqa: BLE001 - the outermost loop of timers: a failed timer must not harm the connection that ran it
                _log.exception("a timer of the cluster failed; this is a bug")
            deadline_ms = cluster.next_deadline()
        housekeeping_ms = cluster.timers.next_housekeeping()
        if housekeeping_ms is not None and (deadline_ms is None or housekeeping_ms < deadline_ms):
            deadline_ms = housekeeping_ms
        if deadline_ms == self._armed_for_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_s = self._clock.delay_s(deadline_ms) if deadline_ms is not None else None
        self._timer = self.loop.call_later(delay_s, self._due) if delay_s is not None else None
        self._armed_for_ms = deadline_ms if self._timer is not None else None

    async def down(self) -> None:
        """Cuts every connection and closes every socket. The caller may close the loop afterwards."""
        self._unwatch()
        for listener in self._sockets.values():
            self.loop.remove_reader(listener)
        self._close_sockets()
        for task in self._accepting:
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        for broker in self.acceptor.cluster.brokers.values():
            broker.cut_connections()
        for _ in range(CLOSE_TURNS_MAX):
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
        self._tick_and_wait()

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
                connection = Connection(self, node_id)
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
            return  # every waiting connection was accepted
        except OSError as error:
            now = self.loop.time()
            if now >= self._silent_until:  # once for a while, not for each connection that ends
                self._silent_until = now + COMPLAIN_AGAIN_S
                _log.warning("broker %d cannot accept a connection: %s", node_id, error)
            self._wait(node_id)
            self.loop.call_later(ACCEPT_AGAIN_S, self._go_on_accepting, node_id)  # another connection may end, also of another broker

    def _wait(self, node_id: int) -> None:
        """Stops accepting connections for now."""
        self._waiting.add(node_id)
        self.loop.remove_reader(self._sockets[node_id])

    def _obey_new_limits(self, kind: ResourceType, name: str) -> None:
        """A broker may accept more connections than before."""
        if kind is ResourceType.BROKER:
            for node_id in self._limits:
                self._go_on_accepting(node_id)

    def _go_on_accepting(self, node_id: int) -> None:
        if node_id in self._waiting and self.cluster.brokers[node_id].alive and node_id in self._sockets:
            self._accept_on(node_id)

    async def _take_over(self, connection: Connection, accepted: socket.socket) -> None:
        try:
            await self.loop.connect_accepted_socket(lambda: connection, accepted)
        except OSError as error:
            _log.warning("broker %d lost a connection while accepting it: %s", connection.node_id, error)
            accepted.close()
            self.ended(connection)

    def _accepted(self, connection: Connection, accepted: socket.socket, task: asyncio.Task[object]) -> None:
        """A task that is cancelled before its first step does not close its socket, so this does."""
        self._accepting.discard(task)
        if task.cancelled():
            accepted.close()
            self.ended(connection)

    def began(self, connection: Connection) -> None:
        """A connection is up."""
        self._connections.add(connection)
        if connection.node_id not in self._looks:
            self._look_for_idle(connection.node_id)

    def ended(self, connection: Connection) -> None:
        """A connection is down, or never came up."""
        self._connections.discard(connection)
        limits = self._limits[connection.node_id]
        limits.closed(connection)
        if not len(limits) and connection.node_id in self._looks:
            self._looks.pop(connection.node_id).cancel()
        self._go_on_accepting(connection.node_id)

    def _look_for_idle(self, node_id: int) -> None:
        """Ends idle connections, and repeats while there are connections."""
        self._looks.pop(node_id, None)
        now_ms = self.cluster.now_ms()
        next_look_ms = self._limits[node_id].look(now_ms)
        if next_look_ms is not None:
            self._looks[node_id] = self.cluster.later_on(node_id, next_look_ms - now_ms, partial(self._look_for_idle, node_id))

    def _close_sockets(self) -> None:
        for listener in self._sockets.values():
            listener.close()
        self._sockets.clear()


def _nothing() -> None:
    """Runs what is due after a jump of the clock."""
