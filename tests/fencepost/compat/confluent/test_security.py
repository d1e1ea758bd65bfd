"""TLS and SASL with librdkafka's properties: the same configuration serves confluent-kafka's producer and ours."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer as TheirProducer

from fencepost import BrokerStub, Sasl, Tls
from fencepost.compat.confluent import Producer
from tests.certificates import Authority
from tests.certificates import authority as authority
from tests.gil import needs_gil

pytestmark = needs_gil

BOTH = pytest.mark.parametrize("kind", [Producer, TheirProducer], ids=["ours", "theirs"])


def deliver(kind: Any, broker: BrokerStub, properties: dict[str, Any]) -> None:
    """Deliver one message."""
    errors: list[object] = []
    producer = kind({"bootstrap.servers": broker.bootstrap, "message.timeout.ms": 20_000, **properties})
    producer.produce("t", b"v", on_delivery=lambda error, message: errors.append(error))
    assert producer.flush(30) == 0
    assert "t" in producer.list_topics(timeout=20).topics
    producer.close()
    assert errors == [None]


@BOTH
@pytest.mark.parametrize("way", ["ca.location", "ca.pem", "unverified", "any name", "ciphers", "client certificate"])
def test_tls(authority: Authority, kind: Any, way: str) -> None:
    """A CA in a file or in memory, no verification, no host name, ciphers, and a client's certificate."""
    server = authority.issue("localhost", "127.0.0.1") if way != "any name" else authority.issue("elsewhere")
    client = authority.issue("me", password="secret")
    ca = Path(authority.cafile) if way == "client certificate" else None
    ways: dict[str, dict[str, Any]] = {
        "ca.location": {"ssl.ca.location": authority.cafile},
        "ca.pem": {"ssl.ca.pem": Path(authority.cafile).read_text()},
        "unverified": {"enable.ssl.certificate.verification": False},
        "any name": {"ssl.ca.location": authority.cafile, "ssl.endpoint.identification.algorithm": "none"},
        "ciphers": {"ssl.ca.location": authority.cafile, "ssl.cipher.suites": "ECDHE+AESGCM"},
        "client certificate": {
            "ssl.ca.location": authority.cafile,
            "ssl.certificate.location": client.certfile,
            "ssl.key.location": client.keyfile,
            "ssl.key.password": "secret",
        },
    }
    with BrokerStub(tls=Tls(Path(server.certfile), Path(server.keyfile), client_ca=ca)) as broker:
        deliver(kind, broker, {"security.protocol": "ssl", **ways[way]})


@BOTH
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_passwords(kind: Any, mechanism: str) -> None:
    """PLAIN and SCRAM, with `sasl.mechanisms`. A token's settings beside them have no effect."""
    with BrokerStub(sasl={"ann": "secret"}) as broker:
        names = {"sasl.username": "ann", "sasl.password": "secret"}
        deliver(kind, broker, {"security.protocol": "sasl_plaintext", "sasl.mechanisms": mechanism, **names})


@BOTH
def test_tokens(kind: Any) -> None:
    """`oauth_cb` gets `sasl.oauthbearer.config`, and returns a token and its expiry in seconds since 1970."""
    asked: list[str] = []

    def token(config: str) -> tuple[str, float]:
        asked.append(config)
        expiry = time.time() + 600
        parts = [{"alg": "none"}, {"sub": "ann", "iat": time.time(), "exp": expiry}]
        return ".".join([*(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts), ""]), expiry

    with BrokerStub(sasl=Sasl(mechanisms=["OAUTHBEARER"])) as broker:
        ways = {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": token, "sasl.oauthbearer.config": "user=me"}
        deliver(kind, broker, {"security.protocol": "SASL_PLAINTEXT", **ways})
    assert set(asked) == {"user=me"}


def test_passwords_are_not_shown() -> None:
    """What the producer keeps of its configuration shows no password, before and after `set_sasl_credentials`; AdminClient gets it."""
    with BrokerStub(sasl={"alice": "hush-hush"}) as broker:
        broker.create_topic("t")
        given = {"bootstrap.servers": broker.bootstrap, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
        with Producer({**given, "sasl.username": "alice", "sasl.password": "hush-hush"}) as producer:
            for _ in range(2):
                assert "hush" not in f"{producer._config!r} {vars(producer._underlying)!r}"
                producer.produce("t", b"v")
                assert producer.flush(20) == 0
                assert "t" in producer.list_topics(timeout=20).topics
                producer.set_sasl_credentials("alice", "hush-hush")
