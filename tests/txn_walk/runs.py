"""Many runs, and the rows of the tables that they reached.

CI takes the same runs each time, so that a change does not fail by chance. FENCEPOST_WALKS asks for so many others, as `make walk` does,
and FENCEPOST_SEED replays one.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Final, NamedTuple

from tests.marker_rows import markers_counted
from tests.txn_walk.kinds import kind_of
from tests.txn_walk.rows import missing
from tests.txn_walk.summary import WALKED, record
from tests.txn_walk.walk import Walk

PURE: Final = os.environ.get("FENCEPOST_EXPECT") == "pure"
RUNS: Final = 500 if PURE else 10_000
"""Of each level. The pure run takes a sample: what is compiled is no coordinator, and the compiled run has them all."""

ENOUGH: Final = 5_000
"""So many come by every row."""


class Came(NamedTuple):
    """From which seed on how many runs there were, and which rows they came by."""

    first: int
    runs: int
    rows: Counter[str]


def seeds() -> range:
    """Those of this time."""
    given, wanted = os.environ.get("FENCEPOST_SEED"), os.environ.get("FENCEPOST_WALKS")
    if given is not None:
        return range(int(given), int(given) + 1)
    if wanted is None:
        return range(RUNS)
    first = random.SystemRandom().randrange(10**9)
    return range(first, first + int(wanted))


def walk(level: str, runs: range) -> Came:
    """Runs them all; the first that fails says how it can be had again."""
    rows: Counter[str] = Counter()
    with markers_counted(rows):
        for seed in runs:
            try:
                Walk(seed, kind_of(level, seed), rows).run()
            except Exception as error:
                error.add_note(f"FENCEPOST_SEED={seed} replays it ({level})")
                raise
    return Came(runs.start, len(runs), rows)


def check(level: str, record_property: WALKED) -> None:
    """Readers of committed records find what was committed, once and in order, and of each transaction all or nothing.

    This holds for all faults of producers, coordinators, leaders, requests and responses. No producer waits forever, and no identity is
    given twice. Enough runs reach every row of the tables that decide.
    """
    came = walk(level, seeds())
    record(record_property, level, came)
    if came.runs >= ENOUGH:
        assert missing(level, came.rows) == []
