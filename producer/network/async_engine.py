"""The engine on a caller's event loop, and the signals that its tasks wait for.

It begins no thread and blocks nothing. All of it runs on the loop's thread but `post`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from fencepost.producer.accumulator.accumulator import Accumulator
from fencepost.producer.accumulator.batch import Shared
from fencepost.producer.config.compression import aside_bytes
from fencepost.producer.config.settings import Settings
from fencepost.producer.core.events import Announce, Appended, Event
from fencepost.producer.core.idempotence.transaction_hooks import Transactions
from fencepost.producer.errors import FencepostError
from fencepost.producer.network.engine import Engine
from fencepost.producer.observe.unobserved_failures import Failures


class Signal:
    """Something happened: everybody who waits goes on, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], None] = {}

    def give(self) -> None:
        # Who waits leaves by himself, so that no one is forgotten where an exception of a signal's handler strikes in between.
        for waiter in list(self._waiting):
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self) -> None:
        """Wait for the next one. A future for each who waits: cancelling one of them leaves the others waiting."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = None
        try:
            await waiter
        finally:
            self._waiting.pop(waiter, None)


class AsyncEngine:
    """See the module. `settled`: batches have their outcomes, and bytes were given back. `heard`: there is news of a topic."""

    def __init__(
        self,
        settings: Settings,
        accumulator: Accumulator,
        shared: Shared,
        loop: asyncio.AbstractEventLoop,
        *,
        transactions: Transactions | None = None,
        announce: Callable[[Announce], None],
        died: Callable[[FencepostError], None],
    ) -> None:
        self.loop = loop
        self.settled = Signal()
        self.heard = Signal()
        self._announce = announce
        self._died = died
        self._ended = False
        self._thread = threading.get_ident()
        self.engine = Engine(
            settings,
            accumulator,
            loop,
            pack_aside_bytes=aside_bytes(settings),
            transactions=transactions,
            announce=self._hear,
            freed=self.settled.give,
            died=self._die,
        )
        shared.sender_ident = self._thread
        shared.wake = self.wake
        shared.leave = self._leave

    @property
    def failures(self) -> Failures:
        return self.engine.failures

    @property
    def running(self) -> bool:
        return not self._ended

    @property
    def goes_on(self) -> bool:
        """Whether it works while the caller's thread waits: only if the loop is another thread's."""
        return self.loop.is_running() and threading.get_ident() != self._thread

    @property
    def strands_children(self) -> bool:
        """Whether a child that is forked in a callback has nothing to go back to: it has the caller's own loop."""
        return False

    def post(self, event: Event) -> None:
        """Hand the core an event, soon, from any thread. After the end it is ignored."""
        if self._ended or self.loop.is_closed():
            return
        if threading.get_ident() == self._thread:
            self.loop.call_soon(self.engine.handle, event)
        else:
            self.loop.call_soon_threadsafe(self.engine.handle, event)

    def wake(self) -> None:
        """The accumulator has something new."""
        self.post(APPENDED)

    async def end(self, reason: FencepostError) -> None:
        """Whatever has no outcome fails with the reason; nothing is left on the loop."""
        if not self._ended:
            self._ended = True
            self.engine.end(reason)
        await self.engine.close_links()

    def stop(self, reason: FencepostError) -> None:
        """The same without waiting, for a producer that nobody closed: on the loop where it still runs, or else here."""
        if self._ended:
            return
        self._ended = True
        resting = not self.loop.is_running() and threading.get_ident() == self._thread
        if resting or self.loop.is_closed():
            self._give_up(reason)
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._abandon, reason)

    def _abandon(self, reason: FencepostError) -> None:
        self._give_up(reason)
        self._closing = self.loop.create_task(self.engine.close_links())

    def _give_up(self, reason: FencepostError) -> None:
        # What failed is said here: `asyncio.run` cancels the task that closes the links before it has begun, and timers die with the loop.
        self.engine.end(reason)
        self.failures.say()

    def _leave(self, error: BaseException) -> None:
        """Have the loop end with it, as with what any other callback of the loop raises, once it is at the end of this step."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(_raise, error)

    def _hear(self, news: Announce) -> None:
        self._announce(news)
        self.heard.give()

    def _die(self, error: FencepostError) -> None:
        self._died(error)
        self.heard.give()
        self.settled.give()


def _raise(error: BaseException) -> None:
    raise error


APPENDED = Appended()
