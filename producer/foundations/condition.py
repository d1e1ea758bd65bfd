"""A condition: threads wait until it is notified, each at a lock of its own.

It does what threading.Condition and threading.Event do, and it survives Ctrl-C at any point. Those two take their lock in functions
written in Python: a signal handler can raise while the lock is taken, and then no thread gets it again, the sender included. This one has
no shared lock, so a signal handler or a finalizer may notify or wait in the middle of either call.
"""

from __future__ import annotations

import threading
import time
from collections import deque


class Condition:
    """See the module. `notified`: how often it was notified."""

    def __init__(self) -> None:
        self.notified = 0
        self._waiting: deque[threading.Lock] = deque()

    def notify_all(self) -> None:
        """Let every waiting thread go on. A call that Ctrl-C struck can be made again: each thread takes its own lock off the list."""
        self.notified += 1
        for held in list(self._waiting):
            try:
                held.release()
            except RuntimeError:
                continue  # It was released before, and its thread has not left yet.

    def wait(self, notified: int, deadline: float) -> bool:
        """Wait until it was notified more than `notified` times; False when the (monotonic) deadline passed first."""
        held = threading.Lock()
        held.acquire()
        self._waiting.append(held)
        try:
            if self.notified <= notified:
                held.acquire(timeout=max(0.0, deadline - time.monotonic()))
        finally:
            self._waiting.remove(held)
        return self.notified > notified
