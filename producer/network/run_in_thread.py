"""Runs a blocking function in a thread beside the loop, without a thread pool.

A pool refuses work once the interpreter begins to exit. At that time a producer that was not closed still has to deliver. So each call
has its own thread; if no thread can be started any more, the call blocks the loop. It sets no deadline; the caller does.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from fencepost.producer.foundations.loop_post import post

T = TypeVar("T")


async def off_loop(run: Callable[[], T], *, name: str) -> T:
    """What `run` returns or raises. Its thread is a daemon with that name. Cancelling the caller does not interrupt the thread."""
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def settle(result: T | None, error: Exception | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)  # type: ignore[arg-type]  # there is a result where there is no error

    beside(asyncio.get_running_loop(), run, settle, name=name)
    return await answer


def beside(loop: asyncio.AbstractEventLoop, run: Callable[[], T], then: Callable[[T | None, Exception | None], None], *, name: str) -> None:
    """The same without a task, so that nothing can cancel it. `then` is called on the loop with the result, or with the exception."""

    def work() -> None:
        post(loop, then, *_outcome(run))  # If the loop has ended before the function, nothing waits for the result.

    try:
        threading.Thread(target=work, name=name, daemon=True).start()
    except RuntimeError:
        work()


def _outcome(run: Callable[[], T]) -> tuple[T | None, Exception | None]:
    try:
        return run(), None
    except BaseException as error:  # noqa: BLE001 - the outermost frame of a thread: the caller gets the error
        if isinstance(error, Exception) and not isinstance(error, StopIteration):
            return None, error
        # A future takes no StopIteration, and the others would end a loop: sys.exit in a thread.
        other = RuntimeError(f"{type(error).__name__}({error})")
        other.__cause__ = error
        return None, other
