"""A clock for a stub and for a writer's deadline. It runs in real time, and a test can put it forward."""

from __future__ import annotations

import threading
import time

from fencepost.broker_stub import VirtualClock


class SkippingClock(VirtualClock):
    """See the module docstring. `monotonic` replaces `time.monotonic` for a deadline, and skips together with the clock."""

    def __init__(self) -> None:
        super().__init__()
        self._began_s = time.monotonic()
        self._real_ms = self._now_ms
        self._skipped_s = 0.0
        self._guard = threading.Lock()

    def monotonic(self) -> float:
        return time.monotonic() + self._skipped_s

    def now_ms(self) -> int:
        return self._real_ms + int((self.monotonic() - self._began_s) * 1000)

    def delay_s(self, deadline_ms: int) -> float | None:
        return max(0.0, (deadline_ms - self.now_ms()) / 1000)

    def advance(self, ms: int) -> int:
        with self._guard:
            self._skipped_s += ms / 1000
        return super().advance(0) and self.now_ms()
