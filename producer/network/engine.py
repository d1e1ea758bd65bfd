"""The engine: on an event loop, it turns the core's commands into sockets, timers and callbacks.

`sender_thread` runs it on a thread with a loop of its own, `async_engine` on the caller's loop. Everything here runs on the loop's thread.
An exception of the core is a bug. It ends the producer and fails every record, so that no caller hangs.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from fencepost.producer.accumulator.accumulator import Accumulator
from fencepost.producer.accumulator.batch import Batch
from fencepost.producer.config.bootstrap_servers import addresses
from fencepost.producer.config.settings import Settings
from fencepost.producer.core.core import Core
from fencepost.producer.core.events import (
    NEVER,
    Announce,
    Command,
    Connect,
    Connected,
    ConnectionLost,
    Die,
    Disconnect,
    Event,
    Pack,
    Packed,
    Replied,
    Return,
    Send,
    Settle,
    Ticked,
    Written,
)
from fencepost.producer.core.idempotence.transaction_hooks import Transactions
from fencepost.producer.errors import DeliveryFatal, Fatal, FencepostError, Persisted, again
from fencepost.producer.network.connect_error import ConnectError
from fencepost.producer.network.connection import Connection
from fencepost.producer.network.connector import Connector
from fencepost.producer.network.run_in_thread import beside
from fencepost.producer.observe.statistics_callback import Reporter
from fencepost.producer.observe.stats import snapshot
from fencepost.producer.observe.unobserved_failures import Failures

log = logging.getLogger("fencepost.producer")

UNSEEN_LOG_DELAY_S = 1.0


def now_ms() -> float:
    """The engine's clock: monotonic milliseconds."""
    return time.monotonic() * 1000.0


class Engine:
    """Owns the connections and the core. It calls `announce` with news of topics, `freed` when bytes of the buffer are free again, and
    `died` when the producer ended. `pack_aside_bytes`: from this size on, batches are compressed off the loop, because the loop is the
    caller's. `step` is the core's `handle`; an observer may replace it, because events and commands are plain values."""

    def __init__(
        self,
        settings: Settings,
        accumulator: Accumulator,
        loop: asyncio.AbstractEventLoop,
        *,
        pack_aside_bytes: int | None = None,
        transactions: Transactions | None = None,
        announce: Callable[[Announce], None],
        freed: Callable[[], None],
        died: Callable[[FencepostError], None],
    ) -> None:
        self.failures = Failures()
        self.core = Core(
            settings,
            accumulator,
            bootstrap=addresses(settings),
            draw=random.random,
            transactions=transactions,
            pack_aside_bytes=pack_aside_bytes,
        )
        self.step: Callable[[Event, float], list[Command]] = self.core.handle
        self._connector = Connector(settings)
        self._accumulator = accumulator
        self._loop = loop
        self._announce = announce
        self._tell_room = freed
        self._died = died
        self._connections: dict[int, Connection] = {}
        self._dials: dict[int, asyncio.Task[None]] = {}
        self._inbox: deque[Event] = deque()
        self._busy = False
        self._freed = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_s = 0.0
        self._say_timer: asyncio.TimerHandle | None = None
        self._reporter = (
            Reporter(
                loop,
                take=lambda: snapshot(settings, accumulator, self.core, now_ms()),
                tell=settings.on_statistics,
                came_back=accumulator.shared.came_back,
                interval_ms=settings.statistics_interval_ms,
            )
            if settings.on_statistics is not None
            else None
        )

    def trouble(self) -> str:
        """Why no broker answers, for an error message."""
        return self.core.nodes.trouble()

    def handle(self, event: Event) -> None:
        """Run the core on an event and on all events that its commands cause at once."""
        try:
            self._inbox.append(event)
            if self._busy:
                return
            self._busy = True
            self._set_timer(self._handle_all())
        except BaseException as error:  # noqa: BLE001 - it is raised again, or the producer ends
            self._fail(error)
        self._busy = False
        if self._freed:
            self._freed = False
            self._tell_room()

    def _handle_all(self) -> float:
        """Run the core on each event, of which there is one at least. Returns when the last one began."""
        now = 0.0
        while self._inbox:
            now = now_ms()
            for command in self.step(self._inbox.popleft(), now):
                self._do(command)
        return now

    def _fail(self, error: BaseException) -> None:
        """A step was interrupted, so the state of the core is unknown, and the producer ends. If a signal handler raised on the caller's
        loop, the caller gets that exception. The records fail when the loop continues, and `_busy` keeps out further events."""
        self._inbox.clear()
        if not isinstance(error, Exception):
            self._loop.call_soon(self.end, Fatal(f"{error!r} interrupted the sender: the producer cannot continue; make a new one"))
            raise error
        log.exception("the sender failed: the producer cannot continue; make a new one")
        self.end(Fatal(f"internal error in the sender: {error!r}"))

    def _set_timer(self, seen_ms: float) -> None:
        """Set the timer for the core's next deadline after `seen_ms`; that may be past by now. A timer that ends sooner stays: nearly every
        event moves the deadline, and one wakeup too many is cheaper than a timer for each event. A timer in the past is replaced, because
        an exception that left the loop may have removed it."""
        wake_ms = self.core.next_wake_ms(seen_ms)
        if wake_ms == NEVER:
            return
        loop_s = self._loop.time()
        at_s = loop_s + max(0.0, wake_ms - now_ms()) / 1000.0
        if self._timer is not None:
            if loop_s <= self._timer_at_s <= at_s:
                return
            self._timer.cancel()
        # Not every handle of uvloop tells its time.
        self._timer, self._timer_at_s = self._loop.call_at(at_s, self._tick), at_s

    def _tick(self) -> None:
        self._timer = None
        self.handle(TICKED)

    # -- commands ----------------------------------------------------------------------------------------------------

    def _do(self, command: Command) -> None:
        _DO[type(command)](self, command)

    def _do_send(self, command: Send) -> None:
        connection = self._connections.get(command.node)
        if connection is None:
            self._inbox.append(ConnectionLost(command.node, "the connection was lost"))
            return
        self.core.metrics.broker(command.node).requests += 1
        connection.send(command.request_id, command.api, command.version, command.message, answered=command.answered)

    def _do_settle(self, command: Settle) -> None:
        batch = command.batch
        on_outcome = self._accumulator.on_outcome
        if on_outcome is not None and not batch.settled:
            on_outcome(batch, int(command.base_offset), command.failure, now_ms() - batch.created_ms)
        self.core.metrics.settled(batch.topic, int(batch.count), failed=command.failure is not None)
        batch.settle(command.base_offset, command.log_append_time, command.failure)
        # In a transaction the commit raises the failure, and an abort makes it irrelevant.
        if command.failure is not None and self.core.transactions is None:
            self.failures.add(batch)
            if self._say_timer is None and self.failures.unlogged and not self._loop.is_closed():
                self._say_timer = self._loop.call_later(UNSEEN_LOG_DELAY_S, self._say)
        self._accumulator.release(batch)
        self._freed = True

    def _do_pack(self, command: Pack) -> None:
        builder = command.batch.builder
        if builder is None:
            return  # The batch has failed already.
        pack = partial(builder.payload, command.codec, command.level)
        beside(self._loop, pack, partial(self._packed, command.batch), name="fencepost-packer")

    def _do_announce(self, command: Announce) -> None:
        self._announce(command)

    def _do_return(self, command: Return) -> None:
        command.call.finish(command.error)

    def _do_connect(self, command: Connect) -> None:
        log.debug("connecting to %s", self._name(command.node))
        dial = self._dials[command.node] = self._loop.create_task(self._dial(command))
        dial.add_done_callback(partial(self._dialled, command.node))

    def _do_disconnect(self, command: Disconnect) -> None:
        log.info("closing the connection to %s: %s", self._name(command.node), command.reason)
        dial = self._dials.pop(command.node, None)
        connection = self._connections.pop(command.node, None)
        if dial is not None:
            dial.cancel()
        if connection is not None:
            connection.silence()
        self._inbox.append(ConnectionLost(command.node, command.reason))

    def _do_die(self, command: Die) -> None:
        log.error("the producer cannot continue, make a new one: %s", command.error)
        self._accumulator.refusal = command.error
        self._died(command.error)
        # Callers could append until now: fail the records that came after the core failed all others.
        for late in self.core.abandon(command.error):
            self._do(late)

    def _packed(self, batch: Batch, payload: bytes | None, error: Exception | None) -> None:
        if self.core.dead is not None:
            return
        if payload is None:
            log.error("a batch could not be compressed: the producer cannot continue; make a new one", exc_info=error)
            self.end(Fatal(f"internal error while a batch was compressed: {error!r}"))
            return
        self.handle(Packed(batch, payload))

    def _say(self) -> None:
        self._say_timer = None
        self.failures.say()

    # -- connections -------------------------------------------------------------------------------------------------

    async def _dial(self, command: Connect) -> None:
        node = command.node
        try:
            # A bootstrap address may lead to another cluster: `rebootstrap` decides what that means.
            cluster = self.core.view.cluster_id if node >= 0 else None
            connection, versions, features = await self._connector.open(command.host, command.port, cluster=cluster)
        except Exception as error:  # noqa: BLE001 - the outermost frame of a task: the core must hear how it ended
            log.log(self._connector.level(error), "%s cannot be reached: %s", self._name(node), error)
            self._dials.pop(node, None)
            self.handle(ConnectionLost(node, str(error) or repr(error), error.for_core() if isinstance(error, ConnectError) else None))
            return
        self._dials.pop(node, None)
        self._connections[node] = connection
        connection.adopt(
            on_reply=lambda token, message: self.handle(Replied(node, token, message)),
            on_written=lambda token: self.handle(Written(node, token)),
            on_lost=lambda reason: self._lost(node, connection, reason),
        )
        self.handle(Connected(node, versions, features))

    def _dialled(self, node: int, dial: asyncio.Task[None]) -> None:
        """An attempt to connect ended. The caller's program may cancel any task on its loop, and a signal handler may raise in one. The
        core learns that here. `_dial` and `_do_disconnect` remove their attempt from `_dials` before it ends."""
        error = None if dial.cancelled() else dial.exception()
        if self._dials.get(node) is dial or (error is not None and node not in self._dials):
            self._dials.pop(node, None)
            connection = self._connections.pop(node, None)
            if connection is not None:
                connection.silence()
            if self.core.dead is None:
                ended = "cancelled" if error is None else f"interrupted: {error!r}"
                self.handle(ConnectionLost(node, f"the attempt to connect was {ended}"))

    def _lost(self, node: int, connection: Connection, reason: str) -> None:
        if self._connections.get(node) is connection:
            del self._connections[node]
            log.info("%s: %s", self._name(node), reason)
            self.handle(ConnectionLost(node, reason, connection.refused.for_core() if connection.refused is not None else None))

    def _name(self, node: int) -> str:
        """The broker and its address, for the log."""
        known = self.core.nodes.get(node)
        return known.name if known is not None else f"broker {node}"

    # -- the end -----------------------------------------------------------------------------------------------------

    def end(self, reason: FencepostError) -> None:
        """Accept and send nothing more, and fail every record without an outcome. After a signal handler raised, the loop repeats it."""
        try:
            self._end(reason)
        except BaseException as error:
            if not isinstance(error, Exception) and not self._loop.is_closed():
                self._loop.call_soon(self.end, reason)
            raise

    def _end(self, reason: FencepostError) -> None:
        if self._accumulator.refusal is None:
            self._accumulator.refusal = reason
        if self.core.dead is None:
            self._died(reason)
        for command in self.core.abandon(again(reason)):
            self._do(command)
        # After a failure inside the sender a batch may be in no list of the core; its records may have been sent.
        for batch in self._accumulator.unsettled():
            failure = DeliveryFatal(str(reason), topic=batch.topic, partition=int(batch.partition), persisted=Persisted.MAYBE)
            self._do(Settle(batch, failure=failure))
        self._tell_room()

    async def close_connections(self) -> None:
        """Log the failures, and close all timers, tasks and sockets."""
        self.failures.say()
        for timer in (self._timer, self._say_timer):
            if timer is not None:
                timer.cancel()
        waits: list[Coroutine[Any, Any, Any]] = []
        reporting = self._reporter.close() if self._reporter is not None else None
        if reporting is not None:
            waits.append(asyncio.wait([reporting], timeout=1.0))
        for task in self._dials.values():
            task.cancel()
            waits.append(asyncio.wait([task], timeout=1.0))
        for connection in self._connections.values():
            connection.silence()
        await asyncio.gather(*waits, asyncio.sleep(0), return_exceptions=True)


TICKED = Ticked()


# Not singledispatchmethod: it makes a new function for every call.
_DO: Final[dict[type[Any], Callable[..., None]]] = {
    Send: Engine._do_send,
    Settle: Engine._do_settle,
    Pack: Engine._do_pack,
    Announce: Engine._do_announce,
    Return: Engine._do_return,
    Connect: Engine._do_connect,
    Disconnect: Engine._do_disconnect,
    Die: Engine._do_die,
}
