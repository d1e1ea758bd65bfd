"""The pipeline for asyncio. The consumer's calls, which block, run in a thread of their own."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, SupportsFloat, Unpack

from fencepost.producer.errors import bound_to_process
from fencepost.producer.foundations.timeouts import seconds
from fencepost.txn.async_producer import AsyncTransactionalProducer
from fencepost.txn.pipeline.calls import OnLoop
from fencepost.txn.pipeline.checks import check_batches
from fencepost.txn.pipeline.keywords import PipelineKeywords
from fencepost.txn.pipeline.making import Plan
from fencepost.txn.pipeline.stats import PipelineStats

if TYPE_CHECKING:
    from fencepost.txn.pipeline.runner import Runner


class AsyncPipeline:
    """`Pipeline` for asyncio; settings, guarantees and errors are the same.

        await AsyncPipeline(bootstrap_servers="localhost:9092", source="orders", group="billing", sink="invoices", transform=invoice).run()

    `transform` and `transform_many` may be async functions. Up to `concurrency` calls of an async transform run at once. The results of
    each partition are written in the order of its messages.
    """

    def __init__(self, **settings: Unpack[PipelineKeywords]) -> None:
        self._plan = Plan(settings, on_loop=True)
        self._runner: Runner | None = None
        self._kept = False
        self._stopped = False
        self.transactional_id = self._plan.transactional_id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._plan.described()})"

    def __reduce__(self) -> NoReturn:
        raise bound_to_process(type(self).__name__, "make one in each process, with the same group")

    async def run(self, *, timeout: SupportsFloat | None = None, max_batches: int | None = None) -> PipelineStats:
        """`Pipeline.run`. A cancellation aborts the open batch."""
        await self._go(seconds(timeout, float("inf")), max_batches, until_idle=False)
        return self.stats()

    async def run_until_idle(self, *, timeout: SupportsFloat | None = None) -> PipelineStats:
        """`Pipeline.run_until_idle`."""
        limit_s = seconds(timeout, 60.0)
        if not await self._go(limit_s, None, until_idle=True) and not self._stopped:
            raise TimeoutError(f"the pipeline has not read everything within {limit_s:g} s; {self.stats()}")
        return self.stats()

    def stop(self) -> None:
        """`Pipeline.stop`."""
        self._stopped = True
        runner = self._runner
        if runner is not None:
            runner.stopping = True

    def stats(self) -> PipelineStats:
        """`Pipeline.stats`."""
        return self._plan.counters.snapshot()

    async def close(self) -> None:
        """`Pipeline.close`."""
        await self._end(failed=False)

    async def __aenter__(self) -> Self:
        self._kept = True
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._kept = False
        await self._end(failed=error is not None)

    async def _go(self, limit_s: float, batches: int | None, *, until_idle: bool) -> bool:
        check_batches(batches)
        try:
            if self._runner is None:
                self._runner = self._plan.runner(OnLoop(self._is_stopped, self._hurry), AsyncTransactionalProducer)
            self._runner.stopping = self._stopped
            idle = await self._runner.run(ends_at=time.monotonic() + limit_s, batches=batches, until_idle=until_idle)
        except BaseException:
            await self._end(failed=True)
            raise
        if not self._kept:
            await self._end(failed=False)
        return idle

    async def _end(self, *, failed: bool) -> None:
        """Close everything, also if the task is cancelled meanwhile."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        closing = asyncio.ensure_future(runner.close(failed=failed))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await asyncio.wait([closing])
            raise

    def _is_stopped(self) -> bool:
        return self._stopped

    def _hurry(self) -> None:
        if self._runner is not None:
            self._runner.stopping = True
