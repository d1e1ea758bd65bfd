"""An event loop in a thread of its own, for callers that have none: what is asked next is under way while they look at what came last.

The thread is a daemon. Deadlines are the coroutines' own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
STOP_TIMEOUT_S = 5.0


class LoopThread:
    """Runs from its making to `close`."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether it takes anything to run."""
        return self._thread.is_alive()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Its outcome, which may be waited for or cancelled."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Its outcome; where the wait is interrupted, it is cancelled."""
        future = self.start(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def give_up(self) -> None:
        """Cancel what still runs, and wait until it has ended."""
        self.run(self._cancel())

    def close(self) -> None:
        """Cancel what still runs, and end."""
        if self.alive:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(STOP_TIMEOUT_S)

    def _run(self) -> None:
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._cancel())
        finally:
            self._loop.close()

    async def _cancel(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.sleep(0)  # transports are closed in the loop's next turn
