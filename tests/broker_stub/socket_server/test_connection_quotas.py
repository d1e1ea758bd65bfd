"""Connections that are many, slow, half open or idle: the stub limits them as Kafka does, and they stop no other client.

A sample by default; FENCEPOST_CONNECTIONS=10000 opens so many, as far as the system allows (`make crowds`).
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from fencepost.broker_stub import BrokerStub, VirtualClock
from fencepost.broker_stub.configs.topic_configs import BrokerConfig, InvalidConfig
from fencepost.broker_stub.socket_server.connection_quotas import ConnectionQuotas
from fencepost.broker_stub.socket_server.server import COMPLAIN_AGAIN_S
from fencepost.producer import Producer
from fencepost.producer.wire import Api
from tests.broker_stub.socket_server import slow_clients as slow_clients_module
from tests.broker_stub.socket_server.slow_clients import raise_limit
from tests.broker_stub.stub_calls import Talker, fetch_request
from tests.waiting import until

DEADLINE_S = 60.0
MANY = int(os.environ.get("FENCEPOST_CONNECTIONS", "600"))
OTHERS = 300  # file descriptors for everything else
IDLE_MS = 600_000
START_MS = 1_700_000_000_000


class Fake:
    """A connection that only remembers."""

    def __init__(self, seen_ms: int, *, busy: bool = False) -> None:
        self.seen_ms = seen_ms
        self.busy = busy
        self.ended = False

    def cut(self, *, flush: bool) -> None:
        self.ended = True


def test_idle_connections_are_closed() -> None:
    """A connection without any traffic for the time is closed, unless it waits for a response. The next check is when the next one may be
    idle, or a hundredth of the time later."""
    connections = ConnectionQuotas(BrokerConfig({"connections.max.idle.ms": "1000"}))
    assert connections.look(5_000) is None
    quiet, young, waiting = Fake(4_000), Fake(4_500), Fake(0, busy=True)
    for each in (quiet, young, waiting):
        assert connections.opened(each, "a")
    assert connections.look(5_000) == 5_500
    assert (quiet.ended, young.ended, waiting.ended) == (True, False, False)
    connections.closed(quiet)
    connections.closed(quiet)
    assert connections.look(5_499) == 5_510
    young.seen_ms = 5_505
    assert connections.look(5_510) == 6_505
    assert ConnectionQuotas(BrokerConfig({"connections.max.idle.ms": "-1"})).look(1 << 60) is None


def test_how_many_there_may_be() -> None:
    """The limits count all connections, and those from one address. A closed connection does not count."""
    connections = ConnectionQuotas(BrokerConfig({"max.connections": "3", "max.connections.per.ip": "2"}))
    first, second, third, other = (Fake(0) for _ in range(4))
    assert [connections.opened(each, "a") for each in (first, second, third)] == [True, True, False]
    connections.closed(third)
    full = [connections.full]
    assert connections.opened(other, "b")
    full.append(connections.full)
    connections.closed(first)
    full.append(connections.full)
    assert full == [False, True, False]
    assert connections.opened(third, "a")
    for name, value in (("max.connections", "0"), ("connections.max.idle.ms", "-2"), ("max.connections.per.ip", "x")):
        with pytest.raises(InvalidConfig, match=name):
            BrokerConfig({name: value})


def test_one_too_many_waits() -> None:
    """Above max.connections a connection is served when another one has ended, and not before."""
    with BrokerStub(config={"max.connections": "2"}) as stub:
        with Talker(stub) as first, Talker(stub) as second, Talker(stub) as third:
            assert [talker.producer_id() for talker in (first, second)] == [0, 1]
            sent = third.send(fetch_request("t"), 12)
            assert third.quiet(0.2)
            assert stub.stats()["open"] == 2
            first.close()
            third.receive(fetch_request("t"), 12, correlation_id=sent)
        until(lambda: stub.stats()["open"] == 0, "they are gone")
        with Talker(stub) as another:
            another.producer_id()


def test_too_many_of_one_address_are_closed() -> None:
    """Above max.connections.per.ip a connection ends as soon as it is there; the others stay, and a place that is free is taken."""
    with BrokerStub(config={"max.connections.per.ip": "2"}) as stub, Talker(stub) as first, Talker(stub) as second:
        assert [talker.producer_id() for talker in (first, second)] == [0, 1]
        with Talker(stub) as third:
            assert third.is_closed()
        first.close()
        until(lambda: stub.stats()["open"] == 1, "it is gone")
        with Talker(stub) as third:
            assert third.producer_id() == 2


def test_the_idle_are_closed() -> None:
    """A connection is closed after connections.max.idle.ms without traffic, also in the middle of a request. A connection with traffic
    stays, and so does one that waits for a response."""
    with BrokerStub(clock=VirtualClock(START_MS)) as stub, ExitStack() as opened:
        held = stub.faults.on(Api.INIT_PRODUCER_ID).hold()
        idle, talking, waiting = (opened.enter_context(Talker(stub)) for _ in range(3))
        half = opened.enter_context(closing(socket.create_connection(stub.addresses[1], timeout=DEADLINE_S)))
        half.sendall(b"\0\0\0\x20\0")
        idle.metadata("t")
        waiting.send(init(), 5)
        held.wait(1, 20)
        # What is sent is not yet heard, and hearing it later would make it busy.
        until(lambda: stub._server and any(each._splitter.pending for each in stub._server._connections), "half a request")
        stub.advance(IDLE_MS // 2)
        talking.metadata("t")
        stub.advance(IDLE_MS // 2 + 1)
        assert idle.is_closed()
        assert half.recv(1) == b""
        talking.metadata("t")
        assert stub.stats()["open"] == 2
        held.release()
        waiting.receive(init(), 5)


def init() -> Any:
    from fencepost.producer.wire import InitProducerIdRequest

    return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)


@contextmanager
def slow_clients(address: tuple[str, int], count: int) -> Iterator[None]:
    """So many connections of another process."""
    command = [sys.executable, slow_clients_module.__file__, address[0], str(address[1]), str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert int(process.stdout.readline()) == count
            yield
        finally:
            process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0


@pytest.mark.timeout(600)
def test_slow_and_half_open_connections_block_no_client() -> None:
    """Hundreds of connections that say nothing, or half of something: our producer and confluent-kafka are served beside them, and when
    they have gone, nothing of them is left."""
    count = min(MANY, raise_limit() - OTHERS)
    print(f"{count} connections")
    with BrokerStub() as stub:
        with slow_clients(stub.addresses[1], count):
            until(lambda: stub.stats()["open"] == count, "they are open", timeout_s=DEADLINE_S)
            with Producer(bootstrap_servers=stub.bootstrap) as producer:
                bulk = producer.send_many("t", [b"%d" % number for number in range(5_000)])
                assert bulk.result(DEADLINE_S).acknowledged == 5_000
            admin = AdminClient({"bootstrap.servers": stub.bootstrap})
            assert "t" in admin.list_topics(timeout=DEADLINE_S).topics
            del admin
        until(lambda: stub.stats()["open"] == 0, "they are gone", timeout_s=DEADLINE_S)
        assert stub._server is not None
        assert not stub._server._connections
        assert len(stub._server._limits[1]) == 0


@pytest.mark.timeout(200)
def test_a_broker_without_file_descriptors_goes_on() -> None:
    """Where the system gives no more sockets, those that are there are served, and new ones once there is room again; it says so now and
    then, not all the time."""
    command = f"ulimit -n 64; exec {sys.executable} -m fencepost broker --port 0"
    began = time.monotonic()
    with subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().rpartition(" ")[2].strip()
            host, port = address.split(":")
            with ExitStack() as opened, Producer(bootstrap_servers=address) as producer:
                assert producer.send("t", b"before").result(DEADLINE_S).offset == 0
                for _ in range(100):
                    opened.enter_context(closing(socket.create_connection((host, int(port)), timeout=DEADLINE_S)))
                assert producer.send("t", b"meanwhile").result(DEADLINE_S).offset == 1
                opened.close()
                with Producer(bootstrap_servers=address) as another:
                    assert another.send("t", b"after").result(DEADLINE_S).offset == 2
        finally:
            process.terminate()
            _, said = process.communicate(timeout=DEADLINE_S)
    assert 1 <= said.count("Too many open files") <= 1 + (time.monotonic() - began) / COMPLAIN_AGAIN_S, said[:2000]
