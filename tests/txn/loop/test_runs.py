"""One call of a pipeline or a job at a time: a run, a close, or the end of its `with` block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.txn import IllegalCall
from fencepost.txn.loop.calls import Calls
from fencepost.txn.loop.runs import AsyncRuns, BlockingRuns
from tests.interleaved import at_each_step, needs_steps

pytestmark = pytest.mark.timeout(60)

RUNNING = r"run: this \w+ is running"


class Runner:
    """Runs until its batches are counted, and notes what happens."""

    def __init__(self) -> None:
        self.stopping = False
        self.heard: list[str] = []

    async def run(self, *, ends_at: float, batches: int | None) -> bool:
        """A run that ends at once."""
        self.heard.append("run")
        return True

    async def close(self, *, failed: bool) -> None:
        """The end."""
        self.heard.append("close")


class Plan:
    """A plan of such runners."""

    transactional_id = "one"

    def __init__(self) -> None:
        self.made: list[Runner] = []

    def runner(self, calls: Calls, make_producer: Callable[[dict[str, Any]], Any]) -> Runner:
        """A new one."""
        self.made.append(Runner())
        return self.made[-1]

    def described(self) -> str:
        """For its repr."""
        return ""


def test_a_run_in_another_thread_while_the_block_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused: the block closes the connections that it would use."""
    plan = Plan()
    runs: BlockingRuns[Plan] = BlockingRuns(plan)
    end = runs._end
    errors: list[BaseException] = []

    def run() -> None:
        try:
            runs._go(5.0, None)
        except IllegalCall as error:
            errors.append(error)

    def ended(*, failed: bool) -> None:
        monkeypatch.undo()
        running = threading.Thread(target=run)
        running.start()
        running.join()
        end(failed=failed)

    with runs:
        runs._go(5.0, None)
        monkeypatch.setattr(runs, "_end", ended)
    with pytest.raises(IllegalCall, match=RUNNING):
        raise errors[0]
    assert [each.heard for each in plan.made] == [["run", "close"]]
    runs._go(5.0, None)  # Outside of the block it makes a runner of its own.
    assert [each.heard for each in plan.made][1:] == [["run", "close"]]


def test_a_run_in_another_task_while_the_block_ends() -> None:
    """The same for tasks."""
    plan = Plan()

    async def story() -> None:
        runs: AsyncRuns[Plan] = AsyncRuns(plan)
        async with runs:
            await runs._go(5.0, None)
            runner = plan.made[0]
            close = runner.close

            async def closed(*, failed: bool) -> None:
                with pytest.raises(IllegalCall, match=RUNNING):
                    await runs._go(5.0, None)
                await close(failed=failed)

            runner.close = closed  # type: ignore[method-assign]

    asyncio.run(story())
    assert [each.heard for each in plan.made] == [["run", "close"]]


@needs_steps
def test_a_stop_at_each_step_of_the_beginning() -> None:
    """A run that another thread stops while it begins is stopped."""

    def attempt() -> tuple[Callable[[], object], Callable[[], object]]:
        runs: BlockingRuns[Plan] = BlockingRuns(Plan())
        stopped: list[bool] = []

        def begin() -> None:
            calls: Any = None
            runner = runs._running(lambda: calls, lambda settings: None)
            assert runner.stopping is bool(stopped)

        def stop() -> None:
            runs.stop()
            stopped.append(True)

        return begin, stop

    assert at_each_step(attempt) > 20
