"""Calls from any thread that run on an event loop's thread. A caller does not wait for a loop that has ended, or that belongs to another
process.

This file starts and ends no loop: the loop's thread calls `end` when the loop has ended.
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
    """The loop has ended before the call ran."""


class LoopCalls:
    """The calls of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._process = os.getpid()
        self._waiting: set[Future[Any]] = set()
        self._ended = False

    def call(self, run: Callable[[], T], timeout_s: float) -> T:
        """Returns or raises what the call does. Raises LoopEnded, TimeoutError, and RuntimeError in a forked child."""
        if os.getpid() != self._process:
            raise RuntimeError("another process started this stub or proxy: call it in that process, or use a Control")
        answer: Future[T] = Future()
        self._waiting.add(answer)
        try:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(_answer, answer, run)
            if self._ended:  # checked after the call is posted: either `end` sees the call, or this sees the end
                answer.cancel()
            return answer.result(timeout_s)
        except CancelledError:
            raise LoopEnded from None
        finally:
            self._waiting.discard(answer)

    def end(self) -> None:
        """Fails every call that has not run."""
        self._ended = True
        for answer in self._waiting.copy():
            answer.cancel()


def _answer(answer: Future[T], run: Callable[[], T]) -> None:
    if not answer.set_running_or_notify_cancel():
        return
    try:
        answer.set_result(run())
    except BaseException as error:  # noqa: BLE001 - the caller gets it
        answer.set_exception(error)
