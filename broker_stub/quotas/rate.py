"""A rate, by Kafka's arithmetic: the sum over the last windows, divided by their length. It reads no clock.

A new rate counts as if all windows but one had passed without anything.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import floor
from typing import Final

FOREVER_MS: Final = (1 << 63) - 1
"""The largest `long` of Java, in milliseconds: the wait for a bound close to 0."""


@dataclass
class _Window:
    total: float
    begun_ms: int
    last_ms: int


class Rate:
    """Counts the last `windows` of `window_ms` each, and the current one."""

    def __init__(self, *, windows: int, window_ms: int) -> None:
        self._windows = windows
        self._window_ms = window_ms
        self.recorded_ms = 0
        self._kept: deque[_Window] = deque(maxlen=windows + 1)

    def record(self, value: float, now_ms: int) -> None:
        if not self._kept or now_ms - self._kept[-1].begun_ms >= self._window_ms:
            self._kept.append(_Window(0.0, now_ms, now_ms))
        self.recorded_ms = now_ms
        window = self._kept[-1]
        window.total += value
        window.last_ms = now_ms

    def per_second(self, now_ms: int) -> float:
        elapsed_ms = self.elapsed_ms(now_ms)
        return sum(window.total for window in self._kept) / (elapsed_ms / 1000)

    def elapsed_ms(self, now_ms: int) -> int:
        """The time that the counted windows span."""
        self._forget(now_ms)
        elapsed_ms = now_ms - min((window.begun_ms for window in self._kept), default=now_ms)
        missing = self._windows - 1 - elapsed_ms // self._window_ms
        return max(elapsed_ms + max(missing, 0) * self._window_ms, 1)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """The time until the rate is down at the bound. 0 if it is already, or if the bound is no number."""
        rate = self.per_second(now_ms)
        if not rate > bound:
            return 0
        needed_ms = (rate - bound) / bound * self.elapsed_ms(now_ms)
        return floor(needed_ms + 0.5) if needed_ms < FOREVER_MS else FOREVER_MS

    def _forget(self, now_ms: int) -> None:
        """Resets the windows that are too old. As in Kafka they stay, and begin now."""
        for window in self._kept:
            if now_ms - window.last_ms >= self._windows * self._window_ms:
                window.total, window.begun_ms, window.last_ms = 0.0, now_ms, now_ms
