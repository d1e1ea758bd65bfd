"""An event loop in a thread of its own, for callers without one: the next request is in flight while the caller uses the previous answer.

The thread is a daemon. The coroutines have their own deadlines.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from fencepost.producer.foundations.condition import Condition
from fencepost.producer.foundations.loop_post import post
from fencepost.txn.foundations.call_outcome import CallOutcome

T = TypeVar("T")
STOP_TIMEOUT_S = 5.0
CLOSED = "the reader was closed"


class LoopThread:
    """It runs from its creation to `close`. `last`: the coroutine that it runs at its end."""

    def __init__(self, name: str, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._loop = asyncio.new_event_loop()
        self._unbegun: dict[CallOutcome[Any], Coroutine[Any, Any, Any]] = {}
        self._tasks: dict[CallOutcome[Any], asyncio.Task[Any]] = {}
        self._last = last
        self._over = Condition()
        self._stops = False
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the loop still accepts coroutines."""
        # Not `Thread.is_alive`, for the reason that `producer.network.sender_thread` gives.
        return self._over.notified is None and self._process == os.getpid()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> CallOutcome[T]:
        """Start a coroutine. Wait for the returned task, or pass it to `drop`."""
        came: CallOutcome[T] = CallOutcome()
        self._unbegun[came] = coroutine  # The thread refuses it if its loop closes first.
        if not post(self._loop, self._begin, came):
            self._refuse(came)
            raise RuntimeError(CLOSED)
        return came

    def wait(self, came: CallOutcome[T]) -> T:
        """The result of a started coroutine. If the wait is interrupted, the coroutine is cancelled."""
        try:
            self._wait(came)
            return came.result()
        except BaseException:
            self.drop(came)
            raise

    def _wait(self, came: CallOutcome[T]) -> None:
        while not came.wait(1.0):
            if not self.alive:
                raise RuntimeError(CLOSED)

    def drop(self, came: CallOutcome[Any]) -> None:
        """Cancel the coroutine, if it still runs."""
        came.cancel()
        post(self._loop, self._cancel, came)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine, and return its result."""
        return self.wait(self.start(coroutine))

    def close(self) -> None:
        """Cancel what still runs, and end. It may be called again."""
        if self._process != os.getpid():
            return
        post(self._loop, self._stop_once)  # The thread may be closing the loop because of another call, or have ended.
        if self._over.wait(None, time.monotonic() + STOP_TIMEOUT_S):
            self._thread.join(STOP_TIMEOUT_S)

    def _stop_once(self) -> None:
        """A second stop would break off what runs at the end."""
        if not self._stops:
            self._stops = True
            self._loop.stop()

    # -- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._end())
        finally:
            self._loop.close()
            self._refuse_all()
            self._over.notify_all()

    def _begin(self, came: CallOutcome[T]) -> None:
        if self._stops:
            self._refuse(came)
            return
        task = self._tasks[came] = self._loop.create_task(self._unbegun.pop(came))
        task.add_done_callback(partial(self._ended, came))

    def _refuse(self, came: CallOutcome[Any]) -> None:
        """The loop begins this coroutine no more."""
        coroutine = self._unbegun.pop(came, None)
        if coroutine is not None:
            coroutine.close()
            if came.claim():
                came.set_error(RuntimeError(CLOSED))

    def _refuse_all(self) -> None:
        for came in [*self._unbegun]:
            self._refuse(came)

    def _ended(self, came: CallOutcome[T], task: asyncio.Task[T]) -> None:
        del self._tasks[came]
        error = RuntimeError(CLOSED) if task.cancelled() else task.exception()
        if not came.claim():
            return
        if error is not None:
            came.set_error(error)
        else:
            came.set_result(task.result())

    def _cancel(self, came: CallOutcome[Any]) -> None:
        if came in self._tasks:
            self._tasks[came].cancel()

    async def _end(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._last()
        await asyncio.sleep(0)  # asyncio closes transports in the loop's next iteration
