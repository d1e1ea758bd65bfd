"""Calls `on_statistics` with a snapshot every `statistics_interval_ms`, on the engine's loop.

The engine's loop runs on the producer's sender thread. For an AsyncProducer it is the caller's loop, and `on_statistics` may be a
coroutine function: while one call runs, further rounds are skipped. Its exceptions are logged. A slow function delays deliveries, as a
slow delivery callback does. Calls that wait raise Misuse in both.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable

from fencepost.producer.observe.stats import ProducerStats

log = logging.getLogger("fencepost.producer")


class Reporter:
    """See the module. Each engine has one."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        take: Callable[[], ProducerStats],
        tell: Callable[[ProducerStats], object],
        came_back: Callable[[BaseException | None], None],
        interval_ms: float,
    ) -> None:
        self._loop = loop
        self._take = take
        self._tell = tell
        self._came_back = came_back
        self._interval_s = interval_ms / 1000.0
        self._round: asyncio.Task[None] | None = None
        self._timer = loop.call_later(self._interval_s, self._report)

    def close(self) -> asyncio.Task[None] | None:
        """Stop. Returns the task of the running round, which it cancels; None if no round runs."""
        self._timer.cancel()
        if self._round is None or self._round is asyncio.current_task():
            return None
        self._round.cancel()
        return self._round

    def _report(self) -> None:
        self._timer = self._loop.call_later(self._interval_s, self._report)
        if self._round is not None:
            return
        try:
            answer = self._tell(self._take())
            self._came_back(None)
        except BaseException as error:
            self._came_back(error)
            log.exception("on_statistics raised")
            return
        if inspect.isawaitable(answer):
            self._round = self._loop.create_task(self._await(answer))

    async def _await(self, answer: Awaitable[object]) -> None:
        try:
            await answer
        except Exception:
            log.exception("on_statistics raised")
        finally:
            self._round = None
