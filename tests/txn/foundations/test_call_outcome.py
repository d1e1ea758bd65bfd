"""The outcome of a call: either the caller leaves first or the sender thread decides first, and both see the same."""

from __future__ import annotations

import asyncio
import threading

import pytest

from fencepost.txn.foundations.call_outcome import CallOutcome
from tests.strike import MARKS, at_every_point

PATIENCE_S = 20.0

pytestmark = MARKS


def test_a_caller_that_left_gets_no_outcome() -> None:
    """A caller that has left stays away, however often either side asks."""
    came: CallOutcome[int] = CallOutcome()
    assert (came.cancel(), came.claim(), came.cancel(), came.claim()) == (True, False, True, False)
    assert came.done()


def test_what_was_decided_is_told() -> None:
    """A caller cannot leave once the sender has decided, and hears of it: True from `cancel` would say that nothing was done."""
    came: CallOutcome[int] = CallOutcome()
    assert (came.claim(), came.cancel(), came.claim(), came.done()) == (True, False, True, False)
    with pytest.raises(TimeoutError):
        came.result(0.01)
    came.set_result(7)
    assert (came.result(), came.exception(), came.done(), came.wait(0)) == (7, None, True, True)


def test_an_error_is_raised() -> None:
    """As it was told."""
    came: CallOutcome[None] = CallOutcome()
    came.set_error(ValueError("no"))
    assert str(came.exception()) == "no"
    with pytest.raises(ValueError, match="no"):
        came.result()


def test_every_waiting_caller_gets_the_outcome() -> None:
    """The outcome reaches waiting threads, and callbacks that were added before and after it. A thread whose wait is over does not
    matter."""
    came: CallOutcome[int] = CallOutcome()
    heard: list[int] = []
    assert not came.wait(0.001)
    came.when_told(lambda: heard.append(1))
    threads = [threading.Thread(target=lambda: heard.append(came.result(PATIENCE_S))) for _ in range(3)]
    for thread in threads:
        thread.start()
    came.set_result(7)
    for thread in threads:
        thread.join(PATIENCE_S)
    came.when_told(lambda: heard.append(2))
    assert sorted(heard) == [1, 2, 7, 7, 7]


def test_a_task_hears() -> None:
    """A task gets the result or the error from another thread. If the task was cancelled or its loop has ended, telling it does nothing."""

    async def listen() -> tuple[int, str]:
        good: CallOutcome[int] = CallOutcome()
        bad: CallOutcome[int] = CallOutcome()
        threading.Timer(0.01, good.set_result, (7,)).start()
        threading.Timer(0.01, bad.set_error, (ValueError("no"),)).start()
        got = await good.heard()
        with pytest.raises(ValueError, match="no") as raised:
            await bad.heard()
        task = asyncio.ensure_future(late.heard())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        return got, str(raised.value)

    late: CallOutcome[int] = CallOutcome()
    assert asyncio.run(listen()) == (7, "no")
    late.set_result(1)
    assert late.result() == 1


def tell(came: CallOutcome[int]) -> None:
    if came.claim():
        came.set_result(1)


def test_a_strike_leaves_no_lock_taken() -> None:
    """A caller may be interrupted at any point. The sender thread can still set the outcome."""

    def use() -> None:
        came.when_told(lambda: None)
        came.wait(0.0001)
        came.cancel()
        came.done()

    came: CallOutcome[int] = CallOutcome()
    for _ in at_every_point(use):
        teller = threading.Thread(target=tell, args=(came,), daemon=True)
        teller.start()
        teller.join(PATIENCE_S)
        assert not teller.is_alive()
        came = CallOutcome()
