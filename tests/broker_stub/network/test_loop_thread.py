"""The thread of a stub's or proxy's event loop, and what it leaves when it ends."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from fencepost.broker_stub.network.loop_thread import LoopThread


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
