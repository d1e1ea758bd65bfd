"""The pool for threads. It makes no connection before `init`, `check` or the first transaction."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self, SupportsFloat, Unpack

from fencepost.producer.errors import Misuse
from fencepost.producer.foundations.timeouts import seconds
from fencepost.txn.loop.calls import finished
from fencepost.txn.pool.base_pool import ONCE, BasePool
from fencepost.txn.pool.calls import BlockingCalls
from fencepost.txn.pool.keywords import PoolKeywords
from fencepost.txn.pool.program import PoolProgram
from fencepost.txn.pool.slots import Holder, Slot
from fencepost.txn.pool.stats import PoolStats
from fencepost.txn.transaction import Transaction


class TransactionalPool(BasePool):
    """Concurrent transactions: each has a producer of the pool for itself. Any thread may use the pool.

        pool = TransactionalPool(bootstrap_servers="localhost:9092", transactional_id_prefix="orders")
        with pool.transaction() as tx:
            tx.send("orders", b"order 1")

    Settings are those of `TransactionalProducer`, in either spelling, but with `transactional_id_prefix` for `transactional_id`. Of its own
    it has `size` (8), `instance`, `warm` (1), `acquire_timeout_ms` (10,000), `close_timeout_ms` (30,000) and `lock_directory`.
    docs/services.md has them in a table, and says how an instance is chosen.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Unpack[PoolKeywords]) -> None:
        super().__init__({**(config or {}), **settings}, BlockingCalls, awaits=False)

    def init(self, timeout: SupportsFloat | None = None) -> None:
        """Open the pool and `warm` slots. It fences producers that an earlier process of the instance had, and aborts their open
        transactions. The first transaction opens the pool by itself."""
        finished(self._ours().open_warm(timeout))

    def transaction(self, timeout: SupportsFloat | None = None) -> PooledTransaction:
        """A transaction as a `with` block, as `TransactionalProducer.transaction`. It begins when a slot is free; PoolTimeout after
        `acquire_timeout_ms`. `timeout` limits the beginning, and then the end."""
        seconds(timeout, 0.0)
        return PooledTransaction(self._ours(), timeout)

    def check(self, timeout: SupportsFloat | None = None) -> PoolStats:
        """For a readiness probe: ask the coordinator whether this pool can begin transactions, and return the statistics. Raises an error
        that says why not. Opens the pool, if that has not happened yet."""
        return finished(self._ours().check(timeout))

    def close(self, timeout: SupportsFloat | None = None) -> None:
        """Begin no more transactions, wait for open ones, abort those that are still open shortly before the time passes, and end. None:
        `close_timeout_ms`. Calling it again does nothing."""
        finished(self._ours().close(timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class PooledTransaction(Holder):
    """See `TransactionalPool.transaction`."""

    def __init__(self, program: PoolProgram, timeout: SupportsFloat | None) -> None:
        self._program = program
        self._timeout = timeout
        self._entered = False
        self._open: tuple[Slot, Transaction] | None = None

    def __enter__(self) -> Transaction:
        if self._entered:
            raise Misuse(ONCE)
        self._entered = True
        try:
            self._open = finished(self._program.begin(self, self._timeout))
        except BaseException:
            self.is_gone = True
            raise
        transaction: Transaction = self._open[1]
        return transaction

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._open is None:
            return
        try:
            (slot, transaction), self._open = self._open, None
            finished(self._program.end(slot, transaction.__exit__, kind, error, trace))
        finally:
            self.is_gone = True
