"""The log beside a plain list, through random histories of everything that happens to a log; and broken rules are noticed."""

from __future__ import annotations

import os
import random

import pytest

from tests.broken_rules import assert_noticed
from tests.broker_stub.log.list_history import run
from tests.broker_stub.log.list_mutants import MUTANTS, RUNS_MAX
from tests.drawn import drawn
from tests.once import once_is_enough

STEPS = 60
MORE = int(os.environ.get("FENCEPOST_POWER_LOSSES", "200")) // 20


@drawn(20)
@pytest.mark.parametrize("seed", range(200))
def test_the_log_is_a_list(seed: int) -> None:
    """Readers of each kind, producers and lookups find after each step what the list has."""
    run(seed, STEPS)


def test_a_snapshot_survives_a_start_and_a_loss_of_power() -> None:
    """The producers at the log's end are in a file, and a start does not replace it by what is only in memory."""
    run(131829850, STEPS)


def test_the_log_is_a_list_in_new_histories() -> None:
    """With other seeds in each run; `make power-losses` takes many."""
    base = random.SystemRandom().randrange(1 << 32)
    for seed in range(base, base + MORE):
        run(seed, STEPS)


@once_is_enough("the rules of the log are the same Python")
@drawn(30)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_list_bites(mutant: str) -> None:
    """A bounded number of histories notices each broken rule."""
    # A log without one of its rules may fail in any way.
    assert_noticed(mutant, MUTANTS[mutant], run=lambda seed: run(seed, STEPS), seeds=range(RUNS_MAX), errors=(Exception,))
