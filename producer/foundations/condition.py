"""A condition that survives Ctrl-C at any point: threads wait until it is notified, each with a lock of its own.

threading.Condition and threading.Event take a shared lock in Python code. A signal handler can raise while that lock is held, and then
no thread gets it again, not even the sender thread. This condition has no shared lock, so a signal handler or a finalizer may notify or
wait in the middle of either call.

Any thread may notify, also without the GIL. So a notification is an object and not a number, which two threads could count at once. The
waiting locks are in a list, because Python copies a list in one step, and a deque only while no thread changes it.
"""

from __future__ import annotations

import threading
import time


class Condition:
    """See the module. `notified`: the newest notification, None before the first."""

    def __init__(self) -> None:
        self.notified: object | None = None
        self._waiting: list[threading.Lock] = []

    def notify_all(self) -> None:
        """Let every waiting thread continue. A call that Ctrl-C interrupted can be repeated: each thread removes its own lock."""
        self.notified = object()
        for held in self._waiting.copy():
            try:
                held.release()
            except RuntimeError:
                continue  # Another call released it, and its thread has not removed it yet.

    def wait(self, notified: object | None, deadline: float) -> bool:
        """Wait until there is another notification than `notified`. False if the deadline (`time.monotonic`) passes first."""
        held = threading.Lock()
        held.acquire()
        self._waiting.append(held)
        try:
            self._acquire(held, notified, deadline)
        finally:
            self._waiting.remove(held)
        return self.notified is not notified

    def _acquire(self, held: threading.Lock, notified: object | None, deadline: float) -> None:
        """Repeatedly: a notification that the caller has seen already may release this lock late."""
        while self.notified is notified and held.acquire(timeout=max(0.0, deadline - time.monotonic())):
            pass
