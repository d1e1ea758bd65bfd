"""What a program hears in `poll`: delivery reports and events, in the order in which they happened. A hot module.

The sender thread adds, the program's threads serve. Adding never waits. An exception that the program's callback raises leaves `serve`, and
the reports behind it stay for the next call.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Any, Final

from mypy_extensions import i64, mypyc_attr

WAIT_S: Final = 0.2
"""The longest wait without a look at the queue. A thread that just replaced the list of waiting ones may miss one that joined it."""


# Reports are not tracked by the cycle collector when compiled: a program whose messages wait for `poll` would pay for each of them again in
# collections that find nothing, a third of a call. `serve` and `end` cut the cycles through the queue and the program's callback. What is
# left is a producer that callbacks hold and the program drops without calling them: it stays, as with librdkafka.
@mypyc_attr(acyclic=True)
class Report:
    """One call of a program's callback that is due. `begun`: it is being made, or was."""

    begun: bool = False

    def serve(self) -> None:
        """Make the call. What it raises is raised."""
        raise NotImplementedError


@mypyc_attr(acyclic=True)
class Event(Report):
    """A callback of one argument: statistics, an error, a throttling."""

    def __init__(self, callback: Callable[[Any], object], argument: object) -> None:
        self._callback = callback
        self._argument = argument

    def serve(self) -> None:
        self.begun = True
        self._callback(self._argument)


class Reports:
    """See the module.

    `count`: at least the number of messages that wait for an outcome or for `poll`. Messages without a callback leave it only when it is
    counted anew. `watched`, `served`: how many messages had a callback, and for how many the call was made. `holding`: messages wait
    outside the producer (`held_messages`). `only_errors`: acknowledged messages are not reported. `purging`: what fails now was purged.

    The numbers are changed without a lock: while Python has its GIL, no other thread runs in the middle of an addition to an attribute.
    """

    def __init__(self, error_of: Callable[[Exception, bool], object], *, only_errors: bool = False) -> None:
        self.ready: deque[Report] = deque()
        self.count: i64 = 0
        self.watched: i64 = 0
        self.served: i64 = 0
        self.holding = False
        self.only_errors = only_errors
        self.purging = False
        self.error_of = error_of
        self._waiting: list[Lock] = []
        self._ended = False

    def add(self, report: Report) -> None:
        """A report is due. Any thread may call this."""
        if self._ended:
            return
        self.ready.append(report)
        if self._waiting:
            self.wake()

    def end(self) -> None:
        """The producer is gone: no call is made any more."""
        self._ended = True
        self.ready.clear()

    def wake(self) -> None:
        """Let `wait` return in every thread."""
        waiting, self._waiting = self._waiting, []
        for held in waiting:
            held.release()

    def serve(self) -> int:
        """Make the calls that are due now, not those that become due meanwhile. Returns their number."""
        ready = self.ready
        due: i64 = len(ready)
        served: i64 = 0
        while served < due and ready:
            # No calls here: uncompiled, Ctrl-C can strike at each, and the report would be lost.
            report = ready[0]
            del ready[0]
            try:
                report.serve()
            except BaseException:
                if not report.begun:
                    ready.appendleft(report)
                raise
            served += 1
        return int(served)

    def wait(self, timeout_s: float) -> bool:
        """Wait until a report is due, for up to so many seconds. Ctrl-C interrupts it. Returns whether one is due."""
        deadline = time.monotonic() + timeout_s
        while not self.ready:
            left = deadline - time.monotonic()
            if left <= 0.0:
                return False
            held = Lock()
            held.acquire()
            # It waits before it looks, so that no report that is added now is missed.
            self._waiting.append(held)
            try:
                if not self.ready:
                    held.acquire(timeout=min(left, WAIT_S))
            finally:
                if held in self._waiting:
                    self._waiting.remove(held)
        return True
