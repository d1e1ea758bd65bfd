"""Timers of the core, in order of their deadline and then of their arrival.

It reads no clock and does not wait. `run_due(now)` runs the due timers, and `next_deadline()` returns the time for the next call.
Housekeeping has no deadline there: it runs with the first call after its time. A busy cluster calls `housekeeping_is_due`. A server on a
real clock also wakes up for `next_housekeeping()`, because in an idle cluster nothing else happens.
"""

import heapq
from collections.abc import Callable
from itertools import count
from typing import Final


class Timer:
    """A call at a deadline. A cancelled timer is skipped."""

    __slots__ = ("_run", "deadline_ms")

    def __init__(self, deadline_ms: int, run: Callable[[], None]) -> None:
        self.deadline_ms = deadline_ms
        self._run: Callable[[], None] | None = run

    @property
    def live(self) -> bool:
        return self._run is not None

    def cancel(self) -> None:
        self._run = None

    def fire(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run()


FEW: Final = 1_000
"""So many timers are not looked at before they are due."""


class Timers:
    """A heap of timers. A cancelled timer is removed at the top of the heap, or when cancelled timers may be half of the heap. Without the
    second case they would stay under a clock that does not move."""

    __slots__ = ("_heap", "_housekeeping", "_order", "_ran_at_ms", "_rested", "_restless", "_swept_at", "_unfinished")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._housekeeping: dict[Callable[[], object], tuple[int, int]] = {}
        self._order = count()
        self._ran_at_ms = -1
        self._rested: set[Callable[[], object]] = set()  # ran since the last work
        self._restless: set[Callable[[], object]] = set()
        self._unfinished: set[Callable[[], object]] = set()
        self._swept_at = FEW

    def every(self, interval_ms: int, run: Callable[[], object], *, first_ms: int, restless: bool = False) -> None:
        """Runs housekeeping at that time and then at this interval, if something else was done since it ran. `restless`: it depends on the
        time, so it runs also if nothing was done. With the interval 0 it runs at each call, and is waited for only while it finds something
        to do. A result that is true says that it did something."""
        self._housekeeping[run] = first_ms, interval_ms
        if restless:
            self._restless.add(run)

    def worked(self) -> None:
        """Notes that something else was done: each housekeeping may have something to do again."""
        self._rested.clear()

    def next_housekeeping(self) -> int | None:
        """When to look next for housekeeping that may have something to do. None: there is none."""
        waiting = (
            due_ms
            for run, (due_ms, interval_ms) in self._housekeeping.items()
            if (not self._is_at_rest(run) if interval_ms else run in self._unfinished)
        )
        due_ms = min(waiting, default=None)
        return None if due_ms is None else max(due_ms, self._ran_at_ms + 1)

    def at(self, deadline_ms: int, run: Callable[[], None]) -> Timer:
        if len(self._heap) >= self._swept_at:
            self._sweep()
        timer = Timer(deadline_ms, run)
        heapq.heappush(self._heap, (deadline_ms, next(self._order), timer))
        return timer

    def next_deadline(self) -> int | None:
        self._drop_cancelled()
        return self._heap[0][0] if self._heap else None

    def housekeeping_is_due(self, now_ms: int) -> bool:
        """Whether to call `run_due` for its sake, after something else was done. At most once in a millisecond."""
        return now_ms > self._ran_at_ms and any(due_ms <= now_ms for due_ms, _ in self._housekeeping.values())

    def run_due(self, now_ms: int) -> int:
        """Runs everything that is due, also what that work adds for now. Returns how many timers ran."""
        ran, self._ran_at_ms = 0, now_ms
        for run, (due_ms, interval_ms) in self._housekeeping.items():
            if due_ms <= now_ms and not (interval_ms and self._is_at_rest(run)):
                self._housekeeping[run] = now_ms + interval_ms, interval_ms
                self._rested.add(run)
                self._unfinished.discard(run)
                if run():
                    self._unfinished.add(run)
                    self.worked()
        while self._heap and self._heap[0][0] <= now_ms:
            timer = heapq.heappop(self._heap)[2]
            ran += timer.live
            timer.fire()
        if ran:
            self.worked()
        return ran

    def _is_at_rest(self, run: Callable[[], object]) -> bool:
        """Whether nothing was done since it ran."""
        return run in self._rested and run not in self._restless

    def _sweep(self) -> None:
        self._heap = [each for each in self._heap if each[2].live]
        heapq.heapify(self._heap)
        self._swept_at = max(FEW, 2 * len(self._heap))

    def _drop_cancelled(self) -> None:
        while self._heap and not self._heap[0][2].live:
            heapq.heappop(self._heap)
