"""The random runs notice each rule of transactions that is broken on purpose."""

from __future__ import annotations

import pytest

from tests.broken_rules import assert_noticed
from tests.once import once_is_enough
from tests.txn_walk.kinds import kind_of
from tests.txn_walk.mutants import BEGIN_AT, MUTANTS, RUNS_MAX
from tests.txn_walk.walk import Walk

pytestmark = once_is_enough("the rules of transactions are the same Python")


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_model_bites(mutant: str) -> None:
    """A bounded number of runs notices each broken rule."""
    level, broken = MUTANTS[mutant]
    first = BEGIN_AT.get(mutant, 0)
    assert_noticed(mutant, broken, run=lambda seed: Walk(seed, kind_of(level, seed)).run(), seeds=range(first, first + RUNS_MAX))
