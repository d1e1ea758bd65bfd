"""The metrics of clients (KIP-714): what brokers ask for and take, by the stub's clock, and what stock clients push.

tests/conformance/cases/telemetry.py compares the answers with Apache Kafka's.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Producer as Librdkafka

from fencepost.broker_stub import BrokerStub, VirtualClock
from fencepost.producer.wire import ZERO_UUID, ApiVersionsRequest, ErrorCode
from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.messages.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from tests.broker_stub.config_calls import CLIENT_METRICS, change
from tests.broker_stub.stub_calls import TIMESTAMP_MS, Inside, Talker, batch
from tests.conformance.fixtures import java_tools
from tests.conformance.java_tools import JavaTools, OneByOne
from tests.waiting import until

__all__ = ["java_tools"]

WAIT_S = 30.0
INTERVAL_MS = 60_000


class Open:
    """The connection on which `Inside` asks."""

    id = 1
    principal = "User:ANONYMOUS"

    def cut(self) -> None:
        """It stays for the tests."""


def subscribed(world: Inside | None = None, **values: str) -> Inside:
    world = world or Inside()
    world.topic("t")
    world.cluster.brokers[1].connections.add(Open())
    configs = {"metrics": "*", "interval.ms": str(INTERVAL_MS), **{name.replace("_", "."): value for name, value in values.items()}}
    (answer,) = world.ask(change(CLIENT_METRICS, "m", configs), 1).responses
    assert answer.error_code == ErrorCode.NONE
    return world


def ask(world: Inside, instance_id: UUID = ZERO_UUID) -> Any:
    return world.ask(GetTelemetrySubscriptionsRequest(client_instance_id=instance_id), 0)


def push(world: Inside, given: Any, *, metrics: bytes = b"metrics", terminating: bool = False) -> int:
    request = PushTelemetryRequest(
        client_instance_id=given.client_instance_id, subscription_id=given.subscription_id, terminating=terminating, metrics=metrics
    )
    answer = world.ask(request, 0)
    return int(answer.error_code)


def test_once_in_an_interval() -> None:
    """By the stub's clock: a push after the subscription, and then one in each interval. The last one may come early."""
    world = subscribed()
    given = ask(world)
    assert (given.push_interval_ms, given.requested_metrics, given.telemetry_max_bytes) == (INTERVAL_MS, ["*"], 1 << 20)
    world.pass_time(1)
    assert push(world, given) == ErrorCode.NONE
    world.pass_time(INTERVAL_MS - 1)
    assert push(world, given) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    world.pass_time(1)
    assert push(world, given) == ErrorCode.NONE
    assert push(world, given, terminating=True) == ErrorCode.NONE
    assert push(world, given) == ErrorCode.INVALID_REQUEST
    assert [each.terminating for each in world.services.telemetry.pushes] == [False, False, True]


def test_a_client_that_is_silent_is_forgotten() -> None:
    """After three intervals it may ask again at once, and its last push counts no more."""
    world = subscribed()
    given = ask(world)
    assert push(world, given, terminating=True) == ErrorCode.NONE
    world.pass_time(3 * INTERVAL_MS)
    assert ask(world, given.client_instance_id).subscription_id == given.subscription_id


def test_a_broker_that_starts_again_knows_no_client() -> None:
    """A client goes on with its id, and asks anew."""
    world = subscribed()
    given = ask(world)
    assert ask(world, given.client_instance_id).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    world.cluster.stop_broker(1)
    world.cluster.start_broker(1)
    assert ask(world, given.client_instance_id).error_code == ErrorCode.NONE


def test_the_largest_push() -> None:
    """telemetry.max.bytes is told, and more is refused."""
    world = subscribed(Inside(config={"telemetry.max.bytes": "10"}))
    given = ask(world)
    assert given.telemetry_max_bytes == 10
    world.pass_time(1)
    assert push(world, given, metrics=bytes(11)) == ErrorCode.TELEMETRY_TOO_LARGE


def test_the_newest_are_kept() -> None:
    """So many, and no more bytes than fit."""
    world = subscribed()
    pushes = world.services.telemetry.pushes
    given = ask(world)
    for number in range(1003):
        world.pass_time(INTERVAL_MS)
        assert push(world, given, metrics=b"%d" % number) == ErrorCode.NONE
    assert [each.metrics for each in pushes][:1] == [b"3"]
    for _ in range(17):
        world.pass_time(INTERVAL_MS)
        assert push(world, given, metrics=bytes(1 << 20)) == ErrorCode.NONE
    assert [len(each.metrics) for each in pushes] == [1 << 20] * 16


@pytest.mark.parametrize("telemetry", [False, True])
def test_brokers_offer_it_on_request(telemetry: bool) -> None:
    """As in Kafka, ApiVersions names the APIs only if something takes the metrics."""
    with BrokerStub(telemetry=telemetry) as stub, Talker(stub) as talker:
        answer: Any = talker.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
        offered = {each.api_key for each in answer.api_keys}
        assert ({Api.GET_TELEMETRY_SUBSCRIPTIONS, Api.PUSH_TELEMETRY} <= offered) is telemetry


def librdkafka(stub: BrokerStub, **more: Any) -> Librdkafka:
    return Librdkafka({"bootstrap.servers": stub.bootstrap, "client.id": "stock", **more})


def test_librdkafka_pushes() -> None:
    """With enable.metrics.push, its default, it pushes what the subscription asks for, and says when it ends."""
    with BrokerStub(telemetry=True) as stub, Talker(stub) as talker:
        stub.create_topic("t")
        configs = {"metrics": "*", "interval.ms": "100", "match": "client_id=stock,client_software_name=librdkafka|confluent-kafka-python"}
        talker.ask(change(CLIENT_METRICS, "m", configs), 1)
        producer = librdkafka(stub)
        producer.produce("t", b"v")
        assert producer.flush(WAIT_S) == 0
        until(lambda: any(each.metrics for each in stub.telemetry), "it has pushed metrics", timeout_s=WAIT_S)
        del producer
        until(lambda: any(each.terminating for each in stub.telemetry), "it has pushed for the last time", timeout_s=WAIT_S)
        assert {each.client_id for each in stub.telemetry} == {"stock"}
        assert any(b"org.apache.kafka.producer" in each.metrics for each in stub.telemetry)


@pytest.mark.parametrize("telemetry", [False, True])
@pytest.mark.parametrize("pushes", [False, True])
def test_librdkafka_is_not_disturbed(telemetry: bool, pushes: bool) -> None:
    """Without a subscription, and whether or not it pushes, a producer works and reports no error."""
    errors: list[object] = []
    with BrokerStub(telemetry=telemetry) as stub:
        stub.create_topic("t")
        producer = librdkafka(stub, **{"enable.metrics.push": pushes, "error_cb": errors.append})
        for number in range(10):
            producer.produce("t", b"%d" % number)
        assert producer.flush(WAIT_S) == 0
        assert len(stub.records("t", 0)) == 10
        assert stub.telemetry == []
    assert [each for each in errors if "Connect" not in str(each) and "Disconnected" not in str(each)] == []


def test_javas_clients_push(java_tools: JavaTools | OneByOne) -> None:
    """The console consumer, with enable.metrics.push by default, reads as without it, and pushes its metrics."""
    with BrokerStub(telemetry=True) as stub, Talker(stub) as talker:
        stub.create_topic("t")
        talker.produce("t", batch(b"v"))
        talker.ask(
            change(CLIENT_METRICS, "m", {"metrics": "*", "interval.ms": "100", "match": "client_software_name=apache-kafka-java"}), 1
        )
        arguments = ("--bootstrap-server", stub.bootstrap, "--topic", "t", "--from-beginning", "--timeout-ms", "3000")
        assert java_tools.run("org.apache.kafka.tools.consumer.ConsoleConsumer", *arguments, timeout=90.0).split() == ["v"]
        until(lambda: any(each.terminating for each in stub.telemetry), "it has pushed for the last time", timeout_s=WAIT_S)
        assert any(b"org.apache.kafka.consumer" in each.metrics for each in stub.telemetry)


def test_the_clock_starts_where_the_tests_say() -> None:
    """A push has the stub's time."""
    clock = VirtualClock(TIMESTAMP_MS)
    with BrokerStub(telemetry=True, clock=clock) as stub, Talker(stub) as talker:
        given: Any = talker.ask(GetTelemetrySubscriptionsRequest(), 0)
        talker.ask(PushTelemetryRequest(client_instance_id=given.client_instance_id, subscription_id=given.subscription_id), 0)
        (taken,) = stub.telemetry
        assert (taken.node, taken.at_ms, taken.client_id, taken.metrics) == (1, TIMESTAMP_MS, "talker", b"")
