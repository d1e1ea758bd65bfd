"""Stock clients, on listeners with TLS and with every SASL mechanism that they support: they write, and read it back."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from fencepost.broker_stub import BrokerStub, Sasl, Tls
from fencepost.producer.wire import Api
from tests.broker_stub.stub_calls import DEADLINE_S
from tests.certificates import Authority, Certificate, authority
from tests.credentials import MECHANISMS, USERS, jwt

__all__ = ["authority"]

COUNT = 200
RECORDS = [b"value-%d" % number for number in range(COUNT)]


class Listener(NamedTuple):
    """A stub, and what a client has to know of it."""

    stub: BrokerStub
    protocol: str
    cafile: str
    client: Certificate

    @property
    def secure(self) -> bool:
        return self.protocol.endswith("SSL")


@pytest.fixture(scope="module")
def listener(request: pytest.FixtureRequest, authority: Authority) -> Iterator[Listener]:
    """With SASL, with both, and with mutual TLS alone."""
    protocol: str = request.param
    server, client = authority.issue("localhost", "127.0.0.1"), authority.issue("alice", common_name="alice")
    tls = Tls(server.both, client_ca=authority.cafile if protocol == "SSL" else None) if protocol.endswith("SSL") else None
    sasl = Sasl(USERS, MECHANISMS) if protocol.startswith("SASL") else None
    with BrokerStub(brokers=2, tls=tls, sasl=sasl, journal=20_000) as stub:
        yield Listener(stub, protocol, authority.cafile, client)


EVERY_WAY = pytest.mark.parametrize(
    ("listener", "mechanism"),
    [("SSL", None), *((protocol, mechanism) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS)],
    indirect=["listener"],
)


@pytest.fixture
def topic(listener: Listener, request: pytest.FixtureRequest) -> str:
    name = f"t-{abs(hash(request.node.name))}"
    listener.stub.create_topic(name)
    return name


def check(listener: Listener, topic: str, read: list[bytes | None], mechanism: str | None) -> None:
    """What was sent is in the log and was read, once and in order; it was sent by the user, under that mechanism."""
    assert [record.value for record in listener.stub.records(topic, 0)] == RECORDS
    assert read == RECORDS
    asked: list[Any] = [exchange.request for exchange in listener.stub.journal.requests(Api.SASL_HANDSHAKE)]
    assert mechanism is None or asked[-1].mechanism == mechanism


def librdkafka(listener: Listener, mechanism: str | None) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap.servers": listener.stub.bootstrap, "security.protocol": listener.protocol}
    if listener.secure:
        settings["ssl.ca.location"] = listener.cafile
    if listener.protocol == "SSL":
        settings |= {"ssl.certificate.location": listener.client.certfile, "ssl.key.location": listener.client.keyfile}
    if mechanism == "OAUTHBEARER":
        settings |= {"sasl.mechanisms": mechanism, "oauth_cb": lambda config: (jwt(), time.time() + 300)}
    elif mechanism is not None:
        settings |= {"sasl.mechanisms": mechanism, "sasl.username": "alice", "sasl.password": USERS["alice"]}
    return settings


@EVERY_WAY
def test_confluent_kafka(listener: Listener, topic: str, mechanism: str | None) -> None:
    """librdkafka."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    settings = librdkafka(listener, mechanism)
    producer = Producer({**settings, "enable.idempotence": True})
    for value in RECORDS:
        producer.produce(topic, value, partition=0)
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer({**settings, "group.id": "nobody", "enable.auto.commit": False})
    read: list[bytes | None] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + DEADLINE_S
        while len(read) < COUNT:
            assert time.monotonic() < deadline, len(read)
            read += [message.value() for message in consumer.consume(COUNT, 0.2) if message.error() is None]
    finally:
        consumer.close()
    check(listener, topic, read, mechanism)


def python(listener: Listener, mechanism: str | None, provider: Any) -> dict[str, Any]:
    """Settings that kafka-python and aiokafka have in common."""
    settings: dict[str, Any] = {"bootstrap_servers": listener.stub.bootstrap, "security_protocol": listener.protocol}
    if listener.secure:
        context = ssl.create_default_context(cafile=listener.cafile)
        if listener.protocol == "SSL":
            context.load_cert_chain(listener.client.certfile, listener.client.keyfile)
        settings["ssl_context"] = context
    if mechanism == "OAUTHBEARER":
        settings |= {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": provider}
    elif mechanism is not None:
        settings |= {"sasl_mechanism": mechanism, "sasl_plain_username": "alice", "sasl_plain_password": USERS["alice"]}
    return settings


@EVERY_WAY
def test_kafka_python(listener: Listener, topic: str, mechanism: str | None) -> None:
    """kafka-python."""
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python publishes no types
        def token(self) -> str:
            return jwt()

    settings = python(listener, mechanism, Provider() if mechanism == "OAUTHBEARER" else None)
    producer = KafkaProducer(**settings, acks="all")
    try:
        for value in RECORDS:
            producer.send(topic, value, partition=0)
        producer.flush(timeout=DEADLINE_S)
    finally:
        producer.close(timeout=DEADLINE_S)
    consumer = KafkaConsumer(**settings, group_id=None, enable_auto_commit=False)
    read: list[bytes | None] = []
    try:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning(TopicPartition(topic, 0))
        deadline = time.monotonic() + DEADLINE_S
        while len(read) < COUNT:
            assert time.monotonic() < deadline, len(read)
            for batch in consumer.poll(timeout_ms=200).values():
                read += [record.value for record in batch]
    finally:
        consumer.close()
    check(listener, topic, read, mechanism)


@EVERY_WAY
def test_aiokafka_authenticates(listener: Listener, topic: str, mechanism: str | None) -> None:
    """aiokafka."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
    from aiokafka.abc import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka publishes no types
        async def token(self) -> str:
            return jwt()

    settings = python(listener, mechanism, Provider())

    async def run() -> list[bytes | None]:
        producer = AIOKafkaProducer(**settings, enable_idempotence=True)
        await producer.start()
        try:
            for value in RECORDS:
                await producer.send(topic, value, partition=0)
            await producer.flush()
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(**settings, group_id=None, enable_auto_commit=False)
        await consumer.start()
        read: list[bytes | None] = []
        try:
            consumer.assign([TopicPartition(topic, 0)])
            await consumer.seek_to_beginning(TopicPartition(topic, 0))
            while len(read) < COUNT:
                for batch in (await consumer.getmany(timeout_ms=200)).values():
                    read += [record.value for record in batch]
        finally:
            await consumer.stop()
        return read

    check(listener, topic, asyncio.run(asyncio.wait_for(run(), 3 * DEADLINE_S)), mechanism)


def test_librdkafka_renews_its_sessions() -> None:
    """KIP-368 with a client that is not ours: it sends through several sessions on the same connections, and every record is there."""
    from confluent_kafka import Producer

    failures: list[Any] = []
    with BrokerStub(sasl=Sasl(USERS, session_lifetime_ms=1500), journal=100_000) as stub:
        stub.create_topic("t")
        listener = Listener(stub, "SASL_PLAINTEXT", "", Certificate("", "", ""))
        producer = Producer({**librdkafka(listener, "SCRAM-SHA-256"), "enable.idempotence": True, "linger.ms": 1})
        sent = 0
        deadline = time.monotonic() + 30
        while len(stub.journal.requests(Api.SASL_HANDSHAKE)) < stub.stats()["connections"] + 3:
            assert time.monotonic() < deadline
            producer.produce("t", b"%d" % sent, on_delivery=lambda error, _: failures.append(error) if error else None)
            producer.poll(0.001)
            sent += 1
        assert producer.flush(DEADLINE_S) == 0
        assert failures == []
        assert [record.value for record in stub.records("t", 0)] == [b"%d" % number for number in range(sent)]
