"""A transaction of an `AIOKafkaProducer` as a block."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from fencepost.compat.aiokafka.translation import translating
from fencepost.txn.async_producer import AsyncTransaction


class TransactionContext:
    """Begins a transaction, commits it at the block's end, and aborts it if an exception leaves the block, or if the commit fails."""

    def __init__(self, begin: Callable[[], Awaitable[AsyncTransaction]]) -> None:
        self._begin = begin
        self._transaction: AsyncTransaction | None = None

    async def __aenter__(self) -> Self:
        self._transaction = await self._begin()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._transaction is not None
        with translating:
            await self._transaction.__aexit__(kind, error, trace)
