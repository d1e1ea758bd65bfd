"""Rules of transactions that are broken on purpose: the random runs notice each of them."""

from __future__ import annotations

import pytest

from tests.once import once_is_enough
from tests.txn_walk.mutants import MUTANTS, Caught, hunt

pytestmark = once_is_enough("the rules of transactions are the same Python")


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_model_bites(mutant: str) -> None:
    """Each rule, broken on purpose, is noticed within a bounded number of runs."""
    caught = hunt(mutant)
    assert isinstance(caught, Caught), f"{mutant}: not noticed in {caught} runs"
    print(f"{mutant}: run {caught.seed}: {caught.what}")
