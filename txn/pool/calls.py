"""How a pool's one program makes its calls and waits: blocking in threads, or on an event loop.

The program is written once, as coroutines. With `BlockingCalls` none of them ever waits, so `finished` runs them without an event loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol, TypeVar
from weakref import ref

from fencepost.txn.async_producer import AsyncTransactionalProducer
from fencepost.txn.loop.calls import finished
from fencepost.txn.pool.slots import Holder, Slot
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.protocol.ask_now import NO_THREAD, ask_now

T = TypeVar("T")


class Ticket(Protocol):
    """The place of a caller that waits for a slot. `slot`: the one that it was given. `holder`: as the slot's will be."""

    slot: Slot | None
    holder: Callable[[], Holder | None]

    def wake(self) -> None:
        """End the wait."""
        ...

    async def wait(self, seconds: float) -> None:
        """Wait until `wake`, or until the time has passed."""
        ...


class PoolCalls(Protocol):
    """See the module."""

    def make(self, settings: dict[str, Any]) -> Any:
        """A producer."""
        ...

    def ticket(self, holder: Holder) -> Ticket:
        """A new place."""
        ...

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A call of the producer."""
        ...

    async def ask(self, question: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """A question to the cluster."""
        ...

    async def together(self, works: list[Coroutine[Any, Any, None]]) -> None:
        """Do these at the same time, and wait for all."""
        ...


class BlockingCalls:
    """Calls that block."""

    def make(self, settings: dict[str, Any]) -> TransactionalProducer:
        return TransactionalProducer(settings)

    def ticket(self, holder: Holder) -> Ticket:
        return _ThreadTicket(holder)

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    async def ask(self, question: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return ask_now(question)

    async def together(self, works: list[Coroutine[Any, Any, None]]) -> None:
        if len(works) == 1:
            finished(works[0])
            return
        # Daemons: if Ctrl-C strikes `Thread.start`, Python would wait at its exit for a thread that never begins.
        begun = []
        for work in works:
            thread = threading.Thread(target=finished, args=(work,), name="fencepost-pool-close", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                if NO_THREAD not in str(error):
                    raise
                finished(work)
            else:
                begun.append(thread)
        for thread in begun:
            thread.join()


class _ThreadTicket:
    """`Ticket`, of a thread. It waits for a lock and not for an Event, which Ctrl-C can break."""

    def __init__(self, holder: Holder) -> None:
        self.slot: Slot | None = None
        self.holder: Callable[[], Holder | None] = ref(holder)
        self._lock = threading.Lock()
        self._lock.acquire()

    def wake(self) -> None:
        if self._lock.locked():
            self._lock.release()

    async def wait(self, seconds: float) -> None:
        self._lock.acquire(timeout=seconds)


class LoopCalls:
    """Calls on the event loop that runs."""

    def make(self, settings: dict[str, Any]) -> AsyncTransactionalProducer:
        return AsyncTransactionalProducer(settings)

    def ticket(self, holder: Holder) -> Ticket:
        return _TaskTicket(holder)

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await function(*arguments)

    async def ask(self, question: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await question()

    async def together(self, works: list[Coroutine[Any, Any, None]]) -> None:
        await asyncio.gather(*works)


class _TaskTicket:
    """`Ticket`, of a task."""

    def __init__(self, holder: Holder) -> None:
        self.slot: Slot | None = None
        self.holder: Callable[[], Holder | None] = ref(holder)
        self._event = asyncio.Event()
        self.wake = self._event.set

    async def wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
