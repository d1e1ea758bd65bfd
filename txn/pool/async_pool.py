"""The pool for asyncio: the same program on the caller's event loop, without a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self, SupportsFloat, Unpack

from fencepost.producer.errors import Misuse
from fencepost.producer.foundations.timeouts import seconds
from fencepost.txn.async_producer import AsyncTransaction
from fencepost.txn.pool.base_pool import ONCE, BasePool
from fencepost.txn.pool.calls import LoopCalls
from fencepost.txn.pool.keywords import PoolKeywords
from fencepost.txn.pool.program import PoolProgram
from fencepost.txn.pool.slots import Holder, Slot
from fencepost.txn.pool.stats import PoolStats


class AsyncTransactionalPool(BasePool):
    """`TransactionalPool` for asyncio; settings, guarantees and errors are the same. It belongs to one event loop.

        pool = AsyncTransactionalPool(bootstrap_servers="localhost:9092", transactional_id_prefix="orders")
        async with pool.transaction() as tx:
            await tx.send("orders", b"order 1")

    If a task is cancelled in a block, the block ends as that of `AsyncTransactionalProducer` does. A commit that goes on without its caller
    keeps its slot until it is over.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Unpack[PoolKeywords]) -> None:
        super().__init__({**(config or {}), **settings}, LoopCalls, awaits=True)

    async def init(self, timeout: SupportsFloat | None = None) -> None:
        """`TransactionalPool.init`."""
        await self._here().open_warm(timeout)

    def transaction(self, timeout: SupportsFloat | None = None) -> AsyncPooledTransaction:
        """A transaction as an `async with` block; see `TransactionalPool.transaction`."""
        seconds(timeout, 0.0)
        self._ours()
        return AsyncPooledTransaction(self._here, timeout)

    async def check(self, timeout: SupportsFloat | None = None) -> PoolStats:
        """`TransactionalPool.check`."""
        return await self._here().check(timeout)

    async def close(self, timeout: SupportsFloat | None = None) -> None:
        """`TransactionalPool.close`. If the call is cancelled, the producers end at once."""
        await self._here().close(timeout)

    async def __aenter__(self) -> Self:
        self._here()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def _here(self) -> PoolProgram:
        """The program, on the loop that it belongs to."""
        program = self._ours()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise Misuse(
                "this is called on the event loop of the pool: no loop runs on this thread; elsewhere use TransactionalPool"
            ) from None
        if program.opened_on is None:
            program.opened_on = loop
        if program.opened_on is not loop:
            raise Misuse(
                "this pool belongs to the event loop on which it was first used, and this is another one: make the pool where that loop"
                " starts, such as a service's lifespan"
            )
        return program


class AsyncPooledTransaction(Holder):
    """See `AsyncTransactionalPool.transaction`."""

    def __init__(self, here: Callable[[], PoolProgram], timeout: SupportsFloat | None) -> None:
        self._here = here
        self._timeout = timeout
        self._entered = False
        self._open: tuple[PoolProgram, Slot, AsyncTransaction] | None = None

    async def __aenter__(self) -> AsyncTransaction:
        if self._entered:
            raise Misuse(ONCE)
        self._entered = True
        program = self._here()
        try:
            slot, transaction = await program.begin(self, self._timeout)
        except BaseException:
            self.is_gone = True
            raise
        self._open = program, slot, transaction
        entered: AsyncTransaction = transaction
        return entered

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._open is None:
            return
        (program, slot, transaction), self._open = self._open, None
        try:
            await program.end(slot, transaction.__aexit__, kind, error, trace)
        finally:
            self.is_gone = True
