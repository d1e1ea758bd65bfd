"""A bell: threads wait until it rings, each at a lock of its own.

It does what threading.Condition and threading.Event do, for callers whom Ctrl-C may strike at any point: those two take their lock in
functions written in Python, where a signal's handler can raise with the lock taken. Nobody would ever get it again, the sender included.
A handler, or a finalizer, may also ring or wait here, in the middle of either: there is no lock that it could wait for.
"""

from __future__ import annotations

import threading
import time
from collections import deque


class Bell:
    """See the module. `rung`: how often it has."""

    def __init__(self) -> None:
        self.rung = 0
        self._waiting: deque[threading.Lock] = deque()

    def ring(self) -> None:
        """Let go of all who wait. Struck by Ctrl-C, it can be rung once more: nobody is taken off before he has left."""
        self.rung += 1
        for held in list(self._waiting):
            try:
                held.release()
            except RuntimeError:
                continue  # He has been let go of, and has not left yet.

    def wait(self, rung: int, deadline: float) -> bool:
        """Wait until it has rung more than so often; False when the (monotonic) deadline passed first."""
        held = threading.Lock()
        held.acquire()
        self._waiting.append(held)
        try:
            if self.rung <= rung:
                held.acquire(timeout=max(0.0, deadline - time.monotonic()))
        finally:
            self._waiting.remove(held)
        return self.rung > rung
