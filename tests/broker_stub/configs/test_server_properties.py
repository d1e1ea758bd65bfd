"""Where brokers listen and what clients are told of it, said as arguments and as a server.properties has it."""

from __future__ import annotations

import logging
import socket
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub, FaultProxy
from fencepost.broker_stub.configs.server_properties import read_properties
from fencepost.broker_stub.configs.topic_configs import InvalidConfig
from fencepost.broker_stub.handlers.config_entries import broker_entries
from fencepost.broker_stub.network.listeners import is_local, reachable
from fencepost.producer import Producer, wire
from fencepost.producer.wire.messages.cluster import DescribeClusterRequest, DescribeClusterResponse
from tests.conformance.raw import RawConnection

DEADLINE_S = 20.0

STOCK = """\
# What a broker that is also the controller is started with.
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:0,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,\\
    SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL

! threads, sockets and disks
num.network.threads=3
num.io.threads = 8
socket.send.buffer.bytes: 102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.recovery.threads.per.data.dir=1

num.partitions=3
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=2
log.roll.hours=5
log.roll.ms=7000
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def told(port: int, host: str = "127.0.0.1") -> set[str]:
    """Every host that answers name when they are asked at that port."""
    with RawConnection((host, port)) as connection:
        metadata = connection.ask(wire.MetadataRequest(topics=[]), 12)
        cluster = connection.ask(DescribeClusterRequest(), 1)
        found = connection.ask(wire.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    assert isinstance(metadata, wire.MetadataResponse)
    assert isinstance(cluster, DescribeClusterResponse)
    assert isinstance(found, wire.FindCoordinatorResponse)
    coordinators = [each.host for each in found.coordinators if each.host]
    return {*(each.host for each in metadata.brokers), *(each.host for each in cluster.brokers), *coordinators}


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "0:0::0"])
def test_a_wildcard_is_never_advertised(host: str) -> None:
    """Brokers, and a proxy, that listen everywhere tell clients an address that they can connect to, and records arrive there."""
    if ":" in host and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    loopback = "::1" if ":" in host else "127.0.0.1"
    with BrokerStub(brokers=2, host=host) as stub, FaultProxy(stub.bootstrap, host=host or "0.0.0.0") as proxy:
        for running in (stub, proxy):
            named = {where for where, _ in running.addresses.values()}
            assert named == {reachable(host)}
            assert named.isdisjoint({"", "0.0.0.0", "::"})
            assert told(running.addresses[1][1], loopback) == named
            with Producer(bootstrap_servers=running.bootstrap) as producer:
                producer.send("t", b"v").result(DEADLINE_S)
        assert len(stub.records("t", 0)) == 2
        stub.restart_broker(1, port=0)
        assert told(stub.addresses[1][1], loopback) == named


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def test_a_host_is_advertised() -> None:
    """Clients are told the host that was given for them, while brokers listen, and are described to listen, where they were told to."""
    with (
        BrokerStub(brokers=2, advertised_host="localhost") as stub,
        FaultProxy(stub.bootstrap, advertised_host="localhost") as proxy,
    ):
        for running in (stub, proxy):
            assert {host for host, _ in running.addresses.values()} == {"localhost"}
            assert told(running.addresses[2][1]) == {"localhost"}
        described = {each.name: each.value for each in broker_entries(stub.cluster, stub.cluster.brokers[1])}
        port = stub.addresses[1][1]
        assert described["listeners"] == f"PLAINTEXT://127.0.0.1:{port}"
        assert described["advertised.listeners"] == f"PLAINTEXT://localhost:{port}"
        with Producer(bootstrap_servers=proxy.bootstrap) as producer:
            assert producer.send("t", b"v").result(DEADLINE_S).offset == 0


def test_a_stock_file_is_taken_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """What a broker of Kafka is started with starts a stub: what it says of listeners, partitions and retention counts, with coarser units
    below finer ones, and what means nothing here is named once."""
    with caplog.at_level(logging.WARNING), BrokerStub(config=read_properties(STOCK)) as stub:
        stub.create_topic("made")
        assert told(stub.addresses[1][1]) == {reachable("0.0.0.0")}
        assert stub.cluster.default_partitions == 3
        made = stub.cluster.topics.named("made")
        assert made is not None
        assert made.config["retention.ms"] == str(2 * 3_600_000)
        assert made.config["segment.ms"] == "7000"
    (warning,) = caplog.messages
    for name in ("log.dirs", "node.id", "num.io.threads", "process.roles"):
        assert name in warning
    for name in ("listeners", "num.partitions", "log.retention.hours"):
        assert f"{name}," not in warning


def test_listeners_say_what_arguments_say() -> None:
    """`listeners` and `advertised.listeners` are host, port and advertised host, with controllers' listeners left aside."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    config: dict[str, Any] = {
        "listeners": f"OURS://127.0.0.1:{port},CTL://:9093",
        "advertised.listeners": f"OURS://localhost:{port}",
        "listener.security.protocol.map": "OURS:PLAINTEXT,CTL:PLAINTEXT",
        "controller.listener.names": "CTL",
    }
    with BrokerStub(config=config) as stub:
        assert stub.addresses == {1: ("localhost", port)}
        with Producer(bootstrap_servers=stub.bootstrap) as producer:
            assert producer.send("t", b"v").result(DEADLINE_S).offset == 0
    with BrokerStub(config={"listeners": "SASL_PLAINTEXT://[::1]:0"}, sasl={"alice": "secret"}) as stub:
        assert stub.addresses[1][0] == "::1"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"advertised_host": "0.0.0.0"}, "advertised_host='0.0.0.0'"),
        ({"advertised_host": "::"}, "advertised_host='::'"),
        ({"advertised_host": "kafka:9092"}, "advertised_host='kafka:9092'"),
        ({"advertised_host": ""}, "advertised_host=''"),
        ({"config": {"listeners": "PLAINTEXT://a:1,SSL://b:2"}}, "one listener for clients"),
        ({"config": {"listeners": "PLAINTEXT://a"}}, "is not HOST:PORT"),
        ({"config": {"listeners": "PLAINTEXT://a:99999"}}, "is not HOST:PORT"),
        ({"config": {"listeners": "SSL://:0"}}, "make it PLAINTEXT"),
        ({"config": {"listeners": "X://:0", "listener.security.protocol.map": "X:SASL_SSL"}}, "SASL_SSL"),
        ({"config": {"listeners": "PLAINTEXT://:0"}, "port": 0}, "give only one of the two"),
        ({"config": {"advertised.listeners": "PLAINTEXT://a:0"}, "advertised_host": "b"}, "give only one of the two"),
        ({"config": {"advertised.listeners": "PLAINTEXT://kafka:19092"}, "port": 9092}, "its port must be 9092"),
        ({"config": {"advertised.listeners": "PLAINTEXT://0.0.0.0:0"}}, "advertised_host='0.0.0.0'"),
        ({"config": {"log.retention.hours": "many"}}, "'log.retention.hours'"),
        ({"config": {"log.dirz": "x"}}, "unknown broker config 'log.dirz'"),
    ],
    ids=str,
)
def test_contradicting_properties_are_refused(options: dict[str, Any], said: str) -> None:
    """What contradicts itself, or could never be connected to, is named when the stub is made."""
    with pytest.raises(InvalidConfig) as refused:
        BrokerStub(**options)
    assert said in str(refused.value)


def test_properties_are_read_as_java_reads_them() -> None:
    """Comments, three ways to end a name, lines that go on, and the last word."""
    text = "# no=1\n! no=2\n\n a = 1 \nb:2\nc 3\nd=4\\\n  5\nurl=PLAINTEXT://x:1\nempty=\nbare\na=9\nlast=\\"
    assert read_properties(text) == {
        "a": "9",
        "b": "2",
        "c": "3",
        "d": "45",
        "url": "PLAINTEXT://x:1",
        "empty": "",
        "bare": "",
        "last": "",
    }


@pytest.mark.parametrize(
    ("host", "local"), [("127.0.0.1", True), ("127.8.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("kafka", False)]
)
def test_what_is_local(host: str, local: bool) -> None:
    """Loopback, by address or name, is this machine's alone; everything else may be reached by others."""
    assert is_local(host) is local
