"""The stub's listeners with SASL answer as Kafka's do: the same requests to both, and the same bytes wherever there is no nonce."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.security.sasl import Sasl
from tests.certificates import Authority
from tests.conformance.fixtures import require_kafka
from tests.conformance.secure import FEW, SESSION_MS, secure_kafka
from tests.conformance.security_questions import QUESTIONS, Address, Talk
from tests.credentials import MECHANISMS, USERS

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Address]]:
    require_kafka()
    with secure_kafka(Authority(Path(tmp_path_factory.mktemp("kafka")))) as cluster:
        broker = cluster.brokers[1]
        yield {"PLAINTEXT": broker.address, **{name: ("127.0.0.1", port) for name, port in broker.other_ports.items()}}


@pytest.fixture(scope="module")
def stub() -> Iterator[dict[str, Address]]:
    with (
        BrokerStub() as plain,
        BrokerStub(sasl=Sasl(USERS, MECHANISMS)) as lasting,
        BrokerStub(sasl=Sasl(USERS, MECHANISMS, session_lifetime_ms=SESSION_MS)) as brief,
        BrokerStub(sasl=Sasl(USERS, FEW)) as few,
    ):
        yield {"PLAINTEXT": plain.addresses[1], "SASL": lasting.addresses[1], "BRIEF": brief.addresses[1], "FEW": few.addresses[1]}


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_stub_answers_as_kafka_does(name: str, kafka: dict[str, Address], stub: dict[str, Address]) -> None:
    """Every answer is the same, and the connection ends at the same point."""
    listener, question = QUESTIONS[name]

    def said(where: dict[str, Address]) -> list[str]:
        with Talk(where[listener]) as talk:
            question(talk)
            return talk.said

    # Some questions wait for seconds: both are asked at once.
    with ThreadPoolExecutor(2) as pool:
        theirs, of_the_stub = pool.map(said, (kafka, stub))
    assert of_the_stub == theirs
