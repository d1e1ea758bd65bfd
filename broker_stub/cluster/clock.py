"""The clock of a cluster: real, or virtual and advanced by the tester.

One clock serves record timestamps and deadlines. It never runs backwards. A virtual clock never advances by itself. Nothing here sleeps:
the owner of a loop asks how long to wait.
"""

import time
from collections.abc import Callable
from typing import Final, Protocol

from fencepost.broker_stub.arguments import LONG_MAX, check_arguments
from fencepost.producer.foundations.rlock import RLock

LATEST_MS: Final = LONG_MAX
"""The latest timestamp that a record can have."""


class Clock(Protocol):
    """What the cluster and the server need of a clock."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def delay_s(self, deadline_ms: int) -> float | None:
        """Real seconds until the deadline. None: only `advance` reaches it."""
        ...

    def watch(self, moved: Callable[[], None]) -> Callable[[], None]:
        """Calls `moved` after every jump of the clock, in the thread that made it. Calling the result ends that."""
        ...


class RealClock:
    """Wall time at the start, monotonic from then on: a change of the system clock moves no deadline."""

    __slots__ = ("_offset_s",)

    def __init__(self) -> None:
        self._offset_s = time.time() - time.monotonic()

    def __repr__(self) -> str:
        return "RealClock()"

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return int((time.monotonic() + self._offset_s) * 1000)

    def delay_s(self, deadline_ms: int) -> float | None:
        """How many seconds from now the deadline is; 0 if it has passed."""
        return max(0.0, deadline_ms / 1000 - self._offset_s - time.monotonic())

    def watch(self, moved: Callable[[], None]) -> Callable[[], None]:
        """A real clock never jumps, so `moved` is never called."""
        return _nothing


class VirtualClock:
    """Stands still until `advance`; any thread may advance it.

    It begins at the wall clock's time by default, because brokers refuse records whose timestamp is more than
    `message.timestamp.after.max.ms`, an hour, ahead of the clock.
    """

    def __init__(self, start_ms: int | None = None) -> None:
        if start_ms is not None:
            check_arguments(start_ms=start_ms)
        self._now_ms = int(time.time() * 1000) if start_ms is None else start_ms
        self._lock = RLock()
        self._watchers: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"VirtualClock({self._now_ms})"

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self._now_ms

    def delay_s(self, deadline_ms: int) -> float | None:
        """0 for a deadline that has come. None: only `advance` reaches it."""
        return 0.0 if deadline_ms <= self._now_ms else None

    def watch(self, moved: Callable[[], None]) -> Callable[[], None]:
        """Calls `moved` after every `advance`, in its thread. Calling the result ends that."""
        with self._lock:
            self._watchers.append(moved)
        return lambda: self._unwatch(moved)

    def advance(self, ms: int) -> int:
        """Moves time forward and calls the watchers. ValueError for a negative time. Returns the new time."""
        check_arguments(ms=ms)
        if ms < 0:
            raise ValueError(f"advance({ms}): a clock never runs backwards")
        with self._lock:
            if self._now_ms + ms > LATEST_MS:
                raise ValueError(f"advance({ms}): the latest time of a record is {LATEST_MS}")
            self._now_ms += ms
            now_ms, watchers = self._now_ms, tuple(self._watchers)
        for moved in watchers:
            moved()
        return now_ms

    def _unwatch(self, moved: Callable[[], None]) -> None:
        with self._lock:
            if moved in self._watchers:
                self._watchers.remove(moved)


def _nothing() -> None:
    """Ends nothing, because a real clock never jumps."""
