"""Runs one row by hand: `python -m tests.txn.spark.chaos.run SITE ROW [GUARD] [SEED]`, for example `kafka2 executors off 7`."""

from __future__ import annotations

import random
import sys
from contextlib import AbstractContextManager

from tests.txn.spark.chaos.campaign import Report
from tests.txn.spark.chaos.plan import POINTS
from tests.txn.spark.chaos.scenarios import driver_kills, executor_kills, lost_replies, python_failures, random_kills
from tests.txn.spark.chaos.site import Site, kafka_site, stub_site


def sites(name: str) -> AbstractContextManager[Site]:
    """stub1, stub2, kafka1 and kafka2: the broker and its transaction version."""
    return (stub_site if name.startswith("stub") else kafka_site)(int(name[-1]))


def play(site: Site, row: str, guard: str, seed: int) -> Report:
    """Run one row."""
    match row:
        case "points":
            return driver_kills(site, POINTS, guard=guard, seed=seed)
        case "random":
            return random_kills(site, 4, guard=guard, seed=seed)
        case "replies":
            return lost_replies(site, guard=guard, seed=seed)
        case "raise":
            return python_failures(site, guard=guard, seed=seed)
        case "executors":
            return executor_kills(site, guard=guard, seed=seed, kill_chance=0.03)
    raise ValueError(f"{row!r}: points, random, replies, raise or executors")


if __name__ == "__main__":
    place, what, *more = sys.argv[1:]
    with sites(place) as found:
        play(found, what, more[0] if more else "turns", int(more[1]) if len(more) > 1 else random.SystemRandom().randrange(10**6))
