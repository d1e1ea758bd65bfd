"""Which lanes must be looked at now, and when the next one must: so that an event costs what it changed, not what is going on elsewhere.

A lane is looked at when something happened to it, when its turn comes (lingering or a backoff ends), and along with all others when the
cluster changed or the earliest delivery deadline is reached. It decides nothing about a lane.
"""

from __future__ import annotations

import heapq
from itertools import count

from producer.core.events import NEVER
from producer.core.lane import Lane


class Agenda:
    """See the module. `active`: lanes with something to send, resolve or publish, by topic and partition."""

    def __init__(self) -> None:
        self.active: dict[tuple[str, int], Lane] = {}
        self._due: dict[Lane, None] = {}
        self._everything = False
        self._turns: list[tuple[float, int, Lane]] = []
        self._order = count()
        # Deadlines are not in the heap: nearly all are settled long before, and would pile up there. Later batches have later ones, so
        # the earliest of all that were ever seen is never too late.
        self._deadline_ms = NEVER

    def add(self, lane: Lane) -> None:
        """There is something in the lane now."""
        self.active[lane.topic, lane.partition] = lane
        self.mark(lane)

    def mark(self, lane: Lane) -> None:
        """Something happened to the lane."""
        self._due[lane] = None

    def stir(self) -> None:
        """Something happened that may concern every lane."""
        self._everything = True

    def drop(self, lane: Lane) -> None:
        """There is nothing in the lane any more."""
        del self.active[lane.topic, lane.partition]

    def take(self, now_ms: float) -> list[Lane]:
        """The lanes to look at now, each once."""
        while self._turns and self._turns[0][0] <= now_ms:
            at_ms, _, lane = heapq.heappop(self._turns)
            if lane.turn_ms == at_ms:
                lane.turn_ms = NEVER
                self.mark(lane)
        if self._everything or now_ms >= self._deadline_ms:
            self._everything = False
            self._deadline_ms = NEVER
            lanes = list(self.active.values())
        else:
            lanes = [lane for lane in self._due if (lane.topic, lane.partition) in self.active]
        self._due.clear()
        return lanes

    def plan(self, lane: Lane, now_ms: float) -> None:
        """Note when the lane must be looked at again if nothing happens to it."""
        self._deadline_ms = min(self._deadline_ms, lane.deadline(now_ms))
        turn_ms = lane.turn(now_ms)
        if turn_ms < lane.turn_ms:
            lane.turn_ms = turn_ms
            heapq.heappush(self._turns, (turn_ms, next(self._order), lane))

    def next_ms(self) -> float:
        """When to take again at the latest."""
        return min(self._deadline_ms, self._turns[0][0] if self._turns else NEVER)
