"""Sessions that end (connections.max.reauth.ms, KIP-368): stock clients authenticate again on the same connection, and go on."""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

from confluent_kafka import Producer as Librdkafka

from fencepost import Producer
from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import Api
from tests.conformance.fixtures import java_tools
from tests.conformance.java_tools import JavaTools, OneByOne
from tests.waiting import until

__all__ = ["java_tools"]

SESSION_MS = 1500
WAIT_S = 30.0
USER: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "alice",
    "sasl_password": "secret",
}


def stub_with_sessions() -> BrokerStub:
    return BrokerStub(sasl={"alice": "secret"}, config={"connections.max.reauth.ms": SESSION_MS}, journal=100_000)


def renewed(stub: BrokerStub) -> bool:
    """Whether a connection has authenticated three times."""
    handshakes = Counter(each.connection_id for each in stub.journal.requests(Api.SASL_HANDSHAKE))
    return max(handshakes.values(), default=0) >= 3


def test_our_producer() -> None:
    """It sends on through several sessions, on its connection."""
    with stub_with_sessions() as stub, Producer(bootstrap_servers=stub.bootstrap, **USER) as producer:
        sent = 0
        deadline = time.monotonic() + WAIT_S
        while not renewed(stub) and time.monotonic() < deadline:
            producer.send("t", b"%d" % sent).result(WAIT_S)
            sent += 1
        assert renewed(stub)
        assert [record.value for record in stub.records("t", 0)] == [b"%d" % number for number in range(sent)]


def test_librdkafka() -> None:
    """It authenticates again before the session ends, and loses no record."""
    user = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "secret"}
    with stub_with_sessions() as stub:
        stub.create_topic("t")
        producer = Librdkafka({"bootstrap.servers": stub.bootstrap, "linger.ms": 0, **user})
        sent = 0
        deadline = time.monotonic() + WAIT_S
        while not renewed(stub) and time.monotonic() < deadline:
            producer.produce("t", b"%d" % sent)
            assert producer.flush(WAIT_S) == 0
            sent += 1
        assert renewed(stub)
        assert [record.value for record in stub.records("t", 0)] == [b"%d" % number for number in range(sent)]


def test_java(java_tools: JavaTools | OneByOne, tmp_path: Path) -> None:
    """Its console consumer waits for records through several sessions."""
    file = tmp_path / "client.properties"
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";'
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n")
    with stub_with_sessions() as stub:
        with Producer(bootstrap_servers=stub.bootstrap, **USER) as producer:
            producer.send("t", b"v").result(WAIT_S)
        tool = "org.apache.kafka.tools.consumer.ConsoleConsumer"
        arguments = ("--topic", "t", "--from-beginning", "--timeout-ms", str(4 * SESSION_MS), "--command-config", str(file))
        read = java_tools.run(tool, "--bootstrap-server", stub.bootstrap, *arguments, timeout=90.0)
        assert re.findall(r"^v$", read, re.MULTILINE) == ["v"]
        until(lambda: renewed(stub), "a connection with three sessions", timeout_s=1)
