"""A pipeline over the flights is killed at random and restarted: every flight has exactly one result, on the stub and on Apache Kafka.

A sample by default. `make kill-pipelines` runs all flights and twenty kills.
"""

from __future__ import annotations

import random

import pytest

from fencepost.broker_stub import BrokerStub
from tests.conformance.fixtures import TOLD_ALIKE, kafka
from tests.conformance.kafka import KafkaCluster
from tests.drawn import drawn
from tests.txn.pipeline.kills import FULL, campaign

__all__ = ["kafka"]

ROWS, KILLS = (336_776, 20) if FULL else (30_000, 3)

pytestmark = pytest.mark.timeout(1200 if FULL else 240)


def say(line: str) -> None:
    print(line, flush=True)


def is_exact(bootstrap: str, members: int) -> None:
    found = campaign(bootstrap, rows=ROWS, kills=KILLS, members=members, seed=random.SystemRandom().randrange(10**6), say=say)
    assert (found.lost, found.doubled, found.strange) == (0, 0, 0)
    assert found.kills == KILLS
    if FULL:
        assert found.aborted > 0, "no kill came in an open transaction"


@drawn(2, of="pipelines that are killed, on the stub")
@pytest.mark.parametrize("members", [1, 2])
def test_killed_at_random(members: int) -> None:
    """On the stub. The process that is started again aborts what its killed run left open, and continues at the group's offsets."""
    with BrokerStub(journal=0) as stub:
        is_exact(stub.bootstrap, members)


@TOLD_ALIKE
@pytest.mark.parametrize("members", [1, 2])
def test_killed_at_random_on_kafka(kafka: KafkaCluster, members: int) -> None:
    """The same on Apache Kafka."""
    is_exact(kafka.bootstrap, members)
