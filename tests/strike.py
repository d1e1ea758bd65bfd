"""Strikes a call at a point that was drawn beforehand, so that a run can be played again.

The points are those of the library at which Python lets the handler of a signal run: a function has just begun, or one that is not written
in Python has just returned. What is done there may raise, as Ctrl-C does, or fork.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from random import Random
from types import FrameType
from typing import Any, TypeVar

import pytest

from fencepost.producer.errors import ProducerForked

T = TypeVar("T")

TESTS = os.path.dirname(__file__)
ASYNCIO = os.path.dirname(asyncio.__file__)
SPARED = (TESTS, logging.__file__)
"""No strike comes in these files: what is raised where `logging` has just taken a handler's lock leaves it taken for good, and every thread
that logs waits for it (CPython's; it takes the lock before its `try`)."""
CHILD_LIMIT_S = 10
"""How long a child may take; one that hangs is killed."""


MARKS = [
    # A strike may come in a callback of a weak reference, where Python drops what is raised.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    # That there are threads is what is tried.
    pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"),
]
"""For tests that strike."""


class Struck(BaseException):
    """What a signal's handler raises, as Ctrl-C does."""


def interrupt() -> None:
    raise Struck


def struck(call: Callable[[], T], point: int, strike: Callable[[], object], spare: tuple[str, ...] = SPARED) -> T:
    """Make the call; at its so manieth point the strike comes, on the same thread. Not at all where the call has no so many."""
    left = point

    def look(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        if event in ("call", "c_return") and not frame.f_code.co_filename.startswith(spare) and not begun_by_loop(frame, event):
            left -= 1
            if left < 0:
                sys.setprofile(None)
                strike()

    sys.setprofile(look)
    try:
        return call()
    finally:
        sys.setprofile(None)


def begun_by_loop(frame: FrameType, event: str) -> bool:
    """Whether asyncio has just called this. What is raised here is raised in asyncio, which has taken the callback from its list, and runs
    it no more."""
    return event == "call" and frame.f_back is not None and frame.f_back.f_code.co_filename.startswith(ASYNCIO)


def at_every_point(call: Callable[[], object]) -> Iterator[BaseException]:
    """Make the call again and again, struck at one point after the other, until there are no more. What each came to."""
    points = count()
    spared = 0
    while spared < 3:  # One call has some points more than another: it may find an outcome there, or wait for it.
        try:
            struck(call, next(points), interrupt)
            spared += 1
        except Struck as error:
            spared = 0
            yield error


@contextmanager
def spared() -> Iterator[None]:
    """Nothing in here is the call's: no strike comes."""
    look = sys.getprofile()
    sys.setprofile(None)
    try:
        yield
    finally:
        sys.setprofile(look)


def draw_point(random: Random, points_max: int) -> int:
    """Early ones as often as late ones."""
    return int(points_max ** random.random())


def fork(calls: Iterable[Callable[[], object]]) -> None:
    """Fork here. The child makes the calls, each of which has to raise ProducerForked, and is gone; it sees what other threads, and this
    one, were in the middle of."""
    with spared():
        child = os.fork()
        if not child:
            code = 1
            try:
                code = 0 if all(is_refused(call) for call in calls) else 1
            finally:
                os._exit(code)
        status = ended(child)
        assert not status, f"a forked child was not refused: it ended with {os.waitstatus_to_exitcode(status)}"


def ended(child: int) -> int:
    """The status with which the child ended. One that hangs is killed, by its parent: where it hangs in a handler's way out, or in what
    is done after a fork, no alarm of its own would end it."""
    deadline = time.monotonic() + CHILD_LIMIT_S
    while time.monotonic() < deadline:
        gone, status = os.waitpid(child, os.WNOHANG)
        if gone:
            return status
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def is_refused(call: Callable[[], Any]) -> bool:
    try:
        call()
    except ProducerForked:
        return True
    return False
