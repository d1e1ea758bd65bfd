"""The callers that wait for room in the buffer, served first come, first served, as by Kafka's BufferPool.

Bytes that are given back are reserved for the first caller until it has enough. The others get the rest, also callers that never waited
(`Accumulator.begin_turn`). So a large record does not starve behind small ones, and a caller that finds room does not wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from fencepost.producer.accumulator.accumulator import Accumulator
from fencepost.producer.foundations.condition import Condition
from fencepost.producer.foundations.rlock import RLock

T = TypeVar("T")


class Place:
    """One caller's place in the line. `thread`: the caller's."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.condition = Condition()


class WaitingCallers:
    """See the module."""

    def __init__(self, accumulator: Accumulator) -> None:
        self._accumulator = accumulator
        self._counting = RLock()  # A signal handler may interrupt the thread that holds it, and wait too.
        self._places: list[Place] = []

    def move(self) -> None:
        """Wake the first caller: bytes were given back, or it has just become the first."""
        for first in self._places[:1]:
            first.condition.notify_all()

    def wait(self, attempt: Callable[[], T | None], deadline: float, wake: Callable[[], object]) -> T | None:
        """Make the attempt whenever it is the caller's turn and there may be room, until it succeeds. None if the time passed first."""
        place = Place()
        try:
            with self._counting:
                self._places.insert(self._end(place), place)
                self._accumulator.waiting = len(self._places)
                self._accumulator.newest_hurry = place
            wake()
            result = self._stand(place, attempt, deadline)
            self._leave(place)
        except BaseException:
            self._leave(place)  # Ctrl-C may have struck before the other call.
            raise
        return result

    def _stand(self, place: Place, attempt: Callable[[], T | None], deadline: float) -> T | None:
        while True:
            notified = place.condition.notified  # Bytes that are given back from here on notify again.
            if self._places[0] is place:
                self._accumulator.begin_turn()
                result = attempt()
                if result is not None:
                    return result
            if not place.condition.wait(notified, deadline):
                return None

    def _end(self, place: Place) -> int:
        """Where a new place goes: behind all others, but before those of its own thread. It has interrupted these, and they go on after
        it."""
        own = (number for number, other in enumerate(self._places) if other.thread == place.thread)
        return next(own, len(self._places))

    def _leave(self, place: Place) -> None:
        with self._counting:
            if place in self._places:
                if self._places[0] is place:
                    self._accumulator.end_turn()
                self._places.remove(place)
            self._accumulator.waiting = len(self._places)
        self.move()
