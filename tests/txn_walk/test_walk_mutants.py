"""The random runs notice each rule of transactions that is broken on purpose."""

from __future__ import annotations

import pytest

from tests.once import once_is_enough
from tests.txn_walk.mutants import BEGIN_AT, MUTANTS, Caught, hunt

pytestmark = once_is_enough("the rules of transactions are the same Python")


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_model_bites(mutant: str) -> None:
    """A bounded number of runs notices each broken rule."""
    caught = hunt(mutant, BEGIN_AT.get(mutant, 0))
    assert isinstance(caught, Caught), f"{mutant}: not noticed in {caught} runs"
    print(f"{mutant}: run {caught.seed}: {caught.what}")
