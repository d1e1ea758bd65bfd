"""Transactions under a virtual clock, with late requests or with several processes: the producer's outcomes agree with the cluster.

FENCEPOST_SEED replays one seed. FENCEPOST_RUNS sets how many seeds of each transaction version run. `make simulate` runs many.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pytest

from fencepost.producer.core.cluster.cluster_connection_states import Request
from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.messages.describe_transactions import TransactionState
from fencepost.txn.coordinator import init_producer_id
from fencepost.txn.coordinator.init_producer_id import Registration
from fencepost.txn.coordinator.transaction_contents import TransactionContents
from fencepost.txn.coordinator.transaction_manager import TransactionManager
from fencepost.txn.recovery.outcome import COMPLETE
from fencepost.txn.recovery.token import PreparedTransaction
from tests.broken_rules import assert_noticed
from tests.drawn import ALL, SEED
from tests.once import once_is_enough
from tests.simulation.prepared_transactions import PreparedWorld
from tests.simulation.transactions import HELD, TransactionWorld

FIRST_SEED = int(os.environ.get("FENCEPOST_SEED", random.SystemRandom().randrange(10**6)))
RUNS = 1 if "FENCEPOST_SEED" in os.environ else int(os.environ.get("FENCEPOST_RUNS", "20" if os.environ[SEED] == ALL else "10"))
HUNTED: Final = 200
ADDING: Final = (Api.ADD_PARTITIONS_TO_TXN, Api.ADD_OFFSETS_TO_TXN)


@pytest.mark.timeout(600 if RUNS <= 20 else 36_000)
@pytest.mark.parametrize("version", [1, 2])
def test_every_outcome_is_true_under_late_requests(version: int) -> None:
    """Consumers read committed records, once and in order, and no others. No transaction stays open, and no late request opens one.

    A producer is fenced only by its own InitProducerId, or by a request that opened a transaction before the epoch was renewed. The error
    names that request.
    """
    told, late = _run_all(TransactionWorld, version)
    assert told["committed"] > 6 * RUNS
    if RUNS >= 100:
        assert set(late) == (HELD if version < 2 else HELD - set(ADDING))


@pytest.mark.timeout(600 if RUNS <= 20 else 36_000)
@pytest.mark.parametrize("version", [1, 2])
def test_every_outcome_is_true_if_other_processes_end_transactions(version: int) -> None:
    """Other processes end prepared transactions, or take the id over. Coordinators move, time transactions out, and answer with an error
    after they have carried a request out.

    The caller's outcome agrees with the logs. A producer is fenced only for a reason that the error names.
    """
    told, _ = _run_all(PreparedWorld, version)
    assert min(told["committed"], told["aborted"], told["ended by another process"]) > RUNS


def _run_all(kind: type[TransactionWorld], version: int) -> tuple[Counter[str], Counter[Api]]:
    """Run every seed. Return what the callers were told, and how many requests were late."""
    told: Counter[str] = Counter()
    late: Counter[Api] = Counter()
    for seed in range(FIRST_SEED, FIRST_SEED + RUNS):
        world = kind(seed, version)
        try:
            world.run_all()
        except AssertionError as error:
            pytest.fail(f"FENCEPOST_SEED={seed} replays it (transaction version {version}): {error}")
        told.update(world.told)
        late.update(world.late)
    last = FIRST_SEED + RUNS - 1
    print(f"{kind.__name__}, transaction version {version}: seeds {FIRST_SEED} to {last}: {dict(told)}; late: {dict(late)}")
    return told, late


def _forgetting(*apis: Api) -> Callable[[Any, Request], None]:
    """Broken: the producer does nothing after the loss of these requests."""
    honest = TransactionContents.lost

    def lost(self: TransactionContents, request: Request) -> None:
        if request.api not in apis:
            honest(self, request)

    return lost


def _sure_of_the_end(self: TransactionManager, request: Request, now_ms: float, honest: Any = TransactionManager.lost) -> None:
    honest(self, request, now_ms)
    self._doubtful = False


def _renewed_once(self: Registration, honest: Any = Registration.renewed) -> bool:
    honest(self)
    return False


def _any_complete(token: PreparedTransaction, state: TransactionState) -> tuple[int, int] | None:
    return (state.producer_id, state.producer_epoch) if state.transaction_state in COMPLETE else None


MUTANTS: Final[dict[str, tuple[object, str, object]]] = {
    "a lost AddPartitionsToTxn is forgotten": (TransactionContents, "lost", _forgetting(Api.ADD_PARTITIONS_TO_TXN)),
    "a lost AddOffsetsToTxn is forgotten": (TransactionContents, "lost", _forgetting(Api.ADD_OFFSETS_TO_TXN)),
    "a lost Produce is forgotten": (TransactionManager, "unanswered", lambda self: None),
    "a lost EndTxn is forgotten": (TransactionManager, "lost", _sure_of_the_end),
    "a lost InitProducerId is forgotten": (Registration, "lost", lambda self, api, first: None),
}
PREPARED_MUTANTS: Final[dict[tuple[str, int], tuple[object, str, object]]] = {
    ("the epoch that another process was given is not asked for", 2): (Registration, "ended_elsewhere", lambda self, token: None),
    ("the epoch of any complete transaction is taken over", 2): (init_producer_id, "next_identity", _any_complete),
    ("a transaction gets a token in spite of a lost AddPartitionsToTxn", 1): (Registration, "late_opener", lambda self: None),
    ("a repeated InitProducerId is not followed by another", 1): (Registration, "renewed", _renewed_once),
    ("an InitProducerId that was answered with an error is forgotten", 1): (Registration, "refused", lambda self, row, first: None),
}
"""By what is broken and the transaction version in which it shows."""
BEGIN_AT: Final = {
    "a lost EndTxn is forgotten": 70,
    "a lost InitProducerId is forgotten": 40,
    "the epoch that another process was given is not asked for": 30,
    "the epoch of any complete transaction is taken over": 70,
    "a transaction gets a token in spite of a lost AddPartitionsToTxn": 35,
    "a repeated InitProducerId is not followed by another": 2003320,
    "an InitProducerId that was answered with an error is forgotten": 190,
}
"""The first seed for a mutant that shows late."""


@once_is_enough("what is broken on purpose is the same Python")
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_simulation_bites(mutant: str) -> None:
    """The simulation notices each broken rule about lost requests within a bounded number of runs."""
    _hunt(mutant, MUTANTS[mutant], TransactionWorld, 1)


@once_is_enough("what is broken on purpose is the same Python")
@pytest.mark.parametrize(("mutant", "version"), PREPARED_MUTANTS)
def test_the_simulation_of_several_processes_bites(mutant: str, version: int) -> None:
    """The simulation notices each broken rule about an epoch that another process may have within a bounded number of runs."""
    _hunt(mutant, PREPARED_MUTANTS[mutant, version], PreparedWorld, version)


def _hunt(mutant: str, change: tuple[object, str, object], kind: type[TransactionWorld], version: int) -> None:
    # A broken rule shows sooner where fewer things go wrong.
    first = BEGIN_AT.get(mutant, 0)
    assert_noticed(mutant, change, run=lambda seed: kind(seed, version, stranding=False).run_all(), seeds=range(first, first + HUNTED))
