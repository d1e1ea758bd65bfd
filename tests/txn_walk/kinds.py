"""The kinds of runs: clusters and clients before transaction version 2, and with it.

A client of version 1 may work on a cluster that has version 2 finalized, like a client that is older than its brokers. It may also work on
one of version 0, like Kafka 3.9.
"""

from __future__ import annotations

from typing import Final

from tests.txn_walk.speech import Speech
from tests.txn_walk.walk import Kind

NEW: Final = Speech(init=5, produce=12, end=5, offsets=5, bumps=True)
OLD: Final = Speech(init=4, produce=11, end=4, offsets=4, bumps=False)
OLDEST: Final = Speech(init=3, produce=9, end=1, offsets=2, bumps=False)

KINDS: Final = {
    "TV1": (*[Kind(1, OLD)] * 5, *[Kind(2, OLD)] * 2, Kind(0, OLDEST)),
    "TV2": (Kind(2, NEW),),
}


def kind_of(level: str, seed: int) -> Kind:
    kinds = KINDS[level]
    return kinds[seed % len(kinds)]
