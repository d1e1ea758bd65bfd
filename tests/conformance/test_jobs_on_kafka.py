"""Jobs on Apache Kafka: what the stub's tests show of other runs, killed runs and timeouts is so there, too."""

from __future__ import annotations

import secrets

import pytest

from tests.conformance.fixtures import TOLD_ALIKE, kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.reader import Admin
from tests.txn.jobs.stories import is_overtaken, leaves_a_transaction_open, takes_too_long

__all__ = ["kafka"]

pytestmark = [pytest.mark.timeout(240), TOLD_ALIKE]


@pytest.fixture
def topic(kafka: KafkaCluster) -> str:
    name = f"job-{secrets.token_hex(4)}"
    Admin(kafka.bootstrap).create(name, partitions=1)
    return name


def test_a_second_run(kafka: KafkaCluster, topic: str) -> None:
    """It ends the first one, and continues at the position of its last commit."""
    is_overtaken(kafka.bootstrap, topic)


def test_what_a_killed_run_left_open(kafka: KafkaCluster, topic: str) -> None:
    """The next run ends it at once."""
    leaves_a_transaction_open(kafka.bootstrap, topic)


def test_a_batch_that_takes_too_long(kafka: KafkaCluster, topic: str) -> None:
    """The coordinator aborts it, and the job reads it again."""
    takes_too_long(kafka.bootstrap, topic, slow_s=12.0)
