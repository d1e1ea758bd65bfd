"""How often a fault rule fires: the schedule, and the methods of rules and faults that set it.

It counts matching calls. It does not know what matches.
"""

import random
import threading
from typing import Any, Final, Self

INT_MAX: Final = (1 << 31) - 1
OFTEN_MAX: Final = 1 << 53
"""The largest count of a rule: JSON's readers take larger numbers for others."""


def whole(what: str, given: object, *, least: int, most: int = INT_MAX, must_be: str = "a whole number") -> int:
    """The number. Raises TypeError for anything but an int, and ValueError for one outside the limits."""
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"{what}({given!r}): {must_be}")
    if not least <= given <= most:
        raise ValueError(f"{what}({given}): from {least} to {most}")
    return given


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
    """How often a rule fires. Call these before the action where traffic already runs, or after it."""

    _schedule: Schedule
    _lock: threading.RLock

    def times(self, n: int) -> Self:
        """Fires on the first n matching calls."""
        limit = whole("times", n, least=1, most=OFTEN_MAX)
        with self._lock:
            self._schedule.set(limit=limit)
        return self

    def forever(self) -> Self:
        """Fires on every matching call."""
        with self._lock:
            self._schedule.set()
        return self

    def on_call(self, n: int) -> Self:
        """Fires only on the nth matching call, counted from 1."""
        call = whole("on_call", n, least=1, most=OFTEN_MAX)
        with self._lock:
            self._schedule.set(call=call)
        return self

    def probability(self, p: float, seed: int) -> Self:
        """Fires on each matching call with probability p, drawn from its own generator."""
        given: object = p
        if not isinstance(given, int | float) or isinstance(given, bool):
            raise TypeError(f"probability({p!r}): a number")
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"probability({p}): between 0 and 1")
        with self._lock:
            self._schedule.set(chance=p, seed=seed)
        return self
