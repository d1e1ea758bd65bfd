"""Many runs, and the rows of the tables that they reached.

`make test-all` takes the same 4000 runs of each level each time, so that a change does not fail by chance, and `make test` an
eighth of them. FENCEPOST_WALKS sets another number of runs, as `make walk` does, and FENCEPOST_SEED replays one.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Final, NamedTuple

from tests.drawn import ALL, SEED
from tests.marker_rows import markers_counted
from tests.txn_walk.kinds import kind_of
from tests.txn_walk.rows import missing
from tests.txn_walk.summary import WALKED, record
from tests.txn_walk.walk import Walk

PURE: Final = os.environ.get("FENCEPOST_EXPECT") == "pure"
RUNS: Final = 500 if PURE else 4_000
"""Runs for each level. The pure run takes few, because coordinators are never compiled."""
PART: Final = 500

ENOUGH: Final = 5_000
"""So many runs reach every row."""


class Came(NamedTuple):
    """The first seed, the number of runs, and the rows that they reached."""

    first: int
    runs: int
    rows: Counter[str]


def seeds() -> range:
    """The seeds of this test run."""
    given, wanted = os.environ.get("FENCEPOST_SEED"), os.environ.get("FENCEPOST_WALKS")
    if given is not None:
        return range(int(given), int(given) + 1)
    if wanted is None:
        stories = os.environ[SEED]
        if PURE or stories == ALL:
            return range(RUNS)
        first = PART * random.Random(stories).randrange(RUNS // PART)
        return range(first, first + PART)
    first = random.SystemRandom().randrange(10**9)
    return range(first, first + int(wanted))


def walk(level: str, runs: range) -> Came:
    """Run them all. The error of the first failed run says how to repeat it."""
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
    """Consumers with `read_committed` read the committed records, once and in order, and of each transaction all or nothing.

    This holds for all faults of producers, coordinators, leaders, requests and responses. No producer waits forever, and no identity is
    assigned twice. Enough runs reach every row of the tables that decide.
    """
    came = walk(level, seeds())
    record(record_property, level, came)
    if came.runs >= ENOUGH:
        assert missing(level, came.rows) == []
