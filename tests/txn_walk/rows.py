"""The rows of Kafka's tables that random runs reached, and those that they need not reach.

I, A, E and F are the transaction coordinator's rows, M is for markers in a partition. The code that decides by a row explains it.
"""

from __future__ import annotations

from collections import Counter
from typing import Final


def _named(letter: str, *numbers: int) -> tuple[str, ...]:
    return tuple(f"{letter}{number}" for number in numbers)


FOR_ALL: Final = (*_named("I", *range(1, 10)), *_named("A", *range(1, 7)), *_named("M", 6, 7, 8))
ROWS: Final = {
    "TV1": (*FOR_ALL, *_named("E", *range(1, 8)), "M5"),
    "TV2": (*FOR_ALL, *_named("F", *range(1, 9)), *_named("M", 1, 2, 3, 4)),
}
"""Those that decide about producers of either level."""

UNREACHED: Final = {
    "I3": "while markers are written something is pending, and I1 answers first",
    "E6": "while markers are written something is pending, and E3 answers first",
    "F5": "while markers are written something is pending, and F1 answers first",
}
"""Rows that no run comes by, and why. All others are to be hit."""


def missing(level: str, rows: Counter[str]) -> list[str]:
    """The errors in these counts: rows that no run reached, and reached rows that are listed as unreachable."""
    never = [f"{row} was never hit" for row in ROWS[level] if not rows[row] and row not in UNREACHED]
    return never + [f"{row} was hit, though {why}" for row, why in UNREACHED.items() if rows[row]]
