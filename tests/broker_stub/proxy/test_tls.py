"""A proxy with TLS on either side, and brokers that ask for SASL."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer

from fencepost.broker_stub import BrokerStub, FaultProxy, Sasl, Tls
from fencepost.broker_stub.network import limits
from fencepost.broker_stub.network.tls import client_context
from fencepost.broker_stub.proxy import discovery, tls_side
from fencepost.producer import Producer
from fencepost.producer.wire import Api
from tests.certificates import Authority, Certificate, authority
from tests.credentials import MECHANISMS, USERS, ours
from tests.waiting import until

__all__ = ["authority"]

LIMIT_S: Final = 30.0
TOPIC: Final = "sealed"


@pytest.fixture(scope="module")
def own(authority: Authority) -> Certificate:
    """The certificate of brokers and proxy alike."""
    return authority.issue("localhost", "127.0.0.1")


@pytest.fixture
def stub(authority: Authority, own: Certificate) -> Iterator[BrokerStub]:
    """Three brokers with TLS."""
    with BrokerStub(brokers=3, tls=(own.certfile, own.keyfile)) as stub:
        stub.create_topic(TOPIC, partitions=3)
        yield stub


def write(proxy: FaultProxy, count: int = 300, **settings: Any) -> None:
    """Records over all partitions, each acknowledged, while replies are lost."""
    proxy.faults.on(Api.PRODUCE).drop_reply().times(2)
    with Producer(bootstrap_servers=proxy.bootstrap, request_timeout_ms=500, linger_ms=0, **settings) as producer:
        futures = [producer.send(TOPIC, b"%d" % number, partition=number % 3) for number in range(count)]
        producer.flush(timeout=LIMIT_S)
        assert all(future.result(LIMIT_S).offset >= 0 for future in futures)


def stored(stub: BrokerStub, count: int = 300) -> None:
    """Each record is in the log once, and a batch came twice."""
    values = [record.value for partition in range(3) for record in stub.records(TOPIC, partition)]
    assert sorted(values, key=lambda value: int(value or b"-1")) == [b"%d" % number for number in range(count)]
    assert stub.stats()["duplicates"] >= 1


@pytest.mark.parametrize("is_sealed", [False, True], ids=["plain clients", "TLS clients"])
def test_brokers_with_tls(stub: BrokerStub, authority: Authority, own: Certificate, is_sealed: bool) -> None:
    """Clients of the proxy speak TLS or none; faults happen, and each record is there once."""
    listens: dict[str, Any] = {"tls": (own.certfile, own.keyfile)} if is_sealed else {}
    settings: dict[str, Any] = {"security_protocol": "SSL", "ssl_cafile": authority.cafile} if is_sealed else {}
    with FaultProxy(stub.bootstrap, upstream_tls=authority.cafile, **listens) as proxy:
        assert len(proxy.addresses) == 3
        write(proxy, **settings)
        assert {exchange.api for exchange in proxy.journal.requests()} >= {Api.PRODUCE, Api.METADATA}
    stored(stub)


def read(proxy: FaultProxy, authority: Authority, count: int) -> list[bytes]:
    """What confluent-kafka reads through the proxy, with TLS."""
    settings = {"bootstrap.servers": proxy.bootstrap, "security.protocol": "ssl", "ssl.ca.location": authority.cafile, "group.id": "g"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "fetch.message.max.bytes": 8_000_000})
    found: list[bytes] = []
    try:
        consumer.subscribe([TOPIC])
        ends = time.monotonic() + LIMIT_S
        while len(found) < count and time.monotonic() < ends:
            found += [message.value() or b"" for message in consumer.consume(count, 0.5)]
    finally:
        consumer.close()
    return found


def test_a_stock_client_with_tls(stub: BrokerStub, authority: Authority, own: Certificate) -> None:
    """confluent-kafka reads through a proxy with TLS on both sides, and closes in peace: no connection is left."""
    with FaultProxy(stub.bootstrap, upstream_tls=authority.cafile, tls=Tls(own.certfile, own.keyfile)) as proxy:
        write(proxy, security_protocol="SSL", ssl_cafile=authority.cafile)
        assert len(read(proxy, authority, 300)) == 300
        until(lambda: proxy.stats()["open"] == 0, "the clients' connections end", timeout_s=LIMIT_S)


def test_a_clients_certificate(authority: Authority, own: Certificate) -> None:
    """Brokers that require a client's certificate get the proxy's, and know its clients by that name."""
    client = authority.issue("alice", common_name="alice")
    with BrokerStub(tls=Tls(own.certfile, own.keyfile, client_ca=authority.cafile)) as stub:
        stub.create_topic(TOPIC, partitions=3)
        with FaultProxy(stub.bootstrap, upstream_tls=client_context(authority.cafile, client.certfile, client.keyfile)) as proxy:
            write(proxy)
        stored(stub)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_brokers_with_sasl(stub: BrokerStub, authority: Authority, own: Certificate, mechanism: str) -> None:
    """The proxy has no password. It listens for the given address, and learns the others from what brokers answer to an authenticated
    client. The journal shows no password."""
    with BrokerStub(brokers=3, tls=(own.certfile, own.keyfile), sasl=Sasl(users=USERS, mechanisms=MECHANISMS)) as guarded:
        guarded.create_topic(TOPIC, partitions=3)
        first = guarded.bootstrap.split(",")[0]
        with FaultProxy(first, upstream_tls=authority.cafile) as proxy:
            assert list(proxy.addresses) == [-1]
            write(proxy, security_protocol="SASL_PLAINTEXT", **ours(mechanism))
            assert sorted(proxy.addresses) == [-1, 0, 1, 2] or sorted(proxy.addresses) == [-1, 1, 2, 3]
            shown = repr(proxy.journal.requests())
            assert not [password for password in USERS.values() if password in shown]
        stored(guarded)


@pytest.mark.parametrize("how", ["no TLS", "another CA", "another host"])
def test_the_reason_why_brokers_cannot_be_reached(
    stub: BrokerStub, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The error at the start names it."""
    monkeypatch.setattr(discovery, "DISCOVER_TIMEOUT_S", 2.0)
    chosen: dict[str, Any] = {}
    with ExitStack() as stack:
        upstream, expected = stub.bootstrap, "it closes the connection, as one does that speaks TLS"
        if how == "another CA":
            chosen, expected = {"upstream_tls": Authority(tmp_path).cafile}, "certificate verify failed"
        elif how == "another host":
            elsewhere = authority.issue("kafka.example")
            other = stack.enter_context(BrokerStub(tls=(elsewhere.certfile, elsewhere.keyfile)))
            upstream, chosen, expected = other.bootstrap, {"upstream_tls": authority.cafile}, "certificate is not valid for '127.0.0.1'"
        with pytest.raises(ConnectionError, match=expected):
            FaultProxy(upstream, **chosen).start()


def test_clients_that_are_not_tls(
    stub: BrokerStub, authority: Authority, own: Certificate, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A client without TLS is cut off at once, one that says nothing after a time; others are served, and no thread or socket is left."""
    monkeypatch.setattr(tls_side, "HANDSHAKE_TIMEOUT_S", 0.3)
    before = set(threading.enumerate())
    with FaultProxy(stub.bootstrap, upstream_tls=authority.cafile, tls=(own.certfile, own.keyfile)) as proxy:
        (address, *_) = proxy.addresses.values()
        with socket.create_connection(address, LIMIT_S) as plain, caplog.at_level(logging.INFO):
            plain.sendall(b"\0\0\0\x10 no TLS at all")
            while plain.recv(1_000):
                pass
        assert "a client's connection is closed" in caplog.text
        with socket.create_connection(address, LIMIT_S) as silent:
            assert silent.recv(1_000) == b""
        write(proxy, security_protocol="SSL", ssl_cafile=authority.cafile)
        context = ssl.create_default_context(cafile=authority.cafile)
        left_open = context.wrap_socket(socket.create_connection(address, LIMIT_S), server_hostname="127.0.0.1")
        half_open = socket.create_connection(address, LIMIT_S)
    for each in (left_open, half_open):
        each.settimeout(LIMIT_S)
        with each, suppress(ConnectionResetError):
            assert each.recv(1_000) == b""
    assert set(threading.enumerate()) == before
    stored(stub)


def test_a_farewell_ends_the_connection(stub: BrokerStub, authority: Authority, own: Certificate) -> None:
    """A client that ends its TLS session gets the proxy's own end."""
    with FaultProxy(stub.bootstrap, upstream_tls=authority.cafile, tls=(own.certfile, own.keyfile)) as proxy:
        (address, *_) = proxy.addresses.values()
        context = ssl.create_default_context(cafile=authority.cafile)
        with context.wrap_socket(socket.create_connection(address, LIMIT_S), server_hostname="127.0.0.1") as client:
            client.settimeout(LIMIT_S)
            client.unwrap().close()
        until(lambda: proxy.stats()["open"] == 0, "the connection ends", timeout_s=LIMIT_S)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"upstream_tls": 5}, "upstream_tls=5: must be True, the file of a CA, or an SSLContext"),
        ({"upstream_tls": "/nowhere/ca.pem"}, "the file '/nowhere/ca.pem' does not exist"),
        ({"tls": True}, "tls=True: must be a Tls, a pair"),
    ],
)
def test_wrong_arguments(given: dict[str, Any], error: str) -> None:
    """The error names the argument and its value, before anything is opened."""
    with pytest.raises((TypeError, OSError), match=error):
        FaultProxy("localhost:9092", **given)


def test_many_bytes(stub: BrokerStub, authority: Authority, own: Certificate) -> None:
    """Large requests and responses pass with TLS on both sides, in order and unchanged."""
    values = [bytes([number]) * 700_000 for number in range(20)]
    settings: dict[str, Any] = {"security_protocol": "SSL", "ssl_cafile": authority.cafile}
    with FaultProxy(stub.bootstrap, upstream_tls=authority.cafile, tls=(own.certfile, own.keyfile)) as proxy:
        with Producer(bootstrap_servers=proxy.bootstrap, **settings) as producer:
            for value in values:
                producer.send(TOPIC, value, partition=0)
        found = read(proxy, authority, len(values))
    assert found == values
    assert sum(map(len, values)) > limits.WRITE_BUFFER_BYTES_MAX
