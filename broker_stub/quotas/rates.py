"""A rate, by Kafka's arithmetic: the sum over the last windows, divided by their length. It reads no clock.

A new rate counts as if all windows but one had passed without anything.
"""

from __future__ import annotations

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
        self._ring: list[_Window] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        if not self._ring:
            self._ring.append(_Window(0.0, now_ms, now_ms))
        window = self._ring[self._current]
        if now_ms - window.begun_ms >= self._window_ms:
            window = self._next(now_ms)
        window.total += value
        window.last_ms = now_ms

    def per_second(self, now_ms: int) -> float:
        elapsed_ms = self.elapsed_ms(now_ms)
        return sum(window.total for window in self._ring) / (elapsed_ms / 1000)

    def elapsed_ms(self, now_ms: int) -> int:
        """The time that the counted windows span."""
        self._forget(now_ms)
        elapsed_ms = now_ms - min((window.begun_ms for window in self._ring), default=now_ms)
        missing = self._windows - 1 - elapsed_ms // self._window_ms
        return max(elapsed_ms + max(missing, 0) * self._window_ms, 1)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """The time until the rate is down at the bound. 0 if it is already, or if the bound is no number."""
        rate = self.per_second(now_ms)
        if not rate > bound:
            return 0
        needed_ms = (rate - bound) / bound * self.elapsed_ms(now_ms)
        return floor(needed_ms + 0.5) if needed_ms < FOREVER_MS else FOREVER_MS

    def _next(self, now_ms: int) -> _Window:
        self._current = (self._current + 1) % (self._windows + 1)
        fresh = _Window(0.0, now_ms, now_ms)
        if self._current >= len(self._ring):
            self._ring.append(fresh)
        else:
            self._ring[self._current] = fresh
        return fresh

    def _forget(self, now_ms: int) -> None:
        """Resets the windows that are too old."""
        for index, window in enumerate(self._ring):
            if now_ms - window.last_ms >= self._windows * self._window_ms:
                self._ring[index] = _Window(0.0, now_ms, now_ms)
