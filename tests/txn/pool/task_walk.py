"""The walk with the pool for asyncio: callers are tasks, which are cancelled at random."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

from fencepost.producer.errors import FencepostError
from fencepost.txn.async_producer import AsyncTransaction
from fencepost.txn.errors import CommitOutcomeUnknown
from fencepost.txn.pool.async_pool import AsyncTransactionalPool
from fencepost.txn.pool.errors import PoolTakenOver
from tests.producer.stub_helpers import LIMIT_S, run_story
from tests.txn.pool.walk import CALLERS, PARTITIONS, TRANSACTIONS, Walk
from tests.waiting import until

SOON_S = 2.0


class TaskWalk(Walk):
    """See the module."""

    def run(self) -> None:
        run_story(self._run())
        until(lambda: self.stub.stats()["open"] == 0, "no connection is left")

    async def _run(self) -> None:
        before = asyncio.all_tasks()
        self.pool = self._open()
        callers = asyncio.gather(*[self._caller(random.Random(self.draw.random())) for _ in range(CALLERS)])
        while not callers.done():
            await asyncio.sleep(self.draw.random() * 0.1)
            await asyncio.to_thread(self.trouble)
            if self.draw.random() < 0.1:
                await self._reopen()
        await callers
        self.stub.faults.clear()
        await self._resolve()
        await self._works()
        await self.pool.close(LIMIT_S)
        left = asyncio.all_tasks() - before
        if left:
            await asyncio.wait(left, timeout=SOON_S)
        self.broken += [f"a task is left: {each!r}" for each in left if not each.done()]

    def _open(self) -> AsyncTransactionalPool:
        pool = AsyncTransactionalPool(self.settings())
        self.opened.append(pool)
        return pool

    async def _reopen(self) -> None:
        """Close the pool and open the next one, or the other way around, as two processes do that were given one instance."""
        older, closes_first = self.pool, self.draw.random() < 0.5
        if not closes_first:
            self.pool = self._open()
        limit_s = self.draw.choice([0.0, 0.5, LIMIT_S])
        closing = asyncio.create_task(older.close(limit_s))
        if self.draw.random() < 0.5:
            await asyncio.wait([closing], timeout=self.draw.random() * 0.3)
            closing.cancel()
        with suppress(asyncio.CancelledError):
            await closing
        await older.close(limit_s)
        if closes_first:
            self.pool = self._open()

    async def _caller(self, draw: random.Random) -> None:
        for _ in range(TRANSACTIONS):
            value, fails, timeout = self.value(), draw.random() < 0.15, draw.choice([0.2, None])
            writing = asyncio.create_task(self._block(value, fails=fails, timeout=timeout))
            if draw.random() < 0.3:
                await asyncio.wait([writing], timeout=draw.random() * 0.1)
                writing.cancel()
            try:
                await writing
            except asyncio.CancelledError:
                self.told.pop(value, None)

    async def _block(self, value: bytes, *, fails: bool, timeout: float | None) -> None:
        failure: BaseException | None = None
        try:
            async with self.pool.transaction(timeout) as tx:
                with self.alone(tx._producer):
                    await write(tx, value)
                if fails:
                    raise ZeroDivisionError
        except (FencepostError, ZeroDivisionError) as error:
            failure = error
        self.heard(value, failure)

    async def _resolve(self) -> None:
        for value, doubt in list(self.told.items()):
            if not isinstance(doubt, CommitOutcomeUnknown):
                continue
            try:
                await doubt.resolve(LIMIT_S)
            except CommitOutcomeUnknown:
                continue  # Its pool was closed before, and the coordinator has it open.
            except FencepostError:
                self.told[value] = False
            else:
                self.told[value] = True

    async def _works(self) -> None:
        """Each slot commits a transaction while the others have one open. A slot whose owner was fenced says so once."""
        async with asyncio.timeout(LIMIT_S):
            while not await self._commits_in_all_slots():
                pass
        stats = self.pool.stats()
        assert (stats.in_use, stats.waiting, stats.settling) == (0, 0, 0), stats

    async def _commits_in_all_slots(self) -> bool:
        together = asyncio.Barrier(self.size)

        async def use(value: bytes) -> None:
            try:
                async with self.pool.transaction(LIMIT_S) as tx:
                    with self.alone(tx._producer):
                        await together.wait()
                        await write(tx, value)
                self.told[value] = True
            except BaseException:
                await together.abort()
                raise

        uses = [use(self.value()) for _ in range(self.size)]
        failures = [each for each in await asyncio.gather(*uses, return_exceptions=True) if each is not None]
        if any(isinstance(each, PoolTakenOver) for each in failures):
            await self.pool.close(LIMIT_S)
            self.pool = self._open()
        return not failures


async def write(tx: AsyncTransaction, value: bytes) -> None:
    """The value in each partition."""
    for partition in range(PARTITIONS):
        await tx.send("t", value, partition=partition)
