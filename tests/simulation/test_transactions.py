"""Transactions whose requests come late, under a virtual clock: what the producer said is what the cluster ends up with.

FENCEPOST_SEED replays one seed; FENCEPOST_RUNS says how many of each transaction version to run. `make simulate` runs many.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Final
from unittest.mock import patch

import pytest

from fencepost.producer.core.cluster.cluster_connection_states import Request
from fencepost.producer.wire.codes import Api
from fencepost.txn.coordinator.init_producer_id import Registration
from fencepost.txn.coordinator.transaction_contents import TransactionContents
from fencepost.txn.coordinator.transaction_manager import TransactionManager
from tests.simulation.transactions import HELD, TransactionWorld

FIRST_SEED = int(os.environ.get("FENCEPOST_SEED", random.SystemRandom().randrange(10**6)))
RUNS = 1 if "FENCEPOST_SEED" in os.environ else int(os.environ.get("FENCEPOST_RUNS", "20"))
HUNTED: Final = 200
ADDING: Final = (Api.ADD_PARTITIONS_TO_TXN, Api.ADD_OFFSETS_TO_TXN)


@pytest.mark.timeout(600 if RUNS <= 20 else 36_000)
@pytest.mark.parametrize("version", [1, 2])
def test_every_outcome_is_true_whatever_comes_late(version: int) -> None:
    """Committed records are read, once and in order, and no others. No transaction stays open, and no late request opens one. A producer is
    fenced only by its own InitProducerId, or by a request that opened a transaction before the epoch was renewed, and the error names
    it."""
    told: Counter[str] = Counter()
    late: Counter[Api] = Counter()
    for seed in range(FIRST_SEED, FIRST_SEED + RUNS):
        world = TransactionWorld(seed, version)
        try:
            world.run_all()
        except AssertionError as error:
            pytest.fail(f"FENCEPOST_SEED={seed} replays it (transaction version {version}): {error}")
        told.update(world.told)
        late.update(world.late)
    print(f"transaction version {version}: seeds {FIRST_SEED} to {FIRST_SEED + RUNS - 1}: {dict(told)}; late: {dict(late)}")
    assert told["committed"] > 6 * RUNS
    if RUNS >= 100:
        assert set(late) == (HELD if version < 2 else HELD - set(ADDING))


def _forgetting(*apis: Api) -> Callable[[Any, Request], None]:
    """Nothing is made of the loss of these."""
    honest = TransactionContents.lost

    def lost(self: TransactionContents, request: Request) -> None:
        if request.api not in apis:
            honest(self, request)

    return lost


def _sure_of_the_end(self: TransactionManager, request: Request, now_ms: float, honest: Any = TransactionManager.lost) -> None:
    honest(self, request, now_ms)
    self._doubtful = False


MUTANTS: Final[dict[str, tuple[object, str, object]]] = {
    "a lost AddPartitionsToTxn is forgotten": (TransactionContents, "lost", _forgetting(Api.ADD_PARTITIONS_TO_TXN)),
    "a lost AddOffsetsToTxn is forgotten": (TransactionContents, "lost", _forgetting(Api.ADD_OFFSETS_TO_TXN)),
    "a lost Produce is forgotten": (TransactionManager, "unanswered", lambda self: None),
    "a lost EndTxn is forgotten": (TransactionManager, "lost", _sure_of_the_end),
    "a lost InitProducerId is forgotten": (Registration, "lost", lambda self, api: None),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_simulation_bites(mutant: str) -> None:
    """Each rule about what was lost, broken on purpose, is noticed within a bounded number of runs."""
    target, name, broken = MUTANTS[mutant]
    with patch.object(target, name, broken):
        for seed in range(HUNTED):
            try:
                TransactionWorld(seed, 1).run_all()
            except AssertionError as error:
                print(f"{mutant}: seed {seed}: {str(error)[:100]}")
                return
    pytest.fail(f"{mutant}: not noticed in {HUNTED} runs")
