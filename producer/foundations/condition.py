"""A condition that survives Ctrl-C at any point: threads wait until it is notified, each with a lock of its own.

threading.Condition and threading.Event take a shared lock in Python code. A signal handler can raise while that lock is held, and then
no thread gets it again, not even the sender thread. This condition has no shared lock, so a signal handler or a finalizer may notify or
wait in the middle of either call.
"""

from __future__ import annotations

import threading
import time
from collections import deque


class Condition:
    """See the module. `notified`: how many times it was notified."""

    def __init__(self) -> None:
        self.notified = 0
        self._waiting: deque[threading.Lock] = deque()

    def notify_all(self) -> None:
        """Let every waiting thread continue. A call that Ctrl-C interrupted can be repeated: each thread removes its own lock."""
        self.notified += 1
        for held in list(self._waiting):
            try:
                held.release()
            except RuntimeError:
                continue  # An earlier call released it, and its thread has not removed it yet.

    def wait(self, notified: int, deadline: float) -> bool:
        """Wait until it was notified more than `notified` times. False if the deadline (`time.monotonic`) passes first."""
        held = threading.Lock()
        held.acquire()
        self._waiting.append(held)
        try:
            if self.notified <= notified:
                held.acquire(timeout=max(0.0, deadline - time.monotonic()))
        finally:
            self._waiting.remove(held)
        return self.notified > notified
