"""Tests of orders_fastapi.py, with faults. FastAPI's TestClient runs the lifespan, and the fixture `kafka_stub` is the Kafka.

pip install ../.. fastapi httpx2 pytest        # httpx for an older FastAPI
pytest test_orders_fastapi.py --kafka-stub-report=reports        # a page for each test that fails
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from orders_fastapi import app

from fencepost import Api, BrokerStub, ErrorCode


@pytest.fixture
def client(kafka_stub: BrokerStub, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setenv("KAFKA", kafka_stub.bootstrap)  # The lifespan reads it, and makes the pool.
    with TestClient(app) as client:
        yield client


def committed(stub: BrokerStub) -> tuple[list[bytes | None], list[bytes | None]]:
    """The orders and the invoices that a reader of committed records sees."""
    return [record.value for record in stub.records("orders", 0)], [record.value for record in stub.records("invoices", 0)]


def test_an_order(client: TestClient, kafka_stub: BrokerStub) -> None:
    """The order and its invoice are there when the client has 200."""
    assert client.post("/orders/1").json() == {"committed": 1}
    assert committed(kafka_stub) == ([b"order 1"], [b"invoice 1"])


@pytest.mark.parametrize("api", [Api.PRODUCE, Api.END_TXN], ids=["a write", "the commit"])
def test_a_connection_that_breaks_before_the_answer(client: TestClient, kafka_stub: BrokerStub, api: Api) -> None:
    """The broker has done what it was asked for, and the pool does not hear so. It asks again, and everything is there once."""
    client.post("/orders/1")
    broken = kafka_stub.faults.on(api).after_append().disconnect()
    assert client.post("/orders/2").status_code == 200
    assert broken.hits == 1
    assert committed(kafka_stub) == ([b"order 1", b"order 2"], [b"invoice 1", b"invoice 2"])


def test_a_record_that_is_refused(client: TestClient, kafka_stub: BrokerStub) -> None:
    """A refused invoice takes its order along. The next order is committed."""
    client.post("/orders/1")
    kafka_stub.faults.on(Api.PRODUCE).where(topic="invoices").error(ErrorCode.INVALID_RECORD)
    assert client.post("/orders/2").status_code == 422
    assert client.post("/orders/3").status_code == 200
    assert committed(kafka_stub) == ([b"order 1", b"order 3"], [b"invoice 1", b"invoice 3"])
