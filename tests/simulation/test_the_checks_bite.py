"""The simulation's checks notice a broken rule of the producer."""

from __future__ import annotations

import pytest

import fencepost
from tests.broken_rules import assert_noticed
from tests.drawn import drawn
from tests.simulation.flavours import simulate
from tests.simulation.mutants import BEGIN_AT, MUTANTS, RUNS_MAX
from tests.strike import MARKS

pytestmark = MARKS


@drawn(8)
@pytest.mark.skipif(
    fencepost.build_info().compiled, reason="compiled methods call one another without asking the class: the uncompiled run breaks them"
)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_checks_bite(mutant: str) -> None:
    """The checks notice each rule that is broken on purpose within two hundred seeds, and mostly within a few."""
    flavour, patches = MUTANTS[mutant]
    first = BEGIN_AT.get(mutant, 0)
    errors = (AssertionError, ValueError, LookupError, ArithmeticError)
    assert_noticed(mutant, *patches, run=lambda seed: simulate(seed, flavour), seeds=range(first, first + RUNS_MAX), errors=errors)
