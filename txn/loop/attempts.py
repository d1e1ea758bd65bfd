"""Calls a function of the program, again where it raises, with growing pauses, and says why after the last attempt.

A pause ends with the run: after `stop`, or at the run's deadline, what has to be tried again is left to the next run.

A function may raise CancelledError although its task is not cancelled: it awaited something that was. That is a failure like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol

from msgspec import Struct
from tenacity import AsyncRetrying, RetryCallState, RetryError, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from fencepost.producer.foundations.printable import said
from fencepost.txn.loop.calls import Calls
from fencepost.txn.loop.functions import is_async

Function = Callable[[Any], Any]
ITSELF: Final = "the transform cancelled its own task"


class CancelledInside(Exception):
    """The function raised CancelledError, and its own task was not cancelled."""


class Postponed(Exception):
    """What has to be tried again is left to a later batch or run, which tries it as often as if this one had not."""


class Failed(Struct, frozen=True):
    """What cannot be processed. `attempts`: how often the function was called for it."""

    error: Exception
    attempts: int = 1

    @property
    def reason(self) -> str:
        """The error, as a dead letter says it."""
        name = type(self.error).__name__
        try:
            return said(f"{name}: {self.error}")
        except Exception as unsaid:  # noqa: BLE001 - the program's own error may raise anything when it is shown
            return f"{name}, whose text raises {type(unsaid).__name__}"


class Retries(Protocol):
    """A counter of further attempts."""

    retries: int


class Attempts:
    """See the module. `number`: how often a function is called in all. `left_s`: how long the run may still last; 0.0 after `stop`."""

    def __init__(self, number: int, pause_ms: int, pause_max_ms: int, calls: Calls, counters: Retries, left_s: Callable[[], float]) -> None:
        self._number = number
        self._left_s = left_s
        self._pause = pauses(pause_ms, pause_max_ms)
        self._calls = calls
        self._counters = counters

    async def again(
        self, error: Exception, function: Callable[..., Any], given: Any, before_pause: Callable[[], None] = lambda: None
    ) -> object:
        """What another call returns, or Failed after the last. `error`: that of the first call. `before_pause`: called before each
        pause. Raises Postponed if the run ends in a pause."""
        if self._number == 1:
            return Failed(error)
        trying = AsyncRetrying(
            retry=retry_if_exception_type(Exception),
            stop=stop_after_attempt(self._number - 1),
            wait=self._pause,
            sleep=self._sleep,
            before=self._count,
            before_sleep=lambda state: before_pause(),
        )
        before_pause()
        await self._sleep(self._pause(first_state()))
        try:
            return await trying(called, self._calls, function, given)
        except RetryError as late:
            failure = late.last_attempt.exception()
            return Failed(failure if isinstance(failure, Exception) else error, self._number)

    async def _sleep(self, seconds: float) -> None:
        await self._calls.sleep(min(seconds, max(0.0, self._left_s())))
        if self._left_s() <= 0.0:
            raise Postponed

    def _count(self, state: RetryCallState) -> None:
        self._counters.retries += 1


async def called(calls: Calls, function: Callable[..., Any], given: Any) -> Any:
    """What the function returns. Raises CancelledError only if this task is cancelled."""
    try:
        return await calls.call(function, given)
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        raise inside(error) from error


def in_own_task(function: Function | None) -> Function | None:
    """The function; an async one runs in a task of its own. If it cancels that, it fails, and the program's task goes on."""
    if function is None or not is_async(function):
        return function

    async def alone(given: Any) -> Any:
        task = asyncio.ensure_future(function(given))
        try:
            return await task
        except asyncio.CancelledError as error:
            if task.cancelling() and not _is_cancelled():
                raise CancelledInside(ITSELF) from error
            raise

    return alone


def _is_cancelled() -> bool:
    """Whether this task is. Without an event loop nothing can be cancelled."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0


def inside(error: asyncio.CancelledError) -> CancelledInside:
    """The failure that a CancelledError of the function is."""
    return CancelledInside(f"the transform raised {error!r}, and its own task was not cancelled")


def pauses(first_ms: int, longest_ms: int) -> wait_random_exponential:
    """Pauses that grow, with jitter."""
    return wait_random_exponential(multiplier=first_ms / 1000.0, max=max(first_ms, longest_ms) / 1000.0)


def first_state() -> RetryCallState:
    """For tenacity's pauses: the state before the second attempt."""
    return RetryCallState(retry_object=None, fn=None, args=(), kwargs={})  # type: ignore[arg-type]  # a pause reads only the number
