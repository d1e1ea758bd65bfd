"""Lets something happen between two steps of a call: what another thread may do there if Python has no GIL.

A step is one instruction of Python's virtual machine in fencepost's functions. With the GIL, threads change only at some of them. A
compiled function has no such steps, so tests that use this run uncompiled.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from types import FrameType
from typing import Any

import pytest

from fencepost.producer.accumulator.batch import COMPILED

OURS = ("fencepost.producer.", "fencepost.txn.")
needs_steps = pytest.mark.skipif(COMPILED, reason="a compiled function has no steps between which something could happen")


def at_every_step(call: Callable[[], object], meanwhile: Callable[[], object]) -> int:
    """Make the call, and `meanwhile` before each of its steps, on the same thread. Returns the number of steps."""
    return _stepped(call, lambda step: meanwhile())


def at_each_step(attempt: Callable[[], tuple[Callable[[], object], Callable[[], object]]]) -> int:
    """Attempt it repeatedly: make the call, and `meanwhile` once, before one step after the other. Returns the number of attempts."""
    for number in count():
        call, meanwhile = attempt()
        if _stepped(call, lambda step, at=number, do=meanwhile: do() if step == at else None) <= number:  # type: ignore[misc]
            return number
    raise AssertionError("count() has no end")


def _stepped(call: Callable[[], object], at: Callable[[int], object]) -> int:
    steps = 0
    busy = False

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal steps, busy
        if busy or not str(frame.f_globals.get("__name__")).startswith(OURS):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            busy = True
            try:
                at(steps)
            finally:
                busy = False
            steps += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return steps
