"""A bell: threads wait until it rings, each at a lock of its own.

It does what threading.Condition and threading.Event do, for callers whom Ctrl-C may strike at any point: those two take their lock in
functions written in Python, where a signal's handler can raise with the lock taken. Nobody would ever get it again, the sender included.
"""

from __future__ import annotations

import threading
import time


class Bell:
    """See the module. `rung`: how often it has."""

    def __init__(self) -> None:
        self.rung = 0
        self._lock = threading.RLock()  # A handler may wait, too, instead of raising.
        self._waiting: list[threading.Lock] = []

    def ring(self) -> None:
        """Let go of all who wait."""
        with self._lock:
            self.rung += 1
            waiting, self._waiting = self._waiting, []
        for held in waiting:
            held.release()

    def wait(self, rung: int, deadline: float) -> bool:
        """Wait until it has rung more than so often; False when the (monotonic) deadline passed first."""
        held = threading.Lock()
        held.acquire()
        with self._lock:
            if self.rung > rung:
                return True
            self._waiting += [held]
        if not held.acquire(timeout=max(0.0, deadline - time.monotonic())):
            with self._lock:
                if held in self._waiting:
                    self._waiting.remove(held)
        return self.rung > rung
