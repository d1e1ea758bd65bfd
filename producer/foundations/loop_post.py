"""Calls that any thread passes to an event loop, which another thread may be closing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def post(loop: asyncio.AbstractEventLoop, run: Callable[..., object], *arguments: object) -> bool:
    """The loop calls `run` soon. False if the loop is closed: it calls nothing any more. To ask the loop first would not do, because its
    thread may close it after the answer."""
    try:
        loop.call_soon_threadsafe(run, *arguments)
    except RuntimeError:
        if not loop.is_closed():
            raise  # A signal handler's.
        return False
    return True
