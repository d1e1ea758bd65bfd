"""Waiting for something that another thread or a broker does: polling with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_S = 0.01


def await_that(what: str, true: Callable[[], bool], *, timeout_s: float = 60.0) -> None:
    """Polls until it is true. Raises TimeoutError with `what` when the time passed first."""
    deadline = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {what} within {timeout_s:g} s")
        time.sleep(POLL_S)
