"""Calls that are made again when their time passes, with pauses, until the program is to stop."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from fencepost.txn.loop.attempts import first_state, pauses
from fencepost.txn.loop.calls import Calls


class Patience:
    """See the module. `too_late`: errors that say that the time of a call has passed, and that nothing is decided. `stopping`: whether the
    program is to stop, which then has `stop_s` for it. `ends_at`: when it is to stop by itself."""

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

    def stop_now(self) -> None:
        """The program stops: from now on it has so much time."""
        self.stop_ends_at = time.monotonic() + self._stop_s

    async def insist(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A call that is made again when its time passes. So a program waits while no broker answers."""
        return await self._insist(self._calls.call, function, *arguments)

    async def insist_asking(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The same for a call that blocks."""
        return await self._insist(self._calls.ask, function, *arguments)

    async def pause(self, turn: int) -> None:
        """The pause before this attempt; pauses grow."""
        state = first_state()
        state.attempt_number = turn
        await self._calls.sleep(self._pause(state))

    @property
    def is_over(self) -> bool:
        """Whether the program is stopping, and its time for that has passed."""
        now = time.monotonic()
        if self._stopping() and self.stop_ends_at is None:
            self.stop_ends_at = now + self._stop_s
        return now >= (self.ends_at + self._stop_s if self.stop_ends_at is None else self.stop_ends_at)

    async def _insist(self, via: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return await via(*arguments)
        except self._too_late as late:
            if self.is_over:
                raise
            self._log.warning("%s: asks again: %s", self._name, late)
        calling = AsyncRetrying(
            retry=retry_if_exception_type(self._too_late),
            stop=lambda state: self.is_over,
            wait=self._pause,
            sleep=self._calls.sleep,
            before_sleep=self._say_waiting,
            reraise=True,
        )
        return await calling(via, *arguments)

    def _say_waiting(self, state: RetryCallState) -> None:
        outcome = state.outcome
        self._log.warning("%s: asks again after a pause: %s", self._name, outcome.exception() if outcome is not None else "")
