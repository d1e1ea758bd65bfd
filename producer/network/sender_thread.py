"""The sender thread: an engine on its own event loop, and the calls that callers' threads may make.

Nothing here blocks the loop. Every wait of a caller has a deadline, and ends when the thread ends.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from fencepost.producer.accumulator.accumulator import Accumulator
from fencepost.producer.accumulator.batch import Shared, deadline_after
from fencepost.producer.accumulator.waiting_callers import WaitingCallers
from fencepost.producer.config.settings import Settings
from fencepost.producer.core.events import Announce, Appended, Event
from fencepost.producer.core.idempotence.transaction_hooks import Transactions
from fencepost.producer.errors import FencepostError, ProducerClosed
from fencepost.producer.foundations.condition import Condition
from fencepost.producer.foundations.loop_post import post
from fencepost.producer.foundations.turns import in_turns
from fencepost.producer.network.engine import Engine
from fencepost.producer.observe.unobserved_failures import Failures

log = logging.getLogger("fencepost.producer")

STOP_LEAST_S = 1.0
STOP_TURNS = 9  # after the first one: STOP_LEAST_S in all
STOP_TIMEOUT_S = 5.0
PLENTY_SHARE = 8
TELL_DELAY_S = 0.001

T = TypeVar("T")


class SenderThread:
    """See the module. `announce` and `died` are the engine's callbacks; they run on the sender thread."""

    def __init__(
        self,
        settings: Settings,
        accumulator: Accumulator,
        shared: Shared,
        *,
        transactions: Transactions | None = None,
        announce: Callable[[Announce], None],
        died: Callable[[FencepostError], None],
    ) -> None:
        self._accumulator = accumulator
        self._shared = shared
        self._line = WaitingCallers(accumulator)
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._started = False
        self._may_begin = threading.Lock()  # Taken by the thread when it begins, or by `stop` if that comes first.
        self._over = Condition()
        self._plenty = settings.buffer_memory // PLENTY_SHARE
        self._telling = False
        self.engine = Engine(settings, accumulator, self._loop, transactions=transactions, announce=announce, freed=self._freed, died=died)
        self._thread = threading.Thread(target=self._run, name=f"fencepost-sender-{settings.client_id}", daemon=True)

    @property
    def failures(self) -> Failures:
        return self.engine.failures

    @property
    def running(self) -> bool:
        # Not `Thread.is_alive`: if Ctrl-C interrupts it, Python 3.11 and 3.12 report the running thread as ended from then on.
        return self._started and self._over.notified is None and self._shared.forked is None

    @property
    def goes_on(self) -> bool:
        """Whether it works while the caller's thread waits."""
        return self.running

    @property
    def strands_children(self) -> bool:
        """Whether a child that a callback forks must end when the callback returns. Yes: it only has this thread to return to."""
        return True

    def start(self) -> None:
        self._thread.start()
        self._started = True

    def post(self, event: Event) -> None:
        """Pass an event to the core soon. After the end it is ignored."""
        post(self._loop, self.engine.handle, event)

    def soon(self, run: Callable[[], object]) -> None:
        """Run this on the thread, after its current step. After the end it is ignored."""
        post(self._loop, run)

    def wake(self) -> None:
        """Tell the core that the accumulator has something new."""
        self.post(APPENDED)

    def when_room(self, attempt: Callable[[], T | None], timeout_s: float) -> T | None:
        """Repeat the attempt whenever bytes of the buffer become free, until it succeeds; None when the time passes first. Callers make
        their attempts in the order in which they began to wait. Meanwhile the sender thread does not linger, and waits for no attempt."""
        return self._line.wait(attempt, deadline_after(timeout_s), self.wake)

    def catch_up(self, timeout_s: float) -> bool:
        """Wait until the thread has finished its current step, callbacks included; False when the time passes first."""
        done = Condition()
        if not post(self._loop, done.notify_all):
            return True

        def caught_up(limit_s: float) -> bool:
            return not self.running or done.wait(None, time.monotonic() + limit_s)

        return in_turns(caught_up, deadline_after(timeout_s))

    def stop(self, reason: FencepostError, limit_s: float = STOP_TIMEOUT_S) -> None:
        """End the loop, and fail every record without an outcome. Returns when the thread has ended, or after so many seconds: at least
        `STOP_LEAST_S`, at most `STOP_TIMEOUT_S`. Only a callback that blocks the thread takes longer."""
        if not self._started and self._may_begin.acquire(blocking=False):
            # Ctrl-C interrupted `start`. If the thread begins after all, it ends at once.
            self.engine.end(reason)
            self._loop.close()
            self._over.notify_all()
            return
        post(self._loop, self._finish, reason)  # Another call may have closed the loop; the thread may still be ending.
        if not self._started or threading.current_thread() is self._thread:
            return
        deadline = time.monotonic() + min(limit_s, STOP_TIMEOUT_S) - STOP_LEAST_S
        if in_turns(lambda turn_s: self._over.wait(None, time.monotonic() + turn_s), deadline, turns=STOP_TURNS, longest_s=STOP_TIMEOUT_S):
            self._thread.join(STOP_TIMEOUT_S)
        else:
            log.warning("the sender thread has not ended: a callback or an interceptor still runs on it")

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        if not self._may_begin.acquire(blocking=False):
            return
        self._started = True  # Here, too: Ctrl-C may interrupt `start` before it sets it.
        self._shared.sender_ident = threading.get_ident()
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._stop.wait())
            self._loop.run_until_complete(self.engine.close_connections())
        finally:
            self.engine.end(ProducerClosed("the producer is closed"))
            self._tell_room()
            self._loop.close()
            self._shared.sender_ident = 0  # The system may give the same number to the next thread.
            self._over.notify_all()

    def _finish(self, reason: FencepostError) -> None:
        self.engine.end(reason)
        self._stop.set()

    def _freed(self) -> None:
        """Bytes of the buffer became free. Callers that wait for room are woken at once if much is free, and after a delay if little is.
        Otherwise callers and this thread would alternate for every batch."""
        if not self._accumulator.waiting:
            return  # A caller that begins to wait now makes an attempt first.
        if self._accumulator.room() >= self._plenty:
            self._tell_room()
        elif not self._telling:
            self._telling = True
            self._loop.call_later(TELL_DELAY_S, self._tell_room)

    def _tell_room(self) -> None:
        self._telling = False
        self._line.move()


APPENDED = Appended()
