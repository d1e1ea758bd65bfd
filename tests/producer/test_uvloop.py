"""On uvloop, as a service may have it: its transports have the methods of asyncio's and are not of its classes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import uvloop

from fencepost.broker_stub import BrokerStub, FaultProxy
from fencepost.producer import AsyncProducer, Producer
from fencepost.txn import AsyncTransactionalProducer
from tests.producer.pki import Pki, pki, tls
from tests.producer.stub_helpers import QUICK, values

__all__ = ["pki"]

LIMIT_S = 60.0
LARGE = b"x" * 900_000
"""More than a socket takes at once."""


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every new event loop is uvloop's, as after `uvloop.install()`."""
    made: list[uvloop.Loop] = []

    def make() -> uvloop.Loop:
        made.append(uvloop.new_event_loop())
        return made[-1]

    monkeypatch.setattr(asyncio, "new_event_loop", make)
    yield
    assert made
    assert all(loop.is_closed() for loop in made)


async def story(producer: AsyncProducer) -> None:
    async with producer:
        futures = [await producer.send("t", b"%d" % number, partition=0) for number in range(500)]
        futures += [await producer.send("t", LARGE, partition=0) for _ in range(20)]
        found = await asyncio.gather(*futures)
        assert [each.offset for each in found] == list(range(520))


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
def test_an_asyncio_producer(pki: Pki, secure: bool) -> None:
    """Its loop is the caller's."""
    with (
        BrokerStub(default_partitions=1, tls=tls(pki.server) if secure else None) as stub,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        settings: dict[str, Any] = {**QUICK, **(pki.trust if secure else {})}
        runner.run(asyncio.wait_for(story(AsyncProducer(bootstrap_servers=stub.bootstrap, **settings)), LIMIT_S))
        assert values(stub, "t") == [*(b"%d" % number for number in range(500)), *[LARGE] * 20]


@pytest.mark.usefixtures("everywhere")
def test_a_transaction_on_asyncio() -> None:
    """An asyncio producer and a stub on uvloop's loops commit a transaction."""

    async def commit(producer: AsyncTransactionalProducer) -> None:
        async with producer, producer.transaction() as transaction:
            await transaction.send("t", b"row", partition=0)

    with BrokerStub(default_partitions=1) as stub, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        producer = AsyncTransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a", **QUICK)
        runner.run(asyncio.wait_for(commit(producer), LIMIT_S))
        assert values(stub, "t") == [b"row"]


@pytest.mark.usefixtures("everywhere")
def test_a_sender_and_a_proxy() -> None:
    """Large requests through a proxy that loses the connection."""
    with BrokerStub(default_partitions=1) as stub, FaultProxy(stub.bootstrap) as proxy:
        with Producer(bootstrap_servers=proxy.bootstrap, **QUICK) as producer:
            futures = [producer.send("t", LARGE + b"%d" % number, partition=0) for number in range(10)]
            proxy.cut_connections()
            futures += [producer.send("t", b"%d" % number, partition=0) for number in range(10)]
            assert [future.result(LIMIT_S).offset for future in futures] == list(range(20))
        assert values(stub, "t") == [*(LARGE + b"%d" % number for number in range(10)), *(b"%d" % number for number in range(10))]
