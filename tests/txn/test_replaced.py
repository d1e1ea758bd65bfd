"""A producer asks its coordinator whether another one has registered under its transactional id since."""

from __future__ import annotations

import pytest

from fencepost.broker_stub import BrokerStub, VirtualClock
from fencepost.producer.errors import FencepostError
from fencepost.txn.async_producer import AsyncTransactionalProducer
from fencepost.txn.errors import TransactionTimeout
from fencepost.txn.producer import TransactionalProducer
from tests.producer.stub_helpers import run_story

LATE_MS = 71_000
"""The timeout of a transaction, and the ten seconds within which the coordinator looks."""


@pytest.fixture(params=[1, 2], ids=["tv1", "tv2"])
def stub(request: pytest.FixtureRequest) -> BrokerStub:
    return BrokerStub(transaction_version=request.param, clock=VirtualClock())


def test_a_timeout_is_told_from_a_newer_producer(stub: BrokerStub) -> None:
    """Both abort the transaction, and the producer is refused in either case. Only the newer producer has replaced it, with or without a
    transaction of its own, and for good."""
    with (
        stub,
        TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a") as older,
        TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a") as newer,
    ):
        assert older.replaced(30) is False
        with pytest.raises(FencepostError), older.transaction(30) as tx:
            assert older.replaced(30) is False
            tx.send("t", b"row").result(30)
            assert older.replaced(30) is False
            stub.advance(LATE_MS)
            assert older.replaced(30) is False
            newer.init(30)
            assert older.replaced(30) is True
            with newer.transaction(30) as other:
                other.send("t", b"other").result(30)
                assert older.replaced(30) is True
            assert older.replaced(30) is True
        assert newer.replaced(30) is False


def test_the_same_on_asyncio(stub: BrokerStub) -> None:
    """`AsyncTransactionalProducer.replaced`."""

    async def story() -> None:
        async with (
            AsyncTransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a") as older,
            AsyncTransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a") as newer,
        ):
            await older.init(30)
            assert await older.replaced(30) is False
            await newer.init(30)
            assert await older.replaced(30) is True

    with stub:
        run_story(story())


def test_a_coordinator_that_cannot_be_reached() -> None:
    """The call ends in time, and says what it could not find out."""
    with BrokerStub() as stub, TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a") as producer:
        producer.init(30)
        stub.stop_broker(1)
        with pytest.raises(TransactionTimeout, match=r"replaced: the coordinator of transactional id .a. did not answer within 0\.3 s"):
            producer.replaced(0.3)
