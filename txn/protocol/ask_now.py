"""One question to a cluster from a caller that runs no event loop, or that must not use its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import copy_context
from typing import Any, Final, TypeVar

from fencepost.producer.config.settings import Settings
from fencepost.producer.foundations.loop_post import post
from fencepost.txn.foundations.call_outcome import CallOutcome
from fencepost.txn.protocol.cluster_client import ClusterClient, Deadline

T = TypeVar("T")

NO_THREAD: Final = "new thread"
"""In the error of a thread that cannot be started: "can't start new thread", "can't create new thread at interpreter shutdown"."""


def ask_now(ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run the coroutine on a loop of its own, in another thread: this one may run a loop already, and an exception of a signal's handler
    that strikes asyncio in the middle of a step can leave its loop waiting for ever. If Ctrl-C interrupts the wait, the question ends.
    Where Python can start no thread, as Python 3.12 at its exit, the loop runs in this one."""
    came: CallOutcome[T] = CallOutcome()
    asking: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []
    is_left = False

    async def run() -> T:
        task = asyncio.current_task()
        assert task is not None
        asking.append((asyncio.get_running_loop(), task))
        if is_left:
            raise asyncio.CancelledError
        return await ask()

    def run_aside() -> None:
        try:
            came.set_result(asyncio.run(run()))
        except BaseException as error:  # noqa: BLE001 - for the waiting caller
            came.set_error(error)

    thread = threading.Thread(target=copy_context().run, args=(run_aside,), name="fencepost-ask", daemon=True)
    try:
        thread.start()
        came.wait(threading.TIMEOUT_MAX)
    except BaseException as error:
        is_left = True
        for loop, task in asking:
            post(loop, task.cancel)
        # CPython's Condition also raises RuntimeError, where Ctrl-C strikes its exit.
        if not isinstance(error, RuntimeError) or NO_THREAD not in str(error):
            raise
    if is_left:
        return asyncio.run(ask())
    thread.join()
    return came.result()


def ask_client(settings: Settings, ask: Callable[[ClusterClient], Awaitable[T]]) -> T:
    """The answer of `ask`, over connections that are opened and closed for it."""

    async def run() -> T:
        async with ClusterClient(settings) as client:
            return await ask(client)

    return ask_now(run)


def ask_patiently(settings: Settings, ask: Callable[[ClusterClient], Awaitable[T]], timeout_s: float) -> T:
    """The first answer of `ask`, repeated where that can help. Raises Unanswered with the last reason after `timeout_s` seconds."""
    return ask_client(settings, lambda client: client.again(lambda: ask(client), Deadline(timeout_s)))
