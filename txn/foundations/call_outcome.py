"""The outcome of a call. The sender thread sets it, or the caller stops waiting: the first of the two counts.

It does the work of concurrent.futures.Future for callers that Ctrl-C may interrupt at any point. A Future takes its lock in Python
functions, where a signal handler can raise while the lock is held. Then no thread, not even the sender, could take it again. This class
calls nothing while it holds its lock.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from fencepost.producer.foundations.loop_post import post
from fencepost.producer.foundations.rlock import RLock

T = TypeVar("T")

SOON_S: Final = 1.0
"""The limit for what the sender does at once, unless a user's callback blocks it."""


class CallOutcome(Generic[T]):
    """See the module."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._left = False
        self._claimed = False
        self._told = False
        self._result: T | None = None
        self._error: BaseException | None = None
        self._hearers: list[Callable[[], object]] = []

    # -- the sender's part -------------------------------------------------------------------------------------------

    def claim(self) -> bool:
        """Decide the call: whether the caller still waits. From here on it must get an outcome."""
        with self._lock:
            self._claimed = not self._left
            return self._claimed

    def set_result(self, result: T) -> None:
        """The call succeeded. Call this or `set_error` after a claim, at which the caller may have left."""
        self._result = result
        self._tell()

    def set_error(self, error: BaseException) -> None:
        """The call failed."""
        self._error = error
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            self._told = True
            hearers, self._hearers = self._hearers, []
        for hear in hearers:
            hear()

    # -- the caller's part -------------------------------------------------------------------------------------------

    def cancel(self) -> bool:
        """Stop waiting. False if the sender has decided: it has set the outcome, or is about to."""
        with self._lock:
            self._left = not self._claimed
            return self._left

    def done(self) -> bool:
        """Whether the caller no longer waits: it has the outcome, or has left."""
        return self._told or self._left

    def when_told(self, hear: Callable[[], object]) -> None:
        """Run this on the sender thread once the outcome is set; at once if it is set already."""
        with self._lock:
            told = self._told
            if not told:
                self._hearers += [hear]
        if told:
            hear()

    def wait(self, limit_s: float) -> bool:
        """Wait for the outcome; False if so many seconds pass first."""
        held = threading.Lock()
        held.acquire()
        self.when_told(held.release)
        return held.acquire(timeout=max(0.0, limit_s))

    async def heard(self) -> T:
        """Wait for the outcome in a task."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not waiter.done():
                waiter.set_result(None)

        self.when_told(lambda: post(loop, wake))
        await waiter
        return self.result()

    def result(self, limit_s: float = 0.0) -> T:
        """The result. Raises the error that the sender set, and TimeoutError if there is no outcome within so many seconds."""
        error = self.exception(limit_s)
        if error is not None:
            raise error
        return self._result  # type: ignore[return-value]  # None where that is T

    def exception(self, limit_s: float = 0.0) -> BaseException | None:
        """The error, or None after a success."""
        if not self._told and not self.wait(limit_s):
            raise TimeoutError("the call has no outcome yet")
        return self._error
