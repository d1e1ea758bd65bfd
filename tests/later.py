"""Time that passes all at once, for limits that would otherwise have to be short. A test does not wait for them, and a slow machine does
not reach them too early.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import pytest

from tests.waiting import until

SEEN_S = 20.0


class Jump(Protocol):
    def __call__(self, ms: float, *producers: Any) -> None:
        """Move the clock on. Returns when the sender thread of each of these producers has seen that; `send` in other threads, which waits
        for a topic, sees it, too."""


@contextmanager
def jumping() -> Iterator[Jump]:
    """`time.monotonic` jumps for the whole process, so for stubs, too. The waits of locks and of system calls do not. Make this the
    outermost block of a test, or its first fixture: what lives longer sees the clock go back. A task has to let its loop run after a
    jump."""
    real, ahead_s = time.monotonic, 0.0

    def jump(ms: float, *producers: Any) -> None:
        nonlocal ahead_s
        ahead_s += ms / 1000.0
        for producer in producers:
            # A loop runs what another thread has called before timers that are due; those are over by its next turn.
            for _ in range(2):
                assert producer._sender.catch_up(SEEN_S)
            producer._known_topics._changed.notify_all()

    time.monotonic = lambda: real() + ahead_s
    try:
        yield jump
    finally:
        time.monotonic = real


@pytest.fixture
def jump() -> Iterator[Jump]:
    with jumping() as jump:
        yield jump


def limit_passes(jump: Jump, ms: float, producer: Any, call: Callable[[], object], ready: Callable[[], object]) -> BaseException | None:
    """What a call raises if so much time passes as soon as `ready` returns something true. It passes again where the call began to wait
    only after that."""
    with ThreadPoolExecutor(1) as pool:
        calling = pool.submit(call)
        until(ready, "the moment when the time passes")
        for _ in range(int(SEEN_S)):
            jump(ms, producer)
            with suppress(TimeoutError):
                return calling.exception(1.0)
        raise AssertionError(f"the call does not see that {ms} ms have passed")
