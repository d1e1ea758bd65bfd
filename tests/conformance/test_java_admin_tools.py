"""Kafka's tools of administrators print the same about the stub and about Apache Kafka: kafka-configs for brokers, groups and client
metrics, kafka-client-metrics, kafka-metadata-quorum, kafka-features and kafka-cluster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from fencepost.broker_stub import BrokerStub
from tests.conformance.fixtures import require_kafka
from tests.conformance.java_tools import JavaTools, OneByOne
from tests.conformance.kafka import KafkaCluster
from tests.once import once_is_enough
from tests.waiting import until

pytestmark = pytest.mark.timeout(600)

TIMEOUT_S = 90.0
CONFIGS = "kafka.admin.ConfigCommand"
METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"

ONE, ALL = ("--entity-type", "brokers", "--entity-name", "1"), ("--entity-type", "brokers", "--entity-default")
GROUP = ("--entity-type", "groups", "--entity-name", "g")
SUBSCRIPTION = ("--entity-type", "client-metrics", "--entity-name", "m")

COMMANDS: list[tuple[str, ...]] = [
    (CONFIGS, "--alter", *ONE, "--add-config", "log.cleaner.backoff.ms=16000,message.max.bytes=2000000"),
    (CONFIGS, "--describe", *ONE),
    (CONFIGS, "--alter", *ALL, "--add-config", "log.retention.ms=86400000"),
    (CONFIGS, "--describe", *ALL),
    (CONFIGS, "--describe", *ONE),
    (CONFIGS, "--alter", *ONE, "--add-config", "log.cleanup.policy=[compact,delete]"),
    (CONFIGS, "--alter", *ONE, "--add-config", "num.partitions=3"),
    (CONFIGS, "--alter", *ONE, "--add-config", "message.max.bytes=x"),
    (CONFIGS, "--alter", *ONE, "--add-config", "min.insync.replicas=2"),
    (CONFIGS, "--alter", *ONE, "--delete-config", "log.cleaner.backoff.ms,message.max.bytes,log.cleanup.policy"),
    (CONFIGS, "--alter", *ALL, "--delete-config", "log.retention.ms"),
    (CONFIGS, "--describe", *ONE),
    (CONFIGS, "--alter", *GROUP, "--add-config", "consumer.session.timeout.ms=50000"),
    (CONFIGS, "--describe", *GROUP),
    (CONFIGS, "--describe", "--entity-type", "groups"),
    (CONFIGS, "--alter", *GROUP, "--add-config", "consumer.session.timeout.ms=1"),
    (CONFIGS, "--alter", *GROUP, "--add-config", "retention.ms=1"),
    (CONFIGS, "--alter", *GROUP, "--delete-config", "consumer.session.timeout.ms"),
    (CONFIGS, "--describe", *GROUP),
    (CONFIGS, "--alter", *SUBSCRIPTION, "--add-config", "metrics=[a.,b.],interval.ms=5000"),
    (CONFIGS, "--describe", *SUBSCRIPTION),
    (METRICS, "--list"),
    (METRICS, "--describe"),
    (METRICS, "--alter", "--name", "n", "--metrics", "org.apache.kafka.", "--interval", "1000", "--match", "client_id=x"),
    (METRICS, "--describe", "--name", "n"),
    (METRICS, "--alter", "--name", "n", "--interval", "1"),
    (METRICS, "--delete", "--name", "n"),
    (METRICS, "--delete", "--name", "m"),
    (METRICS, "--list"),
    (QUORUM, "describe", "--status"),
    (QUORUM, "describe", "--replication"),
    (FEATURES, "describe"),
    (FEATURES, "downgrade", "--feature", "transaction.version=1"),
    (FEATURES, "describe"),
    (FEATURES, "upgrade", "--feature", "transaction.version=3"),
    (FEATURES, "upgrade", "--feature", "transaction.version=2"),
    (CLUSTER, "cluster-id"),
    (CLUSTER, "list-endpoints"),
    (CLUSTER, "unregister", "--id", "77"),
]
FIRST = (CLUSTER,)
"""Tools that take their command before the address."""

Run = Callable[..., str]


@pytest.fixture
def stub() -> Iterator[BrokerStub]:
    with BrokerStub() as running:
        yield running


def printed(run: Run, bootstrap: str, command: tuple[str, ...]) -> str:
    """What the tool prints, or its error, without what differs from cluster to cluster."""
    tool, *arguments = command
    address = ("--bootstrap-server", bootstrap)
    said = "no output"
    with suppress(TimeoutError):
        try:
            said = run(tool, *((*arguments, *address) if tool in FIRST else (*address, *arguments)), timeout=TIMEOUT_S)
        except RuntimeError as failed:
            said = str(failed).splitlines()[0]
    for pattern, instead in SHOWN:
        said = re.sub(pattern, instead, said)
    return said.strip()


SHOWN = (
    (r"127\.0\.0\.1:\d+|localhost:\d+", "ADDRESS"),
    (r"\b127\.0\.0\.1\s+\d+", "ADDRESS"),
    (r"(Cluster ID: |ClusterId:\s+)\S+", r"\1ID"),
    (r"(HighWatermark:|LeaderEpoch:|LogEndOffset|MaxFollowerLagTimeMs:|Epoch: )\s*-?\d+", r"\1 N"),
    (r"\b1[67]\d{11}\b", "TIME"),
    (r"(?m)^(\d+\s+\S{22}\s+)\d+\s*", r"\1N "),
    (r"((?:share|streams)\.version .*FinalizedVersionLevel: )\d", r"\1N"),
)


@once_is_enough("Kafka's tools say the same to the stub")
def test_administrators_see_the_same(java_tools: JavaTools | OneByOne, stub: BrokerStub) -> None:
    """Each command prints what it prints about Apache Kafka, word by word but for addresses, ids and times."""
    require_kafka()
    wrong = []
    with KafkaCluster() as kafka:
        for command in COMMANDS:
            mine = printed(java_tools.run, stub.bootstrap, command)
            theirs = ""

            def same(command: tuple[str, ...] = command, mine: str = mine) -> bool:
                nonlocal theirs
                theirs = printed(java_tools.run, kafka.bootstrap, command)
                return theirs == mine or "--describe" not in command  # a broker learns of a change a moment later

            with suppress(TimeoutError):
                until(same, "the same", timeout_s=5.0)
            if theirs != mine:
                wrong.append(f"{' '.join(command)}\n--- Kafka\n{theirs}\n--- the stub\n{mine}")
    assert not wrong, "\n\n".join(wrong)
