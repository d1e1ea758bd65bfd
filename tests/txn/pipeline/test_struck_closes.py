"""Ctrl-C at any point of the end of a pipeline or a job: a second `close` ends what the first one left, and nothing stays."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient

from fencepost.broker_stub import BrokerStub
from fencepost.txn import IteratorSource, Job, Pipeline
from fencepost.txn.loop.calls import Calls
from fencepost.txn.loop.runs import AsyncRuns, BlockingRuns
from tests.strike import MARKS, Struck, interrupt, struck
from tests.txn.jobs import helpers as jobs
from tests.txn.pipeline import helpers as pipelines
from tests.txn.pipeline.helpers import LIMIT_S, SINK, SOURCE, bill, invoices, order, results
from tests.txn.test_interrupts_anywhere import threads
from tests.waiting import until

SEED: Final = int(os.environ.get("FENCEPOST_SEED", random.SystemRandom().randrange(10**6)))
RECORDS: Final = 4

pytestmark = [
    *MARKS,
    pytest.mark.timeout(600),
    # A call is a coroutine, which is never begun where the strike comes first.
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
]

Either = Pipeline | Job


def at_points(one: Callable[[int], bool], every: int) -> None:
    """One run after the other, each struck at a later point, until there is none any more: one in so many points."""
    begin = SEED % every
    for point in count(begin, every):
        if not one(point):
            break
    assert point >= begin + 3 * every


def is_struck(call: Callable[[], object], point: int, runs: Either) -> bool:
    """Whether the call was struck at that point. If it was, another `close` follows."""
    try:
        struck(call, point, interrupt)
        return False
    except Struck:
        runs.close()
        until(threads, "its threads are gone", good=lambda left: not left)
        return True


class OpenRunner:
    """A runner that is open from its run until its `close` has done all of its steps."""

    stopping = False

    def __init__(self) -> None:
        self.left = 0

    async def run(self, *, ends_at: float, batches: int | None) -> bool:
        self.left = 3
        return True

    async def close(self, *, failed: bool) -> None:
        while self.left:
            await self.step()

    async def step(self) -> None:
        self.left -= len("x")


class SlowRunner(OpenRunner):
    """Its steps wait."""

    def __init__(self, may_end: asyncio.Event) -> None:
        super().__init__()
        self._may_end = may_end

    async def step(self) -> None:
        await self._may_end.wait()
        await super().step()


class MadePlan:
    """Keeps what it has made."""

    transactional_id = "t"

    def __init__(self, make: Callable[[], OpenRunner] = OpenRunner) -> None:
        self.made: list[OpenRunner] = []
        self._make = make

    def runner(self, calls: Calls, make_producer: Callable[[dict[str, Any]], Any]) -> OpenRunner:
        self.made += [self._make()]
        return self.made[-1]

    def described(self) -> str:
        return ""

    @property
    def open_runners(self) -> int:
        return sum(each.left > 0 for each in self.made)


@pytest.mark.parametrize("then", ["close", "run"])
@pytest.mark.parametrize("first", ["close", "run"])
def test_at_every_point(first: str, then: str) -> None:
    """A runner that a struck call has not closed is closed by the next `close`, or before the runner of the next run is made."""
    for point in count():
        plan = MadePlan()
        runs: BlockingRuns[Any] = BlockingRuns(plan)
        runs._kept = first == "close"
        if first == "close":
            runs._go(LIMIT_S, None)
        call = runs.close if first == "close" else partial(runs._go, LIMIT_S, None)
        try:
            struck(call, point, interrupt)
            break
        except Struck:
            runs._kept = True
            if then == "close":
                runs.close()
                assert plan.open_runners == 0
            assert runs._go(LIMIT_S, None)
            assert plan.open_runners == 1
            runs.close()
            assert plan.open_runners == 0
    assert point > 5


def test_a_task_that_is_cancelled_twice() -> None:
    """The second cancellation of a task ends its wait for the end of a run, which goes on. The next `close` waits for it."""

    async def story() -> None:
        may_end = asyncio.Event()
        plan = MadePlan(lambda: SlowRunner(may_end))
        runs: AsyncRuns[Any] = AsyncRuns(plan)
        task = asyncio.create_task(runs._go(LIMIT_S, None))
        for _ in range(2):
            await asyncio.sleep(0.01)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert plan.open_runners == 1
        closing = asyncio.create_task(runs.close())
        await asyncio.sleep(0.01)
        assert not closing.done()
        may_end.set()
        await closing
        assert plan.open_runners == 0

    asyncio.run(asyncio.wait_for(story(), LIMIT_S))


def members(admin: AdminClient) -> int:
    return len(admin.describe_consumer_groups(["billing"])["billing"].result(LIMIT_S).members)


def test_a_struck_close_of_a_pipeline() -> None:
    """Its threads and its producer are gone, its member has left the group, and it runs again."""
    total = 0
    with BrokerStub() as stub:
        for topic in (SOURCE, SINK):
            stub.create_topic(topic, partitions=1)
        admin = AdminClient({"bootstrap.servers": stub.bootstrap})

        def one(point: int) -> bool:
            nonlocal total
            pipeline = pipelines.quick(stub, bill)
            order(stub.bootstrap, range(total, total + RECORDS), partitions=1)
            total += RECORDS
            pipeline.__enter__()
            pipeline.run_until_idle(timeout=LIMIT_S)
            was_struck = is_struck(pipeline.close, point, pipeline)
            until(lambda: members(admin) == 0, "its member has left the group", timeout_s=5.0)
            order(stub.bootstrap, range(total, total + RECORDS), partitions=1)
            total += RECORDS
            pipeline.run_until_idle(timeout=LIMIT_S)
            pipeline.close()
            return was_struck

        at_points(one, every=151)
        assert results(stub.bootstrap, partitions=1) == invoices(range(total))


class Rows:
    """A source of so many records. `open_now`: its iterators that are open."""

    def __init__(self) -> None:
        self.total = 0
        self.open_now = 0

    def __call__(self, position: Any) -> Any:
        self.open_now += 1
        try:
            for number in range(position or 0, self.total):
                yield b"record %d" % number, number + 1
            while True:
                yield None
        finally:
            self.open_now -= 1


def test_a_struck_close_of_a_job() -> None:
    """Its threads and its producer are gone, its source is closed, and it runs again."""
    rows = Rows()
    with BrokerStub() as stub:
        stub.create_topic(jobs.TOPIC, partitions=1)

        def one(point: int) -> bool:
            rows.total += RECORDS
            job = jobs.quick(stub, IteratorSource(rows))
            job.__enter__()
            job.run(max_batches=1)
            was_struck = is_struck(job.close, point, job)
            assert rows.open_now == 0
            rows.total += RECORDS
            job.run(max_batches=1)
            job.close()
            return was_struck

        at_points(one, every=13)
        assert jobs.values(stub) == jobs.numbers(rows.total)
