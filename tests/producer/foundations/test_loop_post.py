"""Calls that any thread passes to an event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from fencepost.producer.foundations.loop_post import post


def test_the_loop_calls_it() -> None:
    """With its arguments, on the loop's thread, wherever it was posted."""
    loop = asyncio.new_event_loop()
    called: list[tuple[int, int]] = []

    def run(number: int) -> None:
        called.append((number, threading.get_ident()))
        loop.stop()

    posting = threading.Thread(target=lambda: called.append((post(loop, run, 7), 0)))
    posting.start()
    posting.join()
    loop.run_forever()
    loop.close()
    assert called == [(True, 0), (7, threading.get_ident())]


def test_a_closed_loop() -> None:
    """Takes no call, and the poster is told."""
    loop = asyncio.new_event_loop()
    loop.close()
    assert not post(loop, print)


def test_another_error() -> None:
    """A signal handler's RuntimeError is not taken for a closed loop."""

    class Interrupted(asyncio.SelectorEventLoop):
        def call_soon_threadsafe(self, *_: object, **__: object) -> asyncio.Handle:
            raise RuntimeError("a handler's")

    loop = Interrupted()
    with pytest.raises(RuntimeError, match="a handler's"):
        post(loop, print)
    loop.close()
