"""Calls from any thread that run on a loop's thread. A caller does not wait for a loop that has ended, or that is another process's.

It starts no loop and ends none: the loop's thread says with `end` that nothing runs there any more.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


class LoopEnded(Exception):
    """The loop has ended before it came to the call."""


class LoopCalls:
    """Those of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._process = os.getpid()
        self._waiting: set[Future[Any]] = set()
        self._ended = False

    def call(self, run: Callable[[], T], timeout_s: float) -> T:
        """What it returns or raises there. Raises LoopEnded, TimeoutError, and RuntimeError in a forked child."""
        if os.getpid() != self._process:
            raise RuntimeError("another process started it, and has it: ask there, or through a Control")
        answer: Future[T] = Future()
        self._waiting.add(answer)
        try:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(_answer, answer, run)
            if self._ended:  # asked only now, so that either `end` sees the answer or this sees the end
                answer.cancel()
            return answer.result(timeout_s)
        except CancelledError:
            raise LoopEnded from None
        finally:
            self._waiting.discard(answer)

    def end(self) -> None:
        """Nothing runs on the loop any more."""
        self._ended = True
        for answer in self._waiting.copy():
            answer.cancel()


def _answer(answer: Future[T], run: Callable[[], T]) -> None:
    if not answer.set_running_or_notify_cancel():
        return
    try:
        answer.set_result(run())
    except BaseException as error:  # noqa: BLE001 (it is the caller's)
        answer.set_exception(error)
