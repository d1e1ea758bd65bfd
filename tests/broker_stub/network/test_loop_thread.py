"""The thread of a stub's or proxy's event loop, and what it leaves when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import sys
import threading
from types import FrameType
from typing import Any

import pytest

from fencepost.broker_stub.network import loop_thread
from fencepost.broker_stub.network.loop_thread import LoopThread
from tests.waiting import until


def test_a_task_that_still_runs_is_cancelled_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    """A caller stops waiting for a call, as after Ctrl-C, and then the loop ends: the task hears of it, and asyncio has nothing to complain
    about."""
    heard: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            heard.append("cancelled")
            raise

    async def down() -> None:
        heard.append("down")

    thread = LoopThread("test", asyncio.new_event_loop(), down)
    thread.start()
    thread.call(lambda: heard.append("up"), 10)
    asyncio.run_coroutine_threadsafe(forever(), thread.loop)
    thread.call(lambda: None, 10)
    thread.stop(10)
    gc.collect()
    assert heard == ["up", "down", "cancelled"]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("at", range(1, 40, 2))
def test_ctrl_c_inside_a_stop_leaves_a_thread_that_a_second_stop_ends(at: int) -> None:
    """At any line of the wait, also where Python 3.11 then takes the running thread for one that has ended."""
    loop = asyncio.new_event_loop()
    thread = LoopThread("t", loop, down=lambda: asyncio.sleep(0.05))
    thread.start()
    seen = 0

    def lines(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal seen
        seen += event == "line"
        if seen == at:
            sys.settrace(None)
            raise KeyboardInterrupt
        return lines

    def calls(frame: FrameType, _event: str, _argument: object) -> Any:
        return lines if frame.f_code.co_filename in (threading.__file__, loop_thread.__file__) else None

    before = sys.gettrace()
    sys.settrace(calls)
    try:
        with contextlib.suppress(KeyboardInterrupt, RuntimeError):
            thread.stop(10)
    finally:
        sys.settrace(before)
    thread.stop(10)
    assert loop.is_closed()
    until(lambda: thread.ident not in sys._current_frames(), "the thread has ended", timeout_s=10)
