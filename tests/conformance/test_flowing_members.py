"""Members come and go while records flow: each record is read, and no partition has two owners in one generation. On the stub and on Apache
Kafka, in each group protocol.

A sample by default. `make members` lets 100,000 records flow in each.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Final

import pytest

from fencepost.broker_stub import BrokerStub
from tests.conformance.fixtures import ClusterFactory
from tests.conformance.flowing_members import BROKER_CONFIG, CONFIGS, campaign
from tests.drawn import drawn

FULL: Final = os.environ.get("FENCEPOST_MEMBERS") == "full"
RECORDS, EVENTS = (100_000, 25) if FULL else (20_000, 6)

pytestmark = [pytest.mark.timeout(400), drawn(3, of="members that come and go while records flow")]


def say(line: str) -> None:
    print(line, flush=True)


def holds(bootstrap: str, protocol: str, directory: Path, *, replicas: int) -> None:
    seed = random.SystemRandom().randrange(10**6)
    found = campaign(bootstrap, protocol, directory, records=RECORDS, events=EVENTS, replicas=replicas, seed=seed, say=say)
    assert (found.records, found.unread, found.shared) == (RECORDS, 0, [])
    assert found.generations > 1


@pytest.mark.parametrize("protocol", CONFIGS)
def test_members_while_records_flow(protocol: str, tmp_path: Path) -> None:
    """On the stub."""
    with BrokerStub(brokers=3, config=BROKER_CONFIG, journal=0) as stub:
        holds(stub.bootstrap, protocol, tmp_path, replicas=3)


@pytest.mark.parametrize("protocol", CONFIGS)
def test_members_while_records_flow_on_kafka(protocol: str, tmp_path: Path, kafka_cluster: ClusterFactory) -> None:
    """On Apache Kafka."""
    with kafka_cluster(config=BROKER_CONFIG) as kafka:
        holds(kafka.bootstrap, protocol, tmp_path, replicas=1)
