"""Calls from the consumer's thread to an event loop that the program may be closing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.txn.loop.calls import OnLoop

WAIT_S = 10.0


class Beside:
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.raised: BaseException | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:  # noqa: BLE001 - the outermost frame of a thread: the test gets the error
            self.raised = error

    def join(self) -> None:
        """Its end."""
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), "it hangs"


async def make() -> OnLoop:
    """Calls on the running loop."""
    return OnLoop(lambda: False, lambda: None)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("closes", ["before it is asked", "after that"])
def test_a_loop_that_closes_runs_nothing_more(closes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebalance wants to end the open batch, and the loop has stopped and is being closed. The consumer's thread goes on, and nothing
    is left that asyncio would complain about."""
    loop = asyncio.new_event_loop()
    calls = loop.run_until_complete(make())
    post = loop.call_soon_threadsafe
    asked = threading.Event()
    ran: list[str] = []

    async def work() -> None:
        ran.append("begun")

    def posted(*arguments: Any, **options: Any) -> asyncio.Handle:
        if closes == "before it is asked":
            loop.close()
        handle = post(*arguments, **options)
        asked.set()
        return handle

    monkeypatch.setattr(loop, "call_soon_threadsafe", posted)
    inside = Beside(lambda: calls.inside(work()))
    if closes == "after that":
        assert asked.wait(WAIT_S)
        loop.close()
    inside.join()
    assert (ran, inside.raised) == ([], None)
    calls._thread.shutdown()


@pytest.mark.parametrize("error", [None, TimeoutError("its own")], ids=["it returns", "it raises"])
def test_a_loop_that_runs(error: Exception | None) -> None:
    """The coroutine runs there, and the call returns after it, or raises what it raises."""
    loop = asyncio.new_event_loop()
    calls = loop.run_until_complete(make())
    ran: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0)
        ran.append("ended")
        if error is not None:
            raise error

    inside = Beside(lambda: calls.inside(work()))

    async def over() -> None:
        while not ran:
            await asyncio.sleep(0.001)

    loop.run_until_complete(over())
    loop.run_until_complete(asyncio.sleep(0))
    inside.join()
    assert (ran, repr(inside.raised)) == (["ended"], repr(error))
    calls._thread.shutdown()
    loop.close()
