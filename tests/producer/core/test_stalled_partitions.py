"""The warning that records of a partition wait although brokers answer."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from fencepost.broker_stub import BrokerStub
from fencepost.producer import Producer
from fencepost.producer.wire import ErrorCode
from tests.conformance.fixtures import TOLD_ALIKE, ClusterFactory, kafka_cluster
from tests.producer.core.harness import CoreHarness
from tests.producer.stub_helpers import QUICK
from tests.waiting import until

__all__ = ["kafka_cluster"]

STEP_MS = 100


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


def seconds_of_warnings(harness: CoreHarness, caplog: pytest.LogCaptureFixture, seconds: int, code: int = 0) -> list[int]:
    """Let that time pass, while leaders refuse every batch with `code`; after how many seconds a warning came."""
    found = []
    for step in range(1, seconds * 1000 // STEP_MS + 1):
        before = len(warnings(caplog))
        harness.advance(STEP_MS)
        for flight in harness.produces():
            harness.refuse(flight, code)
        found += [round(step * STEP_MS / 1000)] * (len(warnings(caplog)) - before)
    return found


def test_a_partition_without_a_leader(caplog: pytest.LogCaptureFixture) -> None:
    """The log warns after 5, 15 and 35 seconds, and no more once there is a leader."""
    harness = CoreHarness(delivery_timeout_ms=200_000.0, retry_backoff_max_ms=1_000.0).introduce()
    harness.leaders[0] = (-1, 1)
    harness.core.metadata_updater.refresh()
    harness.advance(STEP_MS)
    harness.send(b"x")
    assert seconds_of_warnings(harness, caplog, 50) == [5, 15, 35]
    assert warnings(caplog)[0].startswith(
        "t-0: its oldest records have waited for 5 s: the partition has no known leader; `fencepost doctor"
    )
    harness.leaders[0] = (2, 2)
    assert seconds_of_warnings(harness, caplog, 60) == []


def test_a_leader_that_refuses_for_now(caplog: pytest.LogCaptureFixture) -> None:
    """The warning has the newest code, and how many other partitions wait."""
    harness = CoreHarness(partitions=3, delivery_timeout_ms=200_000.0).introduce()
    harness.send(b"x", partition=0)
    harness.send(b"x", partition=1)
    assert seconds_of_warnings(harness, caplog, 4, ErrorCode.NOT_ENOUGH_REPLICAS) == []
    harness.send(b"x", partition=2)  # It has not waited for five seconds at the first warning.
    assert seconds_of_warnings(harness, caplog, 2, ErrorCode.NOT_ENOUGH_REPLICAS) == [1]
    assert "waited for 5 s: its leader answers NOT_ENOUGH_REPLICAS; so have those of 1 other partition; " in warnings(caplog)[0]
    assert seconds_of_warnings(harness, caplog, 10, ErrorCode.KAFKA_STORAGE_ERROR) == [9]
    assert "its leader answers KAFKA_STORAGE_ERROR; so have those of 2 other partitions; " in warnings(caplog)[1]


def test_a_partition_that_makes_progress(caplog: pytest.LogCaptureFixture) -> None:
    """Batches that are refused a few times and then written are no reason for a warning, however long that goes on."""
    harness = CoreHarness(delivery_timeout_ms=200_000.0).introduce()
    for offset in range(20):
        harness.send(b"x")
        assert seconds_of_warnings(harness, caplog, 1, ErrorCode.NOT_ENOUGH_REPLICAS) == []
        harness.advance(STEP_MS)
        harness.ack(harness.produces()[0], offset=offset)


def test_failed_records_that_are_only_resolved(caplog: pytest.LogCaptureFixture) -> None:
    """When the records have expired, nothing waits any more."""
    harness = CoreHarness(delivery_timeout_ms=4_000.0, request_timeout_ms=1_000.0).introduce()
    harness.leaders[0] = (-1, 1)
    harness.core.metadata_updater.refresh()
    harness.advance(STEP_MS)
    harness.send(b"x")
    assert seconds_of_warnings(harness, caplog, 30) == []


def test_on_the_stub(caplog: pytest.LogCaptureFixture) -> None:
    """The only replica's broker is stopped."""
    with BrokerStub(brokers=2) as stub, Producer(bootstrap_servers=stub.bootstrap, **{**QUICK, "delivery_timeout_ms": 60_000}) as producer:
        stub.create_topic("orders", replication_factor=1)
        producer.send("orders", b"x").result(20)
        leader = stub.leader("orders", 0)
        stub.stop_broker(leader)
        future = producer.send("orders", b"y")
        until(lambda: any("orders-0: its oldest records have waited" in each for each in warnings(caplog)), "a warning", timeout_s=15)
        stub.start_broker(leader)
        assert future.result(20).offset == 1


@TOLD_ALIKE
def test_on_kafka(kafka_cluster: ClusterFactory, caplog: pytest.LogCaptureFixture) -> None:
    """Brokers of Apache Kafka tell the same."""
    cluster = kafka_cluster(brokers=3)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("orders", num_partitions=1, replication_factor=1)])["orders"].result(30)
    with Producer(bootstrap_servers=cluster.bootstrap, delivery_timeout_ms=60_000) as producer:
        producer.send("orders", b"x").result(30)
        leader = admin.list_topics("orders", timeout=30).topics["orders"].partitions[0].leader
        cluster.stop_broker(leader)
        future = producer.send("orders", b"y")
        until(lambda: any("orders-0: its oldest records have waited" in each for each in warnings(caplog)), "a warning", timeout_s=30)
        cluster.start_broker(leader)
        assert future.result(50).offset == 1
    assert "the partition has no known leader" in next(each for each in warnings(caplog) if "its oldest records" in each)
