"""The engine on a caller's event loop, and the signals that the caller's tasks wait for.

It starts no thread and blocks nothing. `post` may be called on any thread, all else runs on the loop's thread.
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
from fencepost.producer.foundations.loop_post import post
from fencepost.producer.network.engine import Engine
from fencepost.producer.observe.unobserved_failures import Failures


class Signal:
    """An event that wakes every waiting task, in the order in which they began to wait."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], None] = {}

    def give(self) -> None:
        # Each waiter removes itself. So none is lost if a signal handler raises during the loop.
        for waiter in list(self._waiting):
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self) -> None:
        """Wait for the next one. Each waiter has its own future, so cancelling one does not end the wait of the others."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = None
        try:
            await waiter
        finally:
            self._waiting.pop(waiter, None)


class AsyncEngine:
    """See the module. `settled`: batches have outcomes, and bytes of the buffer are free again. `heard`: there is news of a topic."""

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
        """Whether it works while the caller's thread waits: only if another thread runs the loop."""
        return self.loop.is_running() and threading.get_ident() != self._thread

    @property
    def strands_children(self) -> bool:
        """Whether a child that a callback forks must end when the callback returns. No: it returns to the caller's own loop."""
        return False

    def post(self, event: Event) -> None:
        """Pass an event to the core soon, from any thread. After the end it is ignored."""
        if self._ended:
            return
        if threading.get_ident() != self._thread:
            post(self.loop, self.engine.handle, event)
        elif not self.loop.is_closed():
            self.loop.call_soon(self.engine.handle, event)

    def wake(self) -> None:
        """Tell the core that the accumulator has something new."""
        self.post(APPENDED)

    async def end(self, reason: FencepostError) -> None:
        """Fail every record without an outcome with the reason, and leave nothing on the loop."""
        if not self._ended:
            self._ended = True
            self.engine.end(reason)
        await self.engine.close_connections()

    def stop(self, reason: FencepostError) -> None:
        """The same without waiting, for a producer that was not closed: on the loop if it still runs, otherwise here."""
        if self._ended:
            return
        self._ended = True
        resting = not self.loop.is_running() and threading.get_ident() == self._thread
        if not post(self.loop, self._abandon, reason) or resting:
            self._give_up(reason)

    def _abandon(self, reason: FencepostError) -> None:
        self._give_up(reason)
        self._closing = self.loop.create_task(self.engine.close_connections())

    def _give_up(self, reason: FencepostError) -> None:
        # Log the failures now: `asyncio.run` cancels the task that closes the connections before it starts, and the timers with it.
        self.engine.end(reason)
        self.failures.say()

    def _leave(self, error: BaseException) -> None:
        """Raise the error on the loop after this step, as if a callback of the loop raised it."""
        post(self.loop, _raise, error)

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
