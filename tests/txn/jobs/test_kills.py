"""A job over the flights is killed at random and restarted: every flight is there exactly once and in order, on the stub and on Apache
Kafka.

A sample by default. `make kill-jobs` runs all flights and twenty kills.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fencepost.broker_stub import BrokerStub
from tests.conformance.fixtures import TOLD_ALIKE, kafka
from tests.conformance.kafka import KafkaCluster
from tests.drawn import drawn
from tests.txn.jobs.kills import FULL, KINDS, campaign

__all__ = ["kafka"]

ROWS, KILLS = (336_776, 20) if FULL else (30_000, 3)

pytestmark = pytest.mark.timeout(1200 if FULL else 240)


def say(line: str) -> None:
    print(line, flush=True)


def is_exact(bootstrap: str, kind: str, directory: Path) -> None:
    found = campaign(bootstrap, kind, directory, rows=ROWS, kills=KILLS, seed=random.SystemRandom().randrange(10**6), say=say)
    assert (found.lost, found.doubled, found.strange, found.out_of_order) == (0, 0, 0, 0)
    assert found.kills == KILLS
    if FULL:
        assert found.aborted > 0, "no kill came in an open transaction"


@drawn(2, of="jobs that are killed, on the stub")
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_random(kind: str, tmp_path: Path) -> None:
    """On the stub. The process that is started again ends what its killed run left open, and continues at the committed position."""
    with BrokerStub(journal=0) as stub:
        is_exact(stub.bootstrap, kind, tmp_path)


@TOLD_ALIKE
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_random_on_kafka(kafka: KafkaCluster, kind: str, tmp_path: Path) -> None:
    """The same on Apache Kafka."""
    is_exact(kafka.bootstrap, kind, tmp_path)
