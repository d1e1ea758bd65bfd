"""The pool for asyncio: the same program on the caller's event loop, without a thread."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, SupportsFloat, Unpack

from fencepost.producer.foundations.timeouts import seconds
from fencepost.txn.async_producer import AsyncTransaction
from fencepost.txn.pool.base_pool import BasePool
from fencepost.txn.pool.edges import OnLoop
from fencepost.txn.pool.keywords import PoolKeywords
from fencepost.txn.pool.program import PoolProgram
from fencepost.txn.pool.slots import Slot
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
        super().__init__({**(config or {}), **settings}, OnLoop)

    async def init(self, timeout: SupportsFloat | None = None) -> None:
        """`TransactionalPool.init`."""
        await self._ours().open_warm(timeout)

    def transaction(self, timeout: SupportsFloat | None = None) -> AsyncPooledTransaction:
        """A transaction as an `async with` block; see `TransactionalPool.transaction`."""
        seconds(timeout, 0.0)
        return AsyncPooledTransaction(self._ours(), timeout)

    async def check(self, timeout: SupportsFloat | None = None) -> PoolStats:
        """`TransactionalPool.check`."""
        return await self._ours().check(timeout)

    async def close(self, timeout: SupportsFloat | None = None) -> None:
        """`TransactionalPool.close`. If the call is cancelled, the producers end at once."""
        await self._ours().close(timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()


class AsyncPooledTransaction:
    """See `AsyncTransactionalPool.transaction`."""

    def __init__(self, program: PoolProgram, timeout: SupportsFloat | None) -> None:
        self._program = program
        self._timeout = timeout
        self._open: tuple[Slot, AsyncTransaction] | None = None

    async def __aenter__(self) -> AsyncTransaction:
        self._open = await self._program.begin(self._timeout)
        transaction: AsyncTransaction = self._open[1]
        return transaction

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._open is None:
            return
        (slot, transaction), self._open = self._open, None
        await self._program.end(slot, transaction.__aexit__, kind, error, trace)
