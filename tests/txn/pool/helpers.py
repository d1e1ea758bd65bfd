"""For tests of both pools: a pool of either kind, and its blocks as asyncio's. The blocks of a blocking pool run in threads."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from fencepost.txn.pool.async_pool import AsyncTransactionalPool
from fencepost.txn.pool.pool import TransactionalPool
from tests.producer.stub_helpers import QUICK

Pool = TransactionalPool | AsyncTransactionalPool
KINDS: list[type[Pool]] = [TransactionalPool, AsyncTransactionalPool]


THREADS = ThreadPoolExecutor(256)
"""More than asyncio's own: a block that waits for a slot keeps its thread."""


async def made_of(call: Any, *arguments: Any) -> Any:
    """The result of a call of either kind."""
    if inspect.iscoroutinefunction(call):
        return await call(*arguments)
    result = await asyncio.get_running_loop().run_in_executor(THREADS, call, *arguments)
    return await result if inspect.isawaitable(result) else result


async def sent(tx: Any, topic: str, value: bytes) -> None:
    """The transaction has accepted the record."""
    result = tx.send(topic, value)
    if inspect.iscoroutine(result):
        await result


@asynccontextmanager
async def pool_of(kind: type[Pool], bootstrap: str, **settings: Any) -> AsyncIterator[Pool]:
    """A pool, closed at the end."""
    pool = kind(**{**QUICK, "transactional_id_prefix": "p", **settings}, bootstrap_servers=bootstrap)
    try:
        yield pool
    finally:
        await made_of(pool.close)


@asynccontextmanager
async def block(pool: Pool, timeout: float | None = None) -> AsyncIterator[Any]:
    """`pool.transaction(timeout)`."""
    if isinstance(pool, AsyncTransactionalPool):
        async with pool.transaction(timeout) as tx:
            yield tx
        return
    entered = pool.transaction(timeout)
    tx = await made_of(entered.__enter__)
    try:
        yield tx
    except BaseException as error:
        await made_of(entered.__exit__, type(error), error, error.__traceback__)
        raise
    await made_of(entered.__exit__, None, None, None)


async def wrote(pool: Pool, value: bytes, topic: str = "t", timeout: float | None = None) -> None:
    """One record in one committed transaction."""
    async with block(pool, timeout) as tx:
        await sent(tx, topic, value)
