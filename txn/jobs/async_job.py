"""The job for asyncio. The source's calls, which block, run in a thread of their own."""

from __future__ import annotations

from typing import Any, SupportsFloat, Unpack

from fencepost.producer.foundations.timeouts import seconds
from fencepost.txn.jobs.keywords import JobKeywords
from fencepost.txn.jobs.making import IN_ANOTHER_PROCESS, Plan
from fencepost.txn.jobs.source import Source
from fencepost.txn.jobs.stats import JobStats
from fencepost.txn.loop.runs import AsyncRuns


class AsyncJob(AsyncRuns[Plan]):
    """`Job` for asyncio; settings, guarantees and errors are the same. `transform` may be an async function.

    await AsyncJob("flights", FileSource("flights.csv"), bootstrap_servers="localhost:9092", topic="flights").run()
    """

    _in_another_process = IN_ANOTHER_PROCESS

    def __init__(self, name: str, source: Source, **settings: Unpack[JobKeywords]) -> None:
        super().__init__(Plan(name, source, settings, on_loop=True))
        self.name = self._plan.name

    @property
    def position(self) -> Any:
        """`Job.position`."""
        return self._plan.position

    async def run(self, *, timeout: SupportsFloat | None = None, max_batches: int | None = None) -> JobStats:
        """`Job.run`. A cancellation aborts the open batch. The transform runs in the same task: if it cancels that, it ends the run too."""
        await self._go(seconds(timeout, float("inf")), max_batches)
        return self.stats()

    def stats(self) -> JobStats:
        """`Job.stats`."""
        return self._plan.counters.snapshot()
