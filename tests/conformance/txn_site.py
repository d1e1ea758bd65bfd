"""Real Kafka clusters for tests of transactions: one for each transaction version, with a test's own topic and transactional id.

Import the fixtures `site` and `older`. Both are created once per module.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition

from fencepost.txn.producer import TransactionalProducer
from tests.conformance.fixtures import require_kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.survival.reader import Admin
from tests.drawn import drawn
from tests.reading import read_values

WAIT_S = 60.0
PARTITIONS = 3
IMPATIENT = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}


class Site(NamedTuple):
    """A cluster, and a topic and a transactional id for one test."""

    bootstrap: str
    topic: str
    name: str

    def producer(self, bootstrap: str | None = None, **settings: Any) -> TransactionalProducer:
        return TransactionalProducer(bootstrap_servers=bootstrap or self.bootstrap, transactional_id=self.name, linger_ms=0, **settings)

    def end(self, partition: int) -> int:
        """The offset after the newest record or marker."""
        return end_of(self.bootstrap, self.topic, partition)

    def group(self, group_id: str) -> list[int]:
        """The group's committed offsets of the topic's partitions; -1001 if none is committed."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group_id})
        try:
            asked = [TopicPartition(self.topic, partition) for partition in range(PARTITIONS)]
            return [partition.offset for partition in consumer.committed(asked, timeout=WAIT_S)]
        finally:
            consumer.close()

    def committed(self) -> list[bytes]:
        """What a consumer with `read_committed` reads up to the current ends, in no order across partitions."""
        return sorted(read_values(self.bootstrap, self.topic, range(PARTITIONS)))


def end_of(bootstrap: str, topic: str, partition: int, isolation: str = "read_uncommitted") -> int:
    """The partition's high watermark, or its last stable offset with "read_committed", which librdkafka passes on in ListOffsets."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": isolation})
    try:
        marks = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=WAIT_S)
    finally:
        consumer.close()
    assert marks is not None
    return int(marks[1])


@pytest.fixture(scope="module")
def older() -> Iterator[KafkaCluster]:
    """A broker whose cluster runs transaction version 0: no implicit adds, and no new epoch with each end."""
    require_kafka()
    with KafkaCluster(features={"transaction.version": 0}, config=IMPATIENT) as cluster:
        yield cluster


@pytest.fixture(params=[pytest.param(version, marks=drawn(2)) for version in ("tv2", "tv1")])
def site(request: pytest.FixtureRequest, kafka: KafkaCluster) -> Site:
    """Both transaction versions."""
    cluster: KafkaCluster = kafka if request.param == "tv2" else request.getfixturevalue("older")
    return new_site(cluster)


def new_site(cluster: KafkaCluster) -> Site:
    site = Site(cluster.bootstrap, f"txn-{secrets.token_hex(4)}", f"id-{secrets.token_hex(4)}")
    Admin(site.bootstrap).create(site.topic, partitions=PARTITIONS)
    return site
