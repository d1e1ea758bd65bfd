"""The wait for another thread of this process, which has a deadline and some turns after it.

If the whole process stands still, as on a machine that others use, the deadline may pass while the other thread could not run either. So
the turns are counted, and not timed: a standstill takes one of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

TURN_S: Final = 0.1
"""Within this time a thread gets its turn on a busy machine."""


def in_turns(wait: Callable[[float], bool], deadline: float, *, turns: int = 2, longest_s: float = TURN_S) -> bool:
    """Repeat the wait until it returns True. False after the deadline (`time.monotonic`) and so many turns. `wait`: waits for at most so
    many seconds, `longest_s` before the deadline and TURN_S after it."""
    while not wait(max(TURN_S, min(longest_s, deadline - time.monotonic()))):
        if time.monotonic() >= deadline:
            if not turns:
                return False
            turns -= 1
    return True
