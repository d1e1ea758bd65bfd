"""A late request of a transaction, on Apache Kafka: each of six requests, at each of three moments, on 3.9 and on 4.3 with both transaction
versions.

`make late` prints the table of all 54 cells. `tests.txn.coordinator.test_late_requests` runs the same on the stub.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import Any, Final

import pytest
from kafka import KafkaAdminClient, TopicPartition

from fencepost.broker_stub.cluster.topics import OFFSETS_TOPIC, STATE_TOPIC
from fencepost.producer.wire.codes import Api, api_name
from tests.conformance.fixtures import require_older_kafka
from tests.conformance.kafka import KafkaCluster
from tests.conformance.kafka_home import OLDER_VERSION
from tests.txn.coordinator.late_requests import REQUESTS, Moment, expected, play
from tests.waiting import until

pytestmark = pytest.mark.skipif("FENCEPOST_LATE" not in os.environ, reason="takes some minutes: FENCEPOST_LATE=1 or make late runs it")

TIMEOUT_MS: Final = 2_000
CONFIG: Final = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}
COLUMNS: Final[dict[str, tuple[int, dict[str, Any]]]] = {
    "3.9": (0, {"version": OLDER_VERSION}),
    "4.3 at TV1": (1, {"features": {"transaction.version": 1}}),
    "4.3 at TV2": (2, {"features": {"transaction.version": 2}}),
}
"""The transaction version, and the options of the cluster."""


class KafkaGround:
    """Two brokers of Apache Kafka."""

    def __init__(self, cluster: KafkaCluster, version: int) -> None:
        self.bootstrap = cluster.bootstrap
        self.version = version
        self._nodes = list(cluster.brokers)
        self._admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)

    def move_coordinators(self) -> None:
        """Make the other replica the preferred one, and elect it."""
        for name in (STATE_TOPIC, OFFSETS_TOPIC):
            here = self._leader(name)
            (there,) = [node for node in self._nodes if node != here]
            refused = self._admin.alter_partition_reassignments({TopicPartition(name, 0): [there, here]})
            assert set(refused.values()) == {None}, refused
            self._admin.elect_leaders(0, {name: [0]})
            self._await_other(name, here)

    def close(self) -> None:
        self._admin.close()

    def _await_other(self, name: str, node: int) -> None:
        until(lambda: self._leader(name) != node, f"{name} is led by another broker than {node}", pause_max_s=0.2)

    def _leader(self, name: str) -> int:
        (topic,) = self._admin.describe_topics([name])
        return int(topic["partitions"][0]["leader_id"])


@pytest.mark.timeout(3600)
def test_what_comes_late_changes_nothing() -> None:
    """In all 54 cells nothing is lost, duplicated, split or left open, and no error is false. See the test of that name on the stub."""
    require_older_kafka()
    table: dict[tuple[Api, Moment], list[str]] = {(request, moment): [] for request in REQUESTS for moment in Moment}
    broken: list[str] = []
    for column, (version, options) in COLUMNS.items():
        with KafkaCluster(brokers=2, config=CONFIG, **options) as cluster, closing(KafkaGround(cluster, version)) as ground:
            for request, moment in table:
                name = f"{column}, {api_name(request)}, {moment.value}"
                try:
                    cell = play(ground, request, moment, timeout_ms=TIMEOUT_MS)
                    assert cell.told == expected(request, moment, version), cell.words()
                    words = cell.words()
                except (AssertionError, TimeoutError) as error:
                    words = f"BROKEN: {error}"
                    broken.append(f"{name}: {error}")
                table[request, moment].append(words)
                print(f"{name}: {words}", flush=True)
    print(f"\n| a late | comes | {' | '.join(COLUMNS)} |\n|---|---|{'---|' * len(COLUMNS)}")
    for (request, moment), cells in table.items():
        print(f"| {api_name(request)} | {moment.value} | {' | '.join(cells)} |")
    assert not broken
