"""How a pipeline's one program makes its calls: blocking, or on an event loop.

The runner is written once, as coroutines. `Blocking` makes each call in place, so that its coroutines never wait, and `finished` runs them
without an event loop. `OnLoop` awaits the producer's calls, and makes the consumer's in a thread of its own, because they block.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")

NAP_S: Final = 0.05
"""A pause is divided into pieces of this length, and `stop` ends it after one of them."""


class Calls(Protocol):
    """See the module."""

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A call of the producer or of the program's function: of a blocking one, or one that returns an awaitable."""
        ...

    async def ask(self, function: Callable[..., T], *arguments: Any) -> T:
        """A call of the consumer, which blocks. Not from inside a rebalance."""
        ...

    def inside(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine from inside a call of the consumer, and wait for it."""
        ...

    async def sleep(self, seconds: float) -> None:
        """A pause, which `stop` ends."""
        ...

    async def close(self) -> None:
        """End the thread, if there is one."""
        ...


def finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise AssertionError("a blocking pipeline's coroutine waited")


class Blocking:
    """Calls that block. `stopped`: whether a pause must end."""

    def __init__(self, stopped: Callable[[], bool]) -> None:
        self._stopped = stopped

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    async def ask(self, function: Callable[..., T], *arguments: Any) -> T:
        return function(*arguments)

    def inside(self, work: Coroutine[Any, Any, None]) -> None:
        finished(work)

    async def sleep(self, seconds: float) -> None:
        # Not an Event: a signal handler may call `stop` while this thread holds the Event's lock.
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            time.sleep(min(NAP_S, left))
            if self._stopped():
                return

    async def close(self) -> None:
        return


class OnLoop:
    """Calls on the running event loop. `stopped`: whether a pause must end. `hurry`: called if the task is cancelled in a call of the
    consumer, so that a rebalance inside it ends within its deadline."""

    def __init__(self, stopped: Callable[[], bool], hurry: Callable[[], None]) -> None:
        self._stopped = stopped
        self._hurry = hurry
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="fencepost-pipeline")

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        made = function(*arguments)
        return await made if isinstance(made, Awaitable) else made

    async def ask(self, function: Callable[..., T], *arguments: Any) -> T:
        running = self._loop.run_in_executor(self._thread, partial(function, *arguments))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            # The consumer's call continues in its thread, and may rebalance. Nothing else may happen before it has returned.
            self._hurry()
            await asyncio.wait([running])
            raise

    def inside(self, work: Coroutine[Any, Any, None]) -> None:
        if self._loop.is_closed():
            work.close()
            return
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def sleep(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            await asyncio.sleep(min(NAP_S, left))
            if self._stopped():
                return

    async def close(self) -> None:
        self._thread.shutdown(wait=True)
