"""How often a fault rule fires: the schedule, and the methods of rules and faults that set it.

It counts matching calls. It does not know what matches.
"""

import random
import threading
from typing import Any, Self

from fencepost.broker_stub.arguments import check_arguments


class Schedule:
    """Which of the matching calls fire. Exactly one of its settings is in force."""

    __slots__ = ("call", "chance", "fired", "limit", "rng", "seed", "seen")

    def __init__(self) -> None:
        self.limit: int | None = 1
        self.call = 0
        self.chance = 0.0
        self.rng: random.Random | None = None
        self.seed = 0
        self.seen = 0
        self.fired = 0

    def fires(self) -> bool:
        self.seen += 1
        if self.rng is not None:
            fires = self.rng.random() < self.chance
        elif self.call:
            fires = self.seen == self.call
        else:
            fires = self.limit is None or self.fired < self.limit
        self.fired += fires
        return fires

    def set(self, *, limit: int | None = None, call: int = 0, chance: float | None = None, seed: int = 0) -> None:
        self.limit, self.call, self.chance, self.seed = limit, call, chance or 0.0, seed
        self.rng = None if chance is None else random.Random(seed)

    def as_data(self) -> dict[str, Any]:
        """The setting in force, by the name of its method."""
        if self.rng is not None:
            return {"probability": self.chance, "seed": self.seed}
        if self.call:
            return {"on_call": self.call}
        return {"forever": True} if self.limit is None else {"times": self.limit}


class Scheduled:
    """How often a rule fires. Call one of these before the action where traffic already runs, or after it. The last one counts."""

    _schedule: Schedule
    _lock: threading.RLock

    def times(self, n: int) -> Self:
        """Fires on the first n matching calls."""
        check_arguments(times=n)
        with self._lock:
            self._schedule.set(limit=n)
        return self

    def forever(self) -> Self:
        """Fires on every matching call."""
        with self._lock:
            self._schedule.set()
        return self

    def on_call(self, n: int) -> Self:
        """Fires only on the nth matching call, counted from 1."""
        check_arguments(on_call=n)
        with self._lock:
            self._schedule.set(call=n)
        return self

    def probability(self, p: float, seed: int) -> Self:
        """Fires on each matching call with probability p, drawn from its own generator; 0 never does, for programs that take the rate as an
        argument."""
        check_arguments(probability=p, seed=seed)
        with self._lock:
            self._schedule.set(chance=p, seed=seed)
        return self
