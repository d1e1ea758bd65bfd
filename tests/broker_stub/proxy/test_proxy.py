"""FaultProxy in front of the stub and of Apache Kafka: clients stay behind it, survive its faults, and see brokers come and go."""

from __future__ import annotations

import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.faults.rules import Kind
from fencepost.broker_stub.journal.exchange import Heard
from fencepost.broker_stub.proxy import hub as proxy_hub
from fencepost.broker_stub.proxy.proxy import FaultProxy
from fencepost.producer import wire
from fencepost.producer.wire import Api, ErrorCode
from tests.broker_stub.proxy.proxy_site import TIMEOUT_S, Site, codes, site
from tests.conformance import batches
from tests.conformance.asks_log import produce_request
from tests.conformance.fixtures import ClusterFactory, kafka, kafka_cluster
from tests.conformance.raw import Closed, RawConnection
from tests.conformance.stage import Topic
from tests.drawn import drawn
from tests.waiting import until

__all__ = ["kafka", "kafka_cluster", "site"]

pytestmark = pytest.mark.timeout(300)


def test_clients_only_ever_learn_the_proxys_addresses(site: Site) -> None:
    """Metadata through the proxy names the proxy's listeners, one for each broker; also when a rule has to read the request,
    behind whose body librdkafka leaves bytes that mean nothing."""
    read = site.proxy.faults.on(Api.METADATA).where(topic="another").before().delay(1)
    told = AdminClient({"bootstrap.servers": site.proxy.bootstrap}).list_topics(timeout=TIMEOUT_S).brokers
    assert {node: (str(each.host), each.port) for node, each in told.items()} == site.proxy.addresses
    assert site.proxy.bootstrap != site.upstream
    assert read.hits == 1  # a request for all topics is about this one too


def test_records_pass_in_both_directions(site: Site) -> None:
    """What confluent-kafka produces through the proxy, it consumes through the proxy: group, fetches and all."""
    values = [b"value %d" % number for number in range(2000)]
    _produce(site, values)
    assert _consume(site, len(values)) == values


@drawn(2, kind=lambda row: row["site"])
@pytest.mark.parametrize(
    ("fault", "times"),
    [
        pytest.param(lambda rule: rule.drop_reply(), 1, id="reply dropped"),
        pytest.param(lambda rule: rule.before().drop(), 1, id="request dropped"),
        pytest.param(lambda rule: rule.before().disconnect(), 2, id="cut before"),
        pytest.param(lambda rule: rule.after_append().disconnect(), 2, id="cut after"),
        pytest.param(lambda rule: rule.reply().disconnect(), 2, id="cut in the reply"),
        pytest.param(lambda rule: rule.before().error(ErrorCode.NOT_ENOUGH_REPLICAS), 2, id="refused before"),
        pytest.param(lambda rule: rule.after_append().error(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND), 2, id="error after"),
        pytest.param(lambda rule: rule.before().duplicate(), 2, id="duplicated"),
        pytest.param(lambda rule: rule.before().delay(50), 2, id="delayed before"),
        pytest.param(lambda rule: rule.reply().delay(50), 2, id="reply delayed"),
        pytest.param(lambda rule: rule.reply().throttle(50), 2, id="throttled"),
    ],
)
def test_an_idempotent_producer_survives(site: Site, fault: Callable[[object], object], times: int) -> None:
    """One or two Produce requests fail in any way. An idempotent producer's records are in the log once and in order."""
    rule = site.proxy.faults.on(Api.PRODUCE).where(topic=site.topic.name).times(times)
    installed = fault(rule)
    values = [b"value %d" % number for number in range(300)]
    _produce(site, values)
    assert installed.hits == times  # type: ignore[attr-defined]
    assert site.proxy.stats()["connections_cut"] == (times if installed.kind is Kind.DISCONNECT else 0)  # type: ignore[attr-defined]
    assert _consume(site, len(values)) == values
    assert site.end_offset() == len(values)


def test_without_idempotence_a_lost_reply_doubles_records(site: Site) -> None:
    """The faults are real: the same producer without idempotence writes a batch twice when its answer is lost."""
    site.proxy.faults.on(Api.PRODUCE).after_append().disconnect()
    _produce(site, [b"once"], **{"enable.idempotence": False})
    assert site.end_offset() == 2


def _produce(site: Site, values: list[bytes], **changes: object) -> None:
    config = {
        "bootstrap.servers": site.proxy.bootstrap,
        "enable.idempotence": True,
        "linger.ms": 0,
        "batch.num.messages": 20,
        "request.timeout.ms": 1000,
        "socket.timeout.ms": 1000,
        "retry.backoff.ms": 20,
        "reconnect.backoff.ms": 10,
        "log_level": 0,
    }
    failures: list[object] = []
    client = Producer({**config, **changes})
    for value in values:
        client.produce(site.topic.name, value, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert client.flush(TIMEOUT_S) == 0
    assert failures == []


def _consume(site: Site, count: int) -> list[bytes]:
    config = {
        "bootstrap.servers": site.proxy.bootstrap,
        "group.id": f"group-{secrets.token_hex(4)}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    client = Consumer(config)
    try:
        client.assign([TopicPartition(site.topic.name, 0, 0)])
        values: list[bytes] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(values) < count and time.monotonic() < deadline:
            for message in client.consume(count, timeout=0.2):
                assert message.error() is None, message.error()
                values.append(message.value() or b"")
        return values
    finally:
        client.close()


def test_coordinators_are_behind_the_proxy_too(site: Site) -> None:
    """FindCoordinator names the proxy, in the old form and the new one."""
    addresses = set(site.proxy.addresses.values())
    with site.connection() as connection:
        until(
            lambda: 0 in codes(connection.ask(wire.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)),
            "the group has a coordinator",
        )
        new = connection.ask(wire.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        old = connection.ask(wire.FindCoordinatorRequest(key_type=0, key="g"), 3)
    assert isinstance(new, wire.FindCoordinatorResponse)
    assert isinstance(old, wire.FindCoordinatorResponse)
    assert {(new.coordinators[0].host, new.coordinators[0].port), (old.host, old.port)} <= addresses


def test_versions_of_the_future_are_still_negotiated(site: Site) -> None:
    """The broker's answer to an unknown version of ApiVersions passes, and the share APIs are not offered."""
    with site.connection() as connection:
        connection.send_frame(bytes.fromhex("0012 0063 00000009 0001 63 00".replace(" ", "")))
        assert connection.receive_frame().hex() == "00000009002300000001001200000004"
        answer = connection.ask(wire.ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
    assert isinstance(answer, wire.ApiVersionsResponse)
    assert {each.api_key for each in answer.api_keys} & {78, 79} == set()


def test_links_can_be_cut(site: Site) -> None:
    """`cut_connections` ends every connection now and says how many."""
    with site.connection() as first, site.connection() as second:
        first.ask(wire.ApiVersionsRequest(), 0)
        second.ask(wire.ApiVersionsRequest(), 0)
        assert site.proxy.cut_connections() == 2
        assert first.is_closed()
        assert second.is_closed()
    assert site.proxy.stats()["connections_cut"] == 2


def test_a_follower_names_the_leader_by_the_proxys_address() -> None:
    """NOT_LEADER_OR_FOLLOWER carries the leader's address: the proxy's."""
    batches.begin()
    with BrokerStub(brokers=3) as stub, FaultProxy(stub.bootstrap) as proxy:
        stub.create_topic("t", replication_factor=3)
        leader = stub.leader("t", 0)
        follower = next(node for node in proxy.addresses if node != leader)
        with RawConnection(proxy.addresses[follower]) as connection:
            answer = connection.ask(produce_request([(Topic("t", wire.ZERO_UUID), 0, batches.plain().encode())], 12), 12)
        assert isinstance(answer, wire.ProduceResponse)
        assert [(each.node_id, (each.host, each.port)) for each in answer.node_endpoints] == [(leader, proxy.addresses[leader])]


def test_a_broker_that_stops_takes_its_clients_connections_along() -> None:
    """The client sees its connection end, cannot stay connected while the broker is down, and can when it is back."""
    with BrokerStub() as stub, FaultProxy(stub.bootstrap) as proxy:
        (address,) = proxy.addresses.values()
        with RawConnection(address) as connection:
            connection.ask(wire.ApiVersionsRequest(), 0)
            stub.stop_broker(1)
            assert connection.is_closed()
        with RawConnection(address) as connection:
            assert connection.is_closed()
        assert proxy.stats()["unreachable"] == 1
        stub.start_broker(1)
        with RawConnection(address) as connection:
            connection.ask(wire.ApiVersionsRequest(), 0)


def test_a_killed_kafka_comes_back_behind_the_same_address(kafka_cluster: ClusterFactory) -> None:
    """SIGKILL of the broker ends the client's connection; after the restart the same proxy serves again, DescribeCluster included."""
    cluster = kafka_cluster()
    with FaultProxy(cluster.bootstrap) as proxy:
        (address,) = proxy.addresses.values()
        with RawConnection(address) as connection:
            connection.ask(wire.ApiVersionsRequest(), 0)
            cluster.kill_broker(1)
            assert connection.is_closed()
        cluster.start_broker(1)
        admin = AdminClient({"bootstrap.servers": proxy.bootstrap, "log_level": 0})
        described = admin.describe_cluster(request_timeout=TIMEOUT_S).result()
        assert [(node.host, node.port) for node in described.nodes] == [address]


def test_an_upstream_that_is_not_there_is_said_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting in front of nothing raises ConnectionError with the address, and leaves no thread."""
    monkeypatch.setattr("fencepost.broker_stub.proxy.discovery.DISCOVER_TIMEOUT_S", 0.3)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        with pytest.raises(ConnectionError, match=str(port)):
            FaultProxy(f"127.0.0.1:{port}").start()
    assert not [thread for thread in threading.enumerate() if thread.name == "fault-proxy"]


def test_an_upstream_that_is_no_broker_is_said_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A web server's answer is not read as one of two gigabytes: the error shows what it began with, also where the time was up before it
    had answered once more."""
    monkeypatch.setattr("fencepost.broker_stub.proxy.discovery.DISCOVER_TIMEOUT_S", 1.0)
    silent = []

    def answer(listener: socket.socket) -> None:
        with suppress(OSError):
            with listener.accept()[0] as client:
                client.recv(1000)
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            while True:
                silent.append(listener.accept()[0])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=answer, args=(listener,), daemon=True)
        server.start()
        with pytest.raises(ConnectionError, match="HTTP"):
            FaultProxy(f"127.0.0.1:{listener.getsockname()[1]}").start()
        listener.shutdown(socket.SHUT_RDWR)
    server.join(TIMEOUT_S)
    assert not server.is_alive()
    assert silent
    for client in silent:
        client.close()


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70_000), ("127.0.0.1", -5), ("x" * 300, 9092), ("a..b", 9092), ("a\0b", 9092)])
def test_clients_of_an_impossible_address_are_cut_off_at_once(host: str, port: int, caplog: pytest.LogCaptureFixture) -> None:
    """A broker advertises an impossible address. Clients that connect to it are cut off at once, instead of waiting in vain."""
    with BrokerStub() as stub, FaultProxy(stub.bootstrap) as proxy, RawConnection(proxy.addresses[1]) as connection:
        broker = stub.cluster.brokers[1]
        broker.host, broker.port = host, port
        answer = connection.ask(wire.MetadataRequest(topics=[]), 12)
        assert isinstance(answer, wire.MetadataResponse)
        assert [(each.host, each.port) for each in answer.brokers] == [proxy.addresses[1]]
        with RawConnection(proxy.addresses[1]) as sent_there, pytest.raises(Closed):
            sent_there.ask(wire.MetadataRequest(topics=[]), 12)
        assert proxy.stats()["unreachable"] == 1
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []


def test_a_cluster_has_so_many_nodes(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Where there can be no listener for a node, no client learns the node's own address: the connection is cut, and the reason logged."""
    monkeypatch.setattr(proxy_hub, "NODES_MAX", 1)
    with BrokerStub(brokers=2) as stub:
        stub.stop_broker(2)
        with FaultProxy(stub.bootstrap.split(",")[0]) as proxy, RawConnection(proxy.addresses[1]) as connection:
            stub.start_broker(2)
            with pytest.raises(Closed):
                connection.ask(wire.MetadataRequest(topics=[]), 12)
            assert list(proxy.addresses) == [1]
    assert [record.name for record in caplog.records if record.levelname == "WARNING"] == ["fencepost.broker_stub.proxy.connection"]


def test_closing_leaves_nothing_behind() -> None:
    """Connections end, listeners refuse, the thread is gone; closing again does nothing."""
    with BrokerStub() as stub:
        proxy = FaultProxy(stub.bootstrap).start()
        (address,) = proxy.addresses.values()
        fault = proxy.faults.on(Api.API_VERSIONS).before().hold()
        with RawConnection(address) as connection, RawConnection(address):
            connection.send(wire.ApiVersionsRequest(), 0)
            fault.wait(1, 20)
            proxy.close()
            assert connection.is_closed()
        proxy.close()
        fault.release()
        with pytest.raises(ConnectionRefusedError):
            RawConnection(address)
        assert not [thread for thread in threading.enumerate() if thread.name == "fault-proxy"]


def test_a_client_that_is_gone_when_its_answers_come(caplog: pytest.LogCaptureFixture) -> None:
    """A proxy whose process was stopped finds both at once: the answers, and that the client has reset its connection. It writes nothing
    to that, its journal does not say that the client heard them, and asyncio logs nothing."""
    stopped, go_on = threading.Event(), threading.Event()

    def stop() -> None:
        stopped.set()
        go_on.wait(TIMEOUT_S)

    with BrokerStub() as stub, FaultProxy(stub.bootstrap) as proxy:
        client = RawConnection(proxy.addresses[1])
        first = stub.faults.on(Api.API_VERSIONS).reply().hold()
        for _ in range(20):
            client.send(wire.ApiVersionsRequest(), 0)
        until(lambda: len(proxy.journal.requests(Api.API_VERSIONS)), "they are passed on", good=lambda found: found == 20)
        until(lambda: first.hits, "the broker holds the first answer")
        stopping = threading.Thread(target=proxy._call, args=[stop])
        stopping.start()
        assert stopped.wait(TIMEOUT_S)
        first.release()
        asked = stub.journal.requests(Api.API_VERSIONS)[-20:]
        until(lambda: asked[0].response is not None, "the answers are on their way")
        time.sleep(0.2)
        client._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        go_on.set()
        stopping.join()
        until(lambda: proxy._running()._connections, "the client is forgotten", good=lambda found: not found)
        # What is written first may be what tells the proxy.
        assert [each.heard for each in proxy.journal.requests(Api.API_VERSIONS)][1:] == [Heard.NOTHING] * 19
    assert caplog.messages == []
