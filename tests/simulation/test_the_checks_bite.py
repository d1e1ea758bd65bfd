"""The simulation's checks notice a broken rule of the producer."""

from __future__ import annotations

import pytest

import fencepost
from tests.drawn import drawn
from tests.simulation.mutants import MUTANTS, Caught, hunt
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
    caught = hunt(mutant)
    assert isinstance(caught, Caught), f"{mutant}: not noticed in {caught} runs"
    print(f"{mutant}: seed {caught.seed} ({caught.flavour}): {caught.what}")
