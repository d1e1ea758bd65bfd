"""What comes of a call: the sender tells it, and the caller waits for it or leaves, whichever of them is first.

It does what concurrent.futures.Future does, for callers whom Ctrl-C may strike at any point: a Future takes its lock in functions written
in Python, where a signal's handler can raise with the lock taken. Nobody would ever get it again, the sender included. Nothing is called
under the lock of this one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

SOON_S: Final = 1.0
"""For what the sender does at once, unless a callback of the user's keeps it."""


class CallOutcome(Generic[T]):
    """See the module."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left = False
        self._claimed = False
        self._told = False
        self._result: T | None = None
        self._error: BaseException | None = None
        self._hearers: list[Callable[[], object]] = []

    # -- the sender's part -------------------------------------------------------------------------------------------

    def claim(self) -> bool:
        """Decide: whether the caller is still there, who cannot leave from here on without being told."""
        with self._lock:
            self._claimed = not self._left
            return self._claimed

    def set_result(self, result: T) -> None:
        """It went well. After a claim, where the caller may have left; so the next one."""
        self._result = result
        self._tell()

    def set_error(self, error: BaseException) -> None:
        """It did not."""
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
        """Leave. False where the sender has decided: it has told, or is about to."""
        with self._lock:
            self._left = not self._claimed
            return self._left

    def done(self) -> bool:
        """Whether nobody waits any more: the caller was told, or has left."""
        return self._told or self._left

    def when_told(self, hear: Callable[[], object]) -> None:
        """Call this once it is told, on the sender's thread; at once where it has been."""
        with self._lock:
            told = self._told
            if not told:
                self._hearers += [hear]
        if told:
            hear()

    def wait(self, limit_s: float) -> bool:
        """Wait until it is told; False when so many seconds passed first."""
        held = threading.Lock()
        held.acquire()
        self.when_told(held.release)
        return held.acquire(timeout=max(0.0, limit_s))

    async def heard(self) -> T:
        """Wait in a task."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not waiter.done():
                waiter.set_result(None)

        self.when_told(lambda: None if loop.is_closed() else loop.call_soon_threadsafe(wake))
        await waiter
        return self.result()

    def result(self, limit_s: float = 0.0) -> T:
        """What it came to. Raises what it was told went wrong, and TimeoutError where it is not told in so many seconds."""
        error = self.exception(limit_s)
        if error is not None:
            raise error
        return self._result  # type: ignore[return-value]  # None where that is T

    def exception(self, limit_s: float = 0.0) -> BaseException | None:
        """What went wrong, if anything did."""
        if not self._told and not self.wait(limit_s):
            raise TimeoutError("the call has no outcome yet")
        return self._error
