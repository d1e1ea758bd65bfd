"""The reader's event loop, and a question that comes while it ends."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time

import pytest

from fencepost.txn.reading.loop import LoopThread

WAIT_S = 10.0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("at", ["its last coroutine", "the close of its loop"])
def test_a_question_while_it_ends(at: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caller hears at once that the reader was closed. No coroutine is left that was not awaited, and no task that is pending."""
    reached, go_on = threading.Event(), threading.Event()

    async def last() -> None:
        if at == "its last coroutine":
            reached.set()
            await asyncio.to_thread(go_on.wait, WAIT_S)

    async def question() -> None:
        await asyncio.sleep(3600)

    thread = LoopThread("fencepost-reader-test", last)
    close = thread._loop.close

    def close_slowly() -> None:
        if at == "the close of its loop":
            reached.set()
            go_on.wait(WAIT_S)
        close()

    monkeypatch.setattr(thread._loop, "close", close_slowly)
    closing = threading.Thread(target=thread.close)
    closing.start()
    assert reached.wait(WAIT_S)
    came = thread.start(question())
    go_on.set()
    asked = time.monotonic()
    with pytest.raises(RuntimeError, match="the reader was closed"):
        thread.wait(came)
    assert time.monotonic() - asked < 0.9, "it was told, and did not only look once a second"
    closing.join(WAIT_S)
    gc.collect()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_its_thread_is_over_when_a_second_close_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the thread has told that it is over, and has not ended yet."""
    told, go_on = threading.Event(), threading.Event()

    async def last() -> None:
        return None

    thread = LoopThread("fencepost-reader-test", last)
    tell = thread._over.notify_all

    def tell_slowly() -> None:
        tell()
        told.set()
        go_on.wait(WAIT_S)

    monkeypatch.setattr(thread._over, "notify_all", tell_slowly)
    first = threading.Thread(target=thread.close)
    first.start()
    assert told.wait(WAIT_S)
    threading.Timer(0.1, go_on.set).start()
    thread.close()
    assert not thread._thread.is_alive()
    first.join(WAIT_S)
