"""The pipeline for asyncio. The consumer's calls, which block, run in a thread of their own."""

from __future__ import annotations

from typing import SupportsFloat, Unpack

from fencepost.producer.foundations.timeouts import seconds
from fencepost.txn.loop.runs import AsyncRuns
from fencepost.txn.pipeline.keywords import PipelineKeywords
from fencepost.txn.pipeline.making import IN_ANOTHER_PROCESS, Plan
from fencepost.txn.pipeline.stats import PipelineStats


class AsyncPipeline(AsyncRuns[Plan]):
    """`Pipeline` for asyncio; settings, guarantees and errors are the same.

        await AsyncPipeline(bootstrap_servers="localhost:9092", source="orders", group="billing", sink="invoices", transform=invoice).run()

    `transform` and `transform_many` may be async functions. Up to `concurrency` calls of an async transform run at once. The results of
    each partition are written in the order of its messages.
    """

    _in_another_process = IN_ANOTHER_PROCESS

    def __init__(self, **settings: Unpack[PipelineKeywords]) -> None:
        super().__init__(Plan(settings, on_loop=True))

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

    def stats(self) -> PipelineStats:
        """`Pipeline.stats`."""
        return self._plan.counters.snapshot()
