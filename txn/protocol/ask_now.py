"""One question to a cluster from a caller that runs no event loop, or that must not use its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from fencepost.producer.config.settings import Settings
from fencepost.txn.foundations.call_outcome import CallOutcome
from fencepost.txn.protocol.cluster_client import ClusterClient, Deadline

T = TypeVar("T")


def ask_now(ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run the coroutine on a loop of its own: in this thread, or in another one if this thread runs a loop already. If Ctrl-C interrupts
    that wait, the other thread ends within its time limit."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(ask())
    came: CallOutcome[T] = CallOutcome()

    def run_aside() -> None:
        try:
            came.set_result(asyncio.run(ask()))
        except BaseException as error:  # noqa: BLE001 - for the waiting caller
            came.set_error(error)

    threading.Thread(target=run_aside, name="fencepost-ask", daemon=True).start()
    return came.result(threading.TIMEOUT_MAX)


def ask_client(settings: Settings, ask: Callable[[ClusterClient], Awaitable[T]]) -> T:
    """The answer of `ask`, over connections that are opened and closed for it."""

    async def run() -> T:
        async with ClusterClient(settings) as client:
            return await ask(client)

    return ask_now(run)


def ask_patiently(settings: Settings, ask: Callable[[ClusterClient], Awaitable[T]], timeout_s: float) -> T:
    """The first answer of `ask`, repeated where that can help. Raises Unanswered with the last reason after `timeout_s` seconds."""
    return ask_client(settings, lambda client: client.again(lambda: ask(client), Deadline(timeout_s)))
