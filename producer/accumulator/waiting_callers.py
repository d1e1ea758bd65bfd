"""The line of callers that wait for room in the buffer: whoever came first is served first, as Kafka's BufferPool does it.

Whoever is first keeps what is given back until it is enough for him; others get what is left beyond that, also those that never waited
(`Accumulator.begin_turn`). So a large record does not starve behind small ones, and nobody stands in line who finds room.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from fencepost.producer.accumulator.accumulator import Accumulator
from fencepost.producer.foundations.condition import Condition

T = TypeVar("T")


class Place:
    """One caller's. `thread`: whose it is."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.condition = Condition()


class WaitingCallers:
    """See the module."""

    def __init__(self, accumulator: Accumulator) -> None:
        self._accumulator = accumulator
        self._counting = threading.RLock()  # A signal's handler may wait, too, in the middle of it.
        self._places: list[Place] = []

    def move(self) -> None:
        """Bytes were given back, or another is the first now."""
        for first in self._places[:1]:
            first.condition.notify_all()

    def wait(self, attempt: Callable[[], T | None], deadline: float, wake: Callable[[], object]) -> T | None:
        """Make the attempt when it is the caller's turn and there may be room, until it succeeds; None when the time passed first."""
        place = Place()
        try:
            with self._counting:
                self._places.insert(self._end(place), place)
                self._accumulator.waiting = len(self._places)
            wake()
            result = self._stand(place, attempt, deadline)
            self._leave(place)
        except BaseException:
            self._leave(place)  # Also where Ctrl-C struck on the way there.
            raise
        return result

    def _stand(self, place: Place, attempt: Callable[[], T | None], deadline: float) -> T | None:
        while True:
            notified = place.condition.notified  # What is given back from here on is told of once more.
            if self._places[0] is place:
                self._accumulator.begin_turn()
                result = attempt()
                if result is not None:
                    return result
            if not place.condition.wait(notified, deadline):
                return None

    def _end(self, place: Place) -> int:
        """Where it begins to wait: behind all others, but before its own thread's, which it has interrupted and which goes on after it."""
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
