"""Errors and log lines show brokers' texts in printable characters: they cannot control a terminal or begin a line of a log."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from msgspec.structs import replace

from fencepost import FencepostError, Producer, TransactionalProducer
from fencepost.broker_stub import BrokerStub, Sasl
from fencepost.producer.foundations.address import Address
from fencepost.producer.foundations.printable import SAID_CHARACTERS_MAX, said
from fencepost.producer.network.connect_error import ConnectError
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.messages.produce import BatchIndexAndErrorMessage
from tests.fencepost.cli.altered_responses import Lie, altered, lying_relay
from tests.waiting import until

FORGED = "no\x1b]0;title\x07\x1b[2J\r\nERROR fencepost.producer forged \u202eline\u2028\x9b31m\0"
SHOWN = r"\x1b[2J\r\nERROR fencepost.producer forged \u202eline"
SASL: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "a", "sasl_password": "b"}


def refused(**fields: Any) -> Lie:
    """A Produce response that refuses the record permanently, with these texts."""

    def change(answer: Any) -> Any:
        (topic,) = answer.responses
        (partition,) = topic.partition_responses
        partition = replace(partition, error_code=ErrorCode.INVALID_RECORD, base_offset=-1, **fields)
        return replace(answer, responses=[replace(topic, partition_responses=[partition])])

    return altered(Api.PRODUCE, change)


def no_login(code: ErrorCode) -> Lie:
    return altered(Api.SASL_AUTHENTICATE, lambda answer: replace(answer, error_code=code, error_message=FORGED * 100))


RECORD_ERROR = BatchIndexAndErrorMessage(batch_index=0, batch_index_error_message=FORGED)
HOST = altered(Api.METADATA, lambda answer: replace(answer, brokers=[replace(each, host=FORGED) for each in answer.brokers]))
COORDINATOR = altered(
    Api.FIND_COORDINATOR, lambda answer: replace(answer, coordinators=[replace(each, host=FORGED) for each in answer.coordinators])
)
MECHANISMS = altered(
    Api.SASL_HANDSHAKE, lambda answer: replace(answer, error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=[FORGED] * 1000)
)

LIES: dict[str, tuple[Lie, dict[str, Any]]] = {
    "why a batch is refused": (refused(error_message=FORGED), {}),
    "why a record is refused": (refused(record_errors=[RECORD_ERROR]), {}),
    "where a broker is": (HOST, {}),
    "why nobody is let in": (no_login(ErrorCode.SASL_AUTHENTICATION_FAILED), SASL),
    "why it may be tried again": (no_login(ErrorCode.UNKNOWN_SERVER_ERROR), SASL),
    "which mechanisms there are": (MECHANISMS, SASL),
}


def said_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records]


@pytest.mark.parametrize("lie", LIES)
def test_what_a_broker_says(lie: str, caplog: pytest.LogCaptureFixture) -> None:
    """In the error that a caller gets, and in all that is logged."""
    caplog.set_level(logging.DEBUG, "fencepost")
    change, settings = LIES[lie]
    with BrokerStub(sasl=Sasl({"a": "b"}) if settings else None) as stub:
        stub.create_topic("t")
        with lying_relay(stub.addresses[1][1], change) as bootstrap:
            producer = Producer(
                bootstrap_servers=bootstrap, max_block_ms=1_500, delivery_timeout_ms=1_500, request_timeout_ms=1_000, **settings
            )
            with pytest.raises(FencepostError) as caught:
                producer.send("t", b"x").result(10)
            producer.close(timeout=0)
    text = str(caught.value)
    assert SHOWN in text, text
    assert text.isprintable()
    assert len(text) < 3 * SAID_CHARACTERS_MAX
    assert getattr(caught.value, "reason", "").isprintable()
    assert [line for line in said_in(caplog) if not line.isprintable()] == []


def test_another_cluster(caplog: pytest.LogCaptureFixture) -> None:
    """A cluster has an id that it made itself."""
    caplog.set_level(logging.DEBUG, "fencepost")
    elsewhere: list[str] = []
    lie = altered(Api.METADATA, lambda answer: replace(answer, cluster_id=elsewhere[0] if elsewhere else answer.cluster_id))
    with BrokerStub() as stub:
        stub.create_topic("t")
        with lying_relay(stub.addresses[1][1], lie) as bootstrap, Producer(bootstrap_servers=bootstrap, metadata_max_age_ms=50) as producer:
            producer.send("t", b"x").result(10)
            elsewhere.append(FORGED)
            until(lambda: any(SHOWN in line for line in said_in(caplog)), "heard of another cluster")
    assert [line for line in said_in(caplog) if not line.isprintable()] == []


def test_where_a_coordinator_is(caplog: pytest.LogCaptureFixture) -> None:
    """A transactional producer is sent to a host of an unreadable name."""
    caplog.set_level(logging.DEBUG, "fencepost")
    with (
        BrokerStub() as stub,
        lying_relay(stub.addresses[1][1], COORDINATOR) as bootstrap,
        TransactionalProducer(bootstrap_servers=bootstrap, transactional_id="a") as producer,
    ):
        producer.begin().abort()
    assert any(SHOWN in line for line in said_in(caplog))
    assert [line for line in said_in(caplog) if not line.isprintable()] == []


def test_every_error_is_printable() -> None:
    """Every error shows printable text. Its arguments stay as they are, so that pickling does not change them."""
    assert str(FencepostError(FORGED)).isprintable()
    assert FencepostError(FORGED).args == (FORGED,)
    assert str(ConnectError(FORGED).for_core()).count("\\") == str(ConnectError(FORGED)).count("\\") == 9
    assert str(Address(FORGED, 1)).isprintable()
    assert (said(None), said("x" * 3, 2), said("\n", 2)) == ("", "xx...", r"\n")
