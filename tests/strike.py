"""Interrupts a call at a point that was drawn beforehand, so that a run can be repeated.

The points are those in the library at which Python runs signal handlers: a function has just begun, or a function that is not written in
Python has just returned. A strike may raise, as Ctrl-C does, or fork.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from random import Random
from types import FrameType
from typing import Any, TypeVar

import pytest

from fencepost.producer.errors import ProducerForked
from fencepost.producer.foundations.rlock import IS_NEEDED

T = TypeVar("T")

TESTS = os.path.dirname(__file__)
ASYNCIO = os.path.dirname(asyncio.__file__)
SPARED = (TESTS, logging.__file__)
"""No strike comes in these files: what is raised where `logging` has just taken a handler's lock leaves it taken for good, and every thread
that logs waits for it (CPython's; it takes the lock before its `try`)."""
THREADS = {each.__code__ for each in (threading.Thread.start, threading.enumerate, threading.active_count) if IS_NEEDED}
"""Nor in these functions on Python 3.14, which take the lock of the table of threads: no new thread would begin any more."""
CHILD_LIMIT_S = 10
"""How many seconds a child may take. A child that hangs is killed."""


MARKS = [
    # A strike may hit a callback of a weak reference, where Python drops exceptions, or leave a socket open that was just made.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("struck_garbage"),
    # These tests fork with running threads on purpose.
    pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"),
]
"""The marks of tests that use strikes."""


class Struck(BaseException):
    """The exception of a signal handler, as with Ctrl-C."""


def interrupt() -> None:
    raise Struck


def struck(call: Callable[[], T], point: int, strike: Callable[[], object], spare: tuple[str, ...] = SPARED) -> T:
    """Make the call, with a strike at its n-th point, on the same thread. If the call has fewer points, nothing strikes."""
    left = point

    def look(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        code = frame.f_code
        if (
            event in ("call", "c_return")
            and not code.co_filename.startswith(spare)
            and code not in THREADS
            and not begun_by_loop(frame, event)
        ):
            left -= 1
            if left < 0:
                sys.setprofile(None)
                strike()

    # No strike inside pytest's hook for exceptions that Python drops.
    hook, sys.unraisablehook = sys.unraisablehook, lambda dropped: None
    sys.setprofile(look)
    try:
        return call()
    except RuntimeError as error:
        # Python's own Condition raises another error where a handler raises inside its wait, as in `Thread.start`.
        if isinstance(error.__context__, Struck) and str(error) == "release unlocked lock":
            raise error.__context__ from None
        raise
    finally:
        sys.setprofile(None)
        sys.unraisablehook = hook


def begun_by_loop(frame: FrameType, event: str) -> bool:
    """Whether asyncio has just called this function.

    An exception here would be raised in asyncio, which has already removed the callback from its list and would not run it again.
    """
    return event == "call" and frame.f_back is not None and frame.f_back.f_code.co_filename.startswith(ASYNCIO)


def at_every_point(call: Callable[[], object]) -> Iterator[BaseException]:
    """Make the call repeatedly, with a strike at one point after the other, until there are no more. Return the result of each."""
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
    """This code is not part of the call: no strike comes here."""
    look = sys.getprofile()
    sys.setprofile(None)
    try:
        yield
    finally:
        sys.setprofile(look)


def draw_point(random: Random, points_max: int) -> int:
    """Draw a point. Early and late points are equally likely."""
    return int(points_max ** random.random())


def fork(calls: Iterable[Callable[[], object]]) -> None:
    """Fork here. In the child every call must raise ProducerForked; then the child exits.

    The child has the state of the parent's threads, and of this one, in the middle of their calls.
    """
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
    """The exit status of the child. The parent kills a child that hangs.

    An alarm in the child would not end it if it hangs in the exit of a handler, or in the functions that run after a fork.
    """
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
