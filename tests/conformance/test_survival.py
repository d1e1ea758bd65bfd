"""A million records through a Kafka that is killed again and again: no record is lost or duplicated, and every row is the one that was
sent.

A sample by default, with one kill and one restart. FENCEPOST_SURVIVAL=full runs all of it: a million records, ten kills and ten restarts,
also with three brokers.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.conformance.fixtures import ClusterFactory
from tests.conformance.survival.campaign import WINDOW, Campaign, Outcome, Stop
from tests.drawn import drawn

FULL = os.environ.get("FENCEPOST_SURVIVAL") == "full"
ROWS = 1_000_000 if FULL else 100_000
TIMES = 10 if FULL else 1

# Small batches, so that there are many; and long timeouts for machines on which a broker takes minutes to restart.
SETTINGS = {"batch_size": 32 * 1024, "buffer_memory": 4 * 1024 * 1024, "max_block_ms": 300_000, "delivery_timeout_ms": 300_000}

pytestmark = pytest.mark.timeout(3600 if FULL else 600)


def say(line: str) -> None:
    print(line, flush=True)


@drawn(2, of="long stories of survival")
def test_kills_and_restarts_in_the_middle_of_a_long_send(kafka_cluster: ClusterFactory) -> None:
    """A single broker is killed and restarted, each time with five unacknowledged batches in its log. The log holds every row once."""
    cluster = kafka_cluster()
    stops = [Stop.KILL, Stop.RESTART] * TIMES
    campaign = Campaign(cluster, "survival", partitions=3, rows=ROWS, seed=random.SystemRandom().randrange(10**6), say=say)
    outcome = campaign.run(stops, **SETTINGS)
    say(outcome.report())
    assert_exactly_once(outcome, stops)
    # Over a restart Kafka remembers one batch of a producer. So the producer must have resolved the four older ones by asking.
    assert all(incident.resolved > 0 for incident in outcome.incidents)
    assert outcome.total("out_of_order") > 0
    assert outcome.total("duplicates") > 0


def assert_exactly_once(outcome: Outcome, stops: list[Stop]) -> None:
    """Every kill or restart came with a full window, and the log is what was sent."""
    assert [incident.stop for incident in outcome.incidents] == stops
    assert all(len(incident.sequences) == WINDOW for incident in outcome.incidents)
    assert outcome.account.faults() == dict.fromkeys(outcome.account.faults(), 0)
    assert outcome.ledger.failed == 0
    assert outcome.ledger.acked == outcome.ledger.sent == outcome.ledger.rows == outcome.account.found
    assert outcome.account.sum == outcome.ledger.sum


@drawn(2, of="long stories of survival")
def test_without_idempotence_a_kill_doubles(kafka_cluster: ClusterFactory) -> None:
    """The kills are effective: a producer without idempotence sends batches again that the broker already had."""
    cluster = kafka_cluster()
    campaign = Campaign(cluster, "survival", partitions=3, rows=60_000, seed=random.SystemRandom().randrange(10**6), say=say)
    outcome = campaign.run([Stop.KILL], enable_idempotence=False, **SETTINGS)
    say(outcome.report())
    assert (outcome.account.lost, outcome.account.strange) == (0, 0)
    assert outcome.account.doubled > 0


@pytest.mark.skipif(not FULL, reason="part of FENCEPOST_SURVIVAL=full")
def test_leaders_killed_in_the_middle_of_a_long_send(kafka_cluster: ClusterFactory) -> None:
    """The leader among three brokers is killed or restarted, with five unacknowledged batches in its log. Every row is there once."""
    cluster = kafka_cluster(brokers=3, config={"min.insync.replicas": 2})
    stops = [Stop.KILL, Stop.RESTART] * TIMES
    campaign = Campaign(cluster, "survival", partitions=3, rows=ROWS, seed=random.SystemRandom().randrange(10**6), say=say)
    outcome = campaign.run(stops, **SETTINGS)
    say(outcome.report())
    assert_exactly_once(outcome, stops)
