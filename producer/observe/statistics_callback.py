"""`on_statistics`, called with a snapshot every `statistics_interval_ms`, on the engine's loop.

That is the producer's sender thread, or the loop of an AsyncProducer, where it may be a coroutine function: a round that has not ended
when the next one is due is left to end, and the next one passed over. What it raises is logged and goes no further. A slow function holds
up deliveries, as a slow delivery callback does; calls that would wait are the same Misuse there.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable

from fencepost.producer.observe.stats import ProducerStats

log = logging.getLogger("fencepost.producer")


class Reporter:
    """See the module. One engine's."""

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
        """No more rounds. Returns the one that is cancelled, if one was under way."""
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
