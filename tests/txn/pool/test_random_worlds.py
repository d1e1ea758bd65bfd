"""Random walks over both pools on the stub: parallel transactions while requests are late, refused or lost, brokers restart, slots are
fenced, callers are interrupted, and pools are closed, followed and forked. No slot is lost and none has two users, each transaction has the
outcome that its caller was told, once, and no thread, task or connection is left.

FENCEPOST_SEED replays one seed: what the walk draws, not the order of threads and packets. FENCEPOST_RUNS says how many to run.
"""

from __future__ import annotations

import os
import random

import pytest

from fencepost.broker_stub import BrokerStub
from tests.strike import MARKS
from tests.txn.pool.task_walk import TaskWalk
from tests.txn.pool.thread_walk import ThreadWalk
from tests.txn.pool.walk import PARTITIONS

FIRST_SEED = int(os.environ.get("FENCEPOST_SEED", random.SystemRandom().randrange(10**6)))
RUNS = 1 if "FENCEPOST_SEED" in os.environ else int(os.environ.get("FENCEPOST_RUNS", "3"))

pytestmark = [*MARKS, pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")]


@pytest.mark.parametrize("kind", [ThreadWalk, TaskWalk])
@pytest.mark.parametrize("run", range(RUNS))
def test_outcomes_are_true(run: int, kind: type[ThreadWalk] | type[TaskWalk]) -> None:
    """Counted by a consumer with read_committed: what was committed is there once in full, and nothing of what was aborted."""
    seed = FIRST_SEED + run
    with BrokerStub(brokers=3, seed=seed, transaction_version=random.Random(seed).choice([1, 2])) as stub:
        stub.create_topic("t", partitions=PARTITIONS)
        walk = kind(seed, stub)
        walk.run()
        walk.judge()
    assert walk.broken == [], f"FENCEPOST_SEED={seed}"
