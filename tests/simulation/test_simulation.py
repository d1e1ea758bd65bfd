"""The producer's core and the stub's cluster under random faults, on a virtual clock.

FENCEPOST_SEED replays one seed. FENCEPOST_RUNS sets how many seeds of each kind run. `make simulate` runs many.
"""

from __future__ import annotations

import os
import random
from itertools import pairwise

import pytest

from tests.drawn import ALL, SEED, drawn
from tests.once import once_is_enough
from tests.simulation.flavours import FLAVOURS, simulate
from tests.strike import MARKS

FIRST_SEED = int(os.environ.get("FENCEPOST_SEED", random.SystemRandom().randrange(10**6)))
RUNS = 1 if "FENCEPOST_SEED" in os.environ else int(os.environ.get("FENCEPOST_RUNS", "6" if os.environ[SEED] == ALL else "3"))

pytestmark = MARKS


@drawn(2)
@pytest.mark.timeout(600 if RUNS <= 20 else 36_000)
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_outcome_is_true_under_random_faults(flavour: str) -> None:
    """Acknowledged records are in the log once, at their offset. Records with NO are never there, those with YES always. The order holds.

    After the faults everything works again.
    """
    seen: dict[str, int] = {}
    for seed in range(FIRST_SEED, FIRST_SEED + RUNS):
        try:
            _, tally = simulate(seed, flavour)
        except AssertionError as error:
            pytest.fail(f"FENCEPOST_SEED={seed} replays it ({flavour}): {error}")
        for outcome, count in tally.items():
            seen[outcome] = seen.get(outcome, 0) + count
    print(f"{flavour}: seeds {FIRST_SEED} to {FIRST_SEED + RUNS - 1}: {seen}")
    # Where callers wait for room, single worlds acknowledge only a few records.
    assert seen["acked"] > (10 if flavour == "callers without room" else 100) * RUNS


def test_the_wrap_is_really_crossed() -> None:
    """The runs that should cross sequence 2^31 do so: a batch near the end of the sequences precedes one near their start."""
    chaos, _ = simulate(1, "sequences wrap")
    for partition in range(chaos.partitions):
        sequences = chaos.base_sequences(partition)
        assert any(before > 2**31 - 50 and after < 50 for before, after in pairwise(sequences)), sequences[:20]


@once_is_enough("the simulation's own faults are the same Python")
@drawn(3, of="about the random worlds themselves")
def test_what_the_flavours_are_about_really_happens() -> None:
    """Batches are packed on other threads, addresses change, clients rebootstrap, leaders lose their unreplicated records, and requests
    arrive late.
    """
    packed, _ = simulate(1, "packed aside")
    assert packed.world.counts["PACK"] > 50
    moved, _ = simulate(1, "addresses change")
    assert moved.events["addresses changed"] > 2
    assert moved.events["sent back"] > 1
    isolated = [simulate(seed, "plain")[0] for seed in range(3)]
    assert sum(each.events.get("isolated leaders replaced", 0) for each in isolated) > 2
    assert sum(each.events.get("records lost with isolated leaders", 0) for each in isolated) > 0
    assert sum(each.world.counts.get("LATE", 0) for each in isolated) > 0
    for what in ("cut off from the controller", "without news", "paused"):
        assert sum(each.events.get(f"brokers {what}", 0) for each in isolated) > 0, what
    with_callers = [name for name, kind in FLAVOURS.items() if "callers" in kind]
    called = [callers.events for flavour in with_callers for seed in range(4) if (callers := simulate(seed, flavour)[0].callers)]
    for what in ("Struck", "Poison", "BufferFull", "TypeError", "ValueError", *(["forks"] if hasattr(os, "fork") else [])):
        assert sum(events.get(what, 0) for events in called) > 0, what
