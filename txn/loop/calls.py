"""How the one program of a pipeline or a job makes its calls: blocking, or on an event loop.

The runner is written once, as coroutines. `Blocking` makes each call in place, so that its coroutines never wait, and `finished` runs them
without an event loop. `OnLoop` awaits the producer's calls, and makes the consumer's in a thread of its own, because they block.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from queue import SimpleQueue
from threading import TIMEOUT_MAX, Thread
from typing import Any, Final, Generic, Protocol, TypeVar

from fencepost.txn.foundations.call_outcome import CallOutcome

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

THREAD_NAME: Final = "fencepost-pipeline"
NAP_S: Final = 0.05
"""A pause is divided into pieces of this length, and `stop` ends it after one of them."""
CLOSED_S: Final = 0.5
"""How often a thread that waits for the event loop looks whether that is closed."""


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

    def start(self, work: Coroutine[Any, Any, T]) -> Running[T]:
        """Begin a coroutine, which makes calls of the producer, beside the program."""
        ...

    async def sleep(self, seconds: float) -> None:
        """A pause, which `stop` ends."""
        ...

    async def close(self) -> None:
        """End the thread, if there is one."""
        ...


class Running(Protocol[T_co]):
    """A coroutine that runs beside the program."""

    def done(self) -> bool:
        """Whether it has ended."""
        ...

    async def result(self, timeout_s: float | None) -> T_co:
        """Wait for its end. An interrupted wait leaves it running. Raises TimeoutError."""
        ...


def finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise AssertionError("a coroutine of blocking calls waited")


class Blocking:
    """Calls that block. `stopped`: whether a pause must end."""

    def __init__(self, stopped: Callable[[], bool]) -> None:
        self._stopped = stopped
        self._thread: _Worker | None = None

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    async def ask(self, function: Callable[..., T], *arguments: Any) -> T:
        return function(*arguments)

    def inside(self, work: Coroutine[Any, Any, None]) -> None:
        finished(work)

    def start(self, work: Coroutine[Any, Any, T]) -> Running[T]:
        if self._thread is None:
            self._thread = _Worker()
        return self._thread.submit(work)

    async def sleep(self, seconds: float) -> None:
        # Not an Event: a signal handler may call `stop` while this thread holds the Event's lock.
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            time.sleep(min(NAP_S, left))
            if self._stopped():
                return

    async def close(self) -> None:
        if self._thread is not None:
            self._thread.close()


class _Worker:
    """The thread of a blocking program's commits, which makes one after the other. No executor: where Ctrl-C strikes in one, or in its
    futures, a lock may stay taken for which the thread, or the end of the process, would wait."""

    def __init__(self) -> None:
        self._works: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._ended: CallOutcome[None] = CallOutcome()
        self._started = False
        self._thread = Thread(target=self._run, name=THREAD_NAME, daemon=True)

    def submit(self, work: Coroutine[Any, Any, T]) -> _InThread[T]:
        """Run the coroutine after those before it. The thread begins with the first one, when `close` can find it already."""
        running: _InThread[T] = _InThread(work)
        if not self._started:
            self._thread.start()
            self._started = True
        self._works.put(running.run)
        return running

    def close(self) -> None:
        """Wait until everything is done. If Ctrl-C interrupted its start, the thread ends as soon as it begins."""
        self._works.put(None)
        if self._started:
            self._ended.wait(TIMEOUT_MAX)

    def _run(self) -> None:
        self._started = True  # Here, too: Ctrl-C may interrupt `start` before it is set.
        while (run := self._works.get()) is not None:
            run()
        self._ended.set_result(None)


class _InThread(Generic[T]):
    """`Running`, in such a thread."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._outcome: CallOutcome[T] = CallOutcome()

    def run(self) -> None:
        """Make all calls of the coroutine, in the thread."""
        try:
            self._outcome.set_result(finished(self._work))
        except BaseException as error:  # noqa: BLE001 - for the caller that waits
            self._outcome.set_error(error)

    def done(self) -> bool:
        return self._outcome.done()

    async def result(self, timeout_s: float | None) -> T:
        return self._outcome.result(TIMEOUT_MAX if timeout_s is None else timeout_s)


class OnLoop:
    """Calls on the running event loop. `stopped`: whether a pause must end. `hurry`: called if the task is cancelled in a call of the
    consumer, so that a rebalance inside it ends within its deadline."""

    def __init__(self, stopped: Callable[[], bool], hurry: Callable[[], None]) -> None:
        self._stopped = stopped
        self._hurry = hurry
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=THREAD_NAME)

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
        try:
            running = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            if not self._loop.is_closed():
                raise
            return
        # The loop may close before it has begun the coroutine, and then tells nothing.
        while not wait([running], CLOSED_S).done:
            if self._loop.is_closed() and not running.done():
                work.close()
                return
        running.result()

    def start(self, work: Coroutine[Any, Any, T]) -> Running[T]:
        return _OnLoop(self._loop.create_task(work))

    async def sleep(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            await asyncio.sleep(min(NAP_S, left))
            if self._stopped():
                return

    async def close(self) -> None:
        self._thread.shutdown(wait=True)


class _OnLoop(Generic[T]):
    """`Running`, as a task of the event loop."""

    def __init__(self, task: asyncio.Task[T]) -> None:
        self._task = task

    def done(self) -> bool:
        return self._task.done()

    async def result(self, timeout_s: float | None) -> T:
        return await asyncio.wait_for(asyncio.shield(self._task), timeout_s)
