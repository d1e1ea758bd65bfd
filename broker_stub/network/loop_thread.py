"""An event loop on a thread of its own, and calls from any thread that run there. A stub, a proxy, a control and an inspector each
have one.

A caller does not wait for a loop that has ended, or that belongs to another process. `StartsOnce` keeps a second start, and a start after
the close, from making a second loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

from fencepost.producer.foundations.loop_post import post
from fencepost.producer.foundations.rlock import RLock

T = TypeVar("T")


class LoopEnded(Exception):
    """The loop has ended before the call ran."""


class StartsOnce:
    """Orders the starts and the ends of what has such a loop. Any thread may start or end it. `name` is what an error calls it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = RLock()  # a signal handler may close what its thread is starting
        self.thread: LoopThread | None = None
        self.closed = False

    @contextmanager
    def starting(self) -> Iterator[None]:
        """The block sets `thread`. RuntimeError for a second start and for a start after the end."""
        with self._lock:
            if self.closed:
                raise RuntimeError(f"this {self._name} is closed, and a {self._name} starts only once: make a new one")
            if self.thread is not None:
                raise RuntimeError(f"this {self._name} was started before: a {self._name} starts only once")
            yield

    @contextmanager
    def ending(self, timeout_s: float) -> Iterator[None]:
        """Ends the thread, then runs the block. Raises TimeoutError. No start follows, and only one thread at a time runs this."""
        with self.standing(timeout_s):
            self.closed = True
            if self.thread is not None:
                self.thread.stop(timeout_s)
            yield

    @contextmanager
    def standing(self, timeout_s: float) -> Iterator[None]:
        """No other thread starts or ends it meanwhile, or is in such a block. Raises TimeoutError."""
        if not self._lock.acquire(timeout=min(timeout_s, threading.TIMEOUT_MAX)):
            raise TimeoutError(f"another thread has been starting or closing this {self._name} for {timeout_s:g} s")
        try:
            yield
        finally:
            self._lock.release()

    def check_thread(self) -> None:
        """RuntimeError on the thread of the loop, which would wait for its own end."""
        if self.thread is threading.current_thread():
            raise RuntimeError(f"close() on the {self._name}'s own thread would wait for itself: call it on another thread")

    def check_open(self) -> None:
        """RuntimeError after the end."""
        if self.closed:
            raise RuntimeError(f"the {self._name} is closed")


class LoopThread(threading.Thread):
    """Runs the loop until `stop`, then `down`, and closes the loop."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop, down: Callable[[], Coroutine[Any, Any, None]]) -> None:
        super().__init__(name=name, daemon=True)
        self.loop = loop
        self._down = down
        self._process = os.getpid()
        self._waiting: set[_Answer[Any]] = set()
        self._over = self._stops = False
        self._gone = False
        self._at_work = threading.Lock()  # no Event: an interrupted wait may raise RuntimeError
        self._at_work.acquire()

    @property
    def running(self) -> bool:
        """Whether the loop has begun and not ended. Not in a forked child."""
        # Not `is_alive`: if Ctrl-C interrupts it, Python 3.11 and 3.12 report the running thread as ended from then on.
        return self.ident is not None and not self._gone and os.getpid() == self._process

    def run(self) -> None:
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(self._down())
            self.loop.run_until_complete(self._end_tasks())
        finally:
            self.loop.close()
            self._over = True
            for answer in self._waiting.copy():
                answer.tell()
            self._gone = True
            self._at_work.release()

    async def _end_tasks(self) -> None:
        """Cancel what still runs, and wait for it: asyncio would complain about a task that a closed loop leaves behind."""
        left = asyncio.all_tasks(self.loop) - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.sleep(0)  # their transports close their sockets in the next turn

    def call(self, run: Callable[[], T], timeout_s: float) -> T:
        """Returns or raises what the call does. Raises LoopEnded, TimeoutError, and RuntimeError in a forked child."""
        if self.loop.is_closed():
            raise LoopEnded
        if os.getpid() != self._process:
            raise RuntimeError("another process started this stub or proxy: call it in that process, or use a Control")
        answer: _Answer[T] = _Answer()
        self._wait(answer, lambda: answer.take(run), timeout_s)
        return answer.value()

    def complete(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """Runs the coroutine on the loop, and returns or raises what it does. Raises LoopEnded and TimeoutError."""
        answer: _Answer[T] = _Answer()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            if self._stops:  # What is closed already would not be closed once more.
                work.close()
                answer.tell()
                return
            tasks.append(self.loop.create_task(work))
            tasks[0].add_done_callback(lambda task: answer.take(task.result))

        try:
            self._wait(answer, begin, timeout_s)
            return answer.value()
        except asyncio.CancelledError:
            raise LoopEnded from None
        except BaseException:
            post(self.loop, lambda: [task.cancel() for task in tasks])
            raise
        finally:
            if self._over and not tasks:
                work.close()  # it was not begun, and will not be

    def _wait(self, answer: _Answer[Any], begin: Callable[[], None], timeout_s: float) -> None:
        """Runs `begin` on the loop, and waits until the answer is there or the loop has ended."""
        self._waiting.add(answer)
        try:
            post(self.loop, begin)
            if self._over:  # checked after the call is posted: either `run` sees the call, or this sees the end
                answer.tell()
            answer.wait(timeout_s)
        finally:
            self._waiting.discard(answer)

    def stop_soon(self) -> None:
        """Ends the loop without waiting for it."""
        post(self.loop, self._stop_once)

    def _stop_once(self) -> None:
        """A second stop would break off what `down` does."""
        if not self._stops:
            self._stops = True
            self.loop.stop()

    def stop(self, timeout_s: float) -> None:
        """Ends the loop and the thread. Raises TimeoutError. A second call does nothing."""
        if self.running:
            self.stop_soon()
            if self._at_work.acquire(timeout=timeout_s):
                self._at_work.release()
            if not self._gone:
                raise TimeoutError(f"the thread {self.name} did not end within {timeout_s:g} s")
            self.join(timeout_s)


class _Answer(Generic[T]):
    """What a call on the loop returned or raised. No Future: where Ctrl-C strikes inside its wait, its lock may stay taken, and the loop
    would wait for it."""

    def __init__(self) -> None:
        self._told = threading.Lock()
        self._told.acquire()
        self._result: list[T] = []
        self._error: BaseException | None = None

    def take(self, run: Callable[[], T]) -> None:
        """Makes the call, on the loop."""
        try:
            self._result.append(run())
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            self._error = error
        self.tell()

    def tell(self) -> None:
        """Ends the wait. Without an outcome the loop has ended."""
        with suppress(RuntimeError):  # a second call
            self._told.release()

    def wait(self, timeout_s: float) -> None:
        """Raises TimeoutError."""
        if not self._told.acquire(timeout=min(timeout_s, threading.TIMEOUT_MAX)):
            raise TimeoutError(f"the loop has not answered within {timeout_s:g} s")

    def value(self) -> T:
        """The result. Raises the error, and LoopEnded if there is neither."""
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback has this frame
        if not self._result:
            raise LoopEnded
        return self._result[0]
