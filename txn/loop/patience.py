"""Calls that are made again when their time passes, with pauses, until the program is to stop. Each call obeys the run's deadline."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from fencepost.txn.loop.attempts import first_state, pauses
from fencepost.txn.loop.calls import Calls

LEAST_S: Final = 1.0
"""Each call may take so long: a commit that succeeds is worth more than an exact end."""


class Patience:
    """See the module. `too_late`: errors that say that the time of a call has passed, and that nothing is decided. `stopping`: whether the
    program is to stop, which then has `stop_s` for it. `ends_at`: when it is to stop by itself; it then has `stop_s` for what is open."""

    def __init__(
        self,
        log: logging.Logger,
        name: str,
        calls: Calls,
        *,
        too_late: tuple[type[Exception], ...],
        stopping: Callable[[], bool],
        pause_ms: int,
        pause_max_ms: int,
        stop_ms: int,
    ) -> None:
        self.ends_at = float("inf")
        self.stop_ends_at: float | None = None
        self._log = log
        self._name = name
        self._calls = calls
        self._too_late = too_late
        self._stopping = stopping
        self._pause = pauses(pause_ms, pause_max_ms)
        self._stop_s = stop_ms / 1000.0
        self._is_opening = False

    def begin(self, ends_at: float) -> None:
        """A run begins, which is to end then."""
        self.ends_at, self.stop_ends_at = ends_at, None

    def stop_now(self) -> None:
        """The program stops: from now on it has so much time, or what is left since `stop`."""
        if self.stop_ends_at is None or not self._stopping():
            self.stop_ends_at = time.monotonic() + self._stop_s

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Inside this block nothing is open that must be ended, so a run has no time after its deadline."""
        self._is_opening = True
        try:
            yield
        finally:
            self._is_opening = False

    async def insist(self, function: Callable[..., Any], *arguments: Any, limit_s: float) -> Any:
        """A call that is made again when its time passes. So a program waits while no broker answers. `limit_s`: the time of one call, its
        last argument."""
        return await self._insist(self._calls.call, function, *arguments, limit_s=limit_s)

    async def insist_asking(self, function: Callable[..., Any], *arguments: Any, limit_s: float) -> Any:
        """The same for a call that blocks."""
        return await self._insist(self._calls.ask, function, *arguments, limit_s=limit_s)

    async def pause(self, turn: int) -> None:
        """The pause before this attempt; pauses grow."""
        state = first_state()
        state.attempt_number = turn
        await self._sleep(self._pause(state))

    def run_left_s(self) -> float:
        """How long the run may still last before the program is to stop; 0.0 once it is stopping."""
        return 0.0 if self._stopping() else self.ends_at - time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether the program is stopping, and its time for that has passed."""
        return self._left_s <= 0.0

    def within(self, limit_s: float) -> float:
        """How long a call may take."""
        return min(limit_s, max(LEAST_S, self._left_s))

    @property
    def _left_s(self) -> float:
        now = time.monotonic()
        if self._stopping() and self.stop_ends_at is None:
            self.stop_ends_at = now + self._stop_s
        if self.stop_ends_at is not None:
            return self.stop_ends_at - now
        return self.ends_at + (0.0 if self._is_opening else self._stop_s) - now

    async def _sleep(self, seconds: float) -> None:
        await self._calls.sleep(min(seconds, max(0.0, self._left_s)))

    async def _insist(self, via: Callable[..., Any], *arguments: Any, limit_s: float) -> Any:
        async def call() -> Any:
            return await via(*arguments, self.within(limit_s))

        try:
            return await call()
        except self._too_late as late:
            if self.is_over:
                raise
            self._log.warning("%s: asks again: %s", self._name, late)
        calling = AsyncRetrying(
            retry=retry_if_exception_type(self._too_late),
            stop=lambda state: self.is_over,
            wait=self._pause,
            sleep=self._sleep,
            before_sleep=self._say_waiting,
            reraise=True,
        )
        return await calling(call)

    def _say_waiting(self, state: RetryCallState) -> None:
        outcome = state.outcome
        self._log.warning("%s: asks again after a pause: %s", self._name, outcome.exception() if outcome is not None else "")
