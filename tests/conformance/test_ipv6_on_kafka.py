"""A real Kafka with a listener on ::1 that it advertises."""

from __future__ import annotations

import pytest

from fencepost.producer import Producer
from tests.conformance.fixtures import require_kafka
from tests.conformance.kafka import HOST, KafkaCluster
from tests.conformance.survival.reader import read_topic
from tests.producer.network.test_ipv6 import needs_ipv6

pytestmark = pytest.mark.timeout(300)


@needs_ipv6
def test_a_kafka_that_advertises_ipv6() -> None:
    """The bootstrap address and the one in Metadata are IPv6 literals. The record arrives; a consumer reads it at the other listener."""
    require_kafka()
    cluster = KafkaCluster(listeners={"SIX": "PLAINTEXT"})
    broker = cluster.brokers[1]
    clients = f"PLAINTEXT://{HOST}:{broker.port},SIX://[::1]:{broker.other_ports['SIX']}"
    cluster.config["listeners"] = f"{clients},CONTROLLER://{HOST}:{broker.controller_port}"
    cluster.config["advertised.listeners"] = clients
    with cluster:
        with Producer(bootstrap_servers=f"[::1]:{broker.other_ports['SIX']}") as producer:
            assert producer.send("six", b"over IPv6").result(60).offset == 0
            assert {node.address.host for node in producer._sender.engine.core.nodes} == {"::1"}
        assert [message.value() for message in read_topic(cluster.bootstrap, "six")] == [b"over IPv6"]
