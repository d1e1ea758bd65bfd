"""The job for asyncio. The source's calls, which block, run in a thread of their own."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Any, NoReturn, Self, SupportsFloat, Unpack

from fencepost.producer.errors import bound_to_process
from fencepost.producer.foundations.timeouts import seconds
from fencepost.txn.async_producer import AsyncTransactionalProducer
from fencepost.txn.jobs.keywords import JobKeywords
from fencepost.txn.jobs.making import Plan
from fencepost.txn.jobs.runner import Runner
from fencepost.txn.jobs.source import Source
from fencepost.txn.jobs.stats import JobStats
from fencepost.txn.pipeline.calls import OnLoop
from fencepost.txn.pipeline.checks import check_batches


class AsyncJob:
    """`Job` for asyncio; settings, guarantees and errors are the same. `transform` may be an async function.

    await AsyncJob("flights", FileSource("flights.csv"), bootstrap_servers="localhost:9092", topic="flights").run()
    """

    def __init__(self, name: str, source: Source, **settings: Unpack[JobKeywords]) -> None:
        self._plan = Plan(name, source, settings, on_loop=True)
        self._runner: Runner | None = None
        self._kept = False
        self._stopped = False
        self._last: Any = None
        self.name = self._plan.name
        self.transactional_id = self._plan.transactional_id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._plan.described()})"

    def __reduce__(self) -> NoReturn:
        raise bound_to_process(type(self).__name__, "make one in the process that runs it")

    @property
    def position(self) -> Any:
        """`Job.position`."""
        return self._runner.position if self._runner is not None else self._last

    async def run(self, *, timeout: SupportsFloat | None = None, max_batches: int | None = None) -> JobStats:
        """`Job.run`. A cancellation aborts the open batch."""
        limit_s = seconds(timeout, float("inf"))
        check_batches(max_batches)
        try:
            if self._runner is None:
                self._runner = self._plan.runner(OnLoop(self._is_stopped, self._hurry), AsyncTransactionalProducer)
            self._runner.stopping = self._stopped
            await self._runner.run(ends_at=time.monotonic() + limit_s, batches=max_batches)
        except BaseException:
            await self._end(failed=True)
            raise
        if not self._kept:
            await self._end(failed=False)
        return self.stats()

    def stop(self) -> None:
        """`Job.stop`."""
        self._stopped = True
        self._hurry()

    def stats(self) -> JobStats:
        """`Job.stats`."""
        return self._plan.counters.snapshot()

    async def close(self) -> None:
        """`Job.close`."""
        await self._end(failed=False)

    async def __aenter__(self) -> Self:
        self._kept = True
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._kept = False
        await self._end(failed=error is not None)

    async def _end(self, *, failed: bool) -> None:
        """Close everything, also if the task is cancelled meanwhile."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        self._last = runner.position
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
