"""A prepared transaction outlives its producer: the program may close, exit, be collected or fork, and only the token ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import Api
from fencepost.txn.async_producer import AsyncTransactionalProducer
from fencepost.txn.errors import TransactionAborted, TransactionCommitted
from fencepost.txn.group_metadata import GroupMetadata
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.recovery.outcome import Outcome
from fencepost.txn.recovery.prepared_here import OUTSTANDING
from fencepost.txn.recovery.resume import resume
from fencepost.txn.recovery.token import read_token
from tests.producer.child_programs import run
from tests.producer.stub_helpers import drop
from tests.txn.coordinator.test_exit_and_fork import OPEN
from tests.txn.stub_helpers import LIMIT_S, SETTINGS, committed, ends, stub
from tests.waiting import until

__all__ = ["stub"]


@pytest.fixture(autouse=True)
def _nothing_outstanding() -> Iterator[None]:
    """What one test prepares is not outstanding in the next."""
    yield
    for token in OUTSTANDING.of("a"):
        OUTSTANDING.discard(token)


def test_a_program_that_ends(stub: BrokerStub) -> None:
    """The program's exit aborts nothing. A reader of its token commits."""
    ended = run(OPEN.format(patience_ms=30_000) + "    print(tx.prepare(30), flush=True)", stub.bootstrap)
    assert ended.code == 0, ended.complaints
    assert ends(stub) == []
    assert resume(read_token(ended.lines[-1]), stub.bootstrap).commit(LIMIT_S).outcome is Outcome.COMMITTED
    assert ends(stub) == [True]


def test_a_producer_that_is_collected(stub: BrokerStub) -> None:
    """The producer warns that it was not closed, and ends nothing."""
    producer = TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap)
    tx = producer.begin(LIMIT_S)
    tx.send("t", b"row")
    token = tx.prepare(LIMIT_S)
    held = [producer, tx]
    del producer, tx
    with pytest.warns(ResourceWarning):
        drop(held)
    until(lambda: stub.stats()["open"] == 0, "the connections are down", timeout_s=LIMIT_S)
    assert ends(stub) == []
    assert resume(token, stub.bootstrap).commit(LIMIT_S).outcome is Outcome.COMMITTED
    assert committed(stub, "t") == [b"row"]


def test_offsets_are_prepared_too(stub: BrokerStub) -> None:
    """Offsets are in the token as a partition of __consumer_offsets, and count when the token is committed."""
    with TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap) as producer, producer.transaction(LIMIT_S) as tx:
        tx.send_offsets({("t", 0): 7}, GroupMetadata("g"))
        token = tx.prepare(LIMIT_S)
    assert [place.topic for place in token.partitions] == ["__consumer_offsets"]
    assert resume(token, stub.bootstrap).commit(LIMIT_S).outcome is Outcome.COMMITTED
    assert committed_offset(stub) == 7


def test_asyncio(stub: BrokerStub) -> None:
    """The block and the producer are left with the transaction open; resume in another thread ends it, and the producer hears of that."""

    async def story() -> None:
        async with AsyncTransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap) as producer:
            async with producer.transaction(LIMIT_S) as tx:
                await tx.send("t", b"one")
                token = await tx.prepare(LIMIT_S)
                assert await tx.prepare(LIMIT_S) is token
            assert ends(stub) == []
            await tx.commit(LIMIT_S)
            async with producer.transaction(LIMIT_S) as tx:
                await tx.send("t", b"two")
                token = await tx.prepare(LIMIT_S)
            await asyncio.to_thread(resume(token, stub.bootstrap).abort, LIMIT_S)
            with pytest.raises(TransactionAborted):
                await tx.commit(LIMIT_S)
            async with producer.transaction(LIMIT_S) as tx:
                await tx.send("t", b"three")
                token = await tx.prepare(LIMIT_S)
            await asyncio.to_thread(resume(token, stub.bootstrap).commit, LIMIT_S)
            with pytest.raises(TransactionCommitted):
                await tx.abort(LIMIT_S)
            async with producer.transaction(LIMIT_S) as tx:
                await tx.send("t", b"four")
                token = await tx.prepare(LIMIT_S)
        status = await asyncio.to_thread(resume(token, stub.bootstrap).status, LIMIT_S)
        assert status.outcome is Outcome.OPEN

    asyncio.run(asyncio.wait_for(story(), LIMIT_S * 2))
    assert committed(stub, "t") == [b"one", b"three"]


def test_asyncio_that_is_cancelled_while_it_prepares(stub: BrokerStub) -> None:
    """The caller has no token, so leaving the block aborts."""

    async def story() -> None:
        async with AsyncTransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap) as producer:
            held = stub.faults.on(Api.DESCRIBE_TRANSACTIONS).before().hold()

            async def work() -> None:
                async with producer.transaction(LIMIT_S) as tx:
                    await tx.send("t", b"row")
                    await tx.prepare(LIMIT_S)

            task = asyncio.create_task(work())
            await asyncio.to_thread(held.wait, 1, LIMIT_S)
            task.cancel()
            held.remove()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert ends(stub) == [False]

    asyncio.run(asyncio.wait_for(story(), LIMIT_S))
    assert committed(stub, "t") == []


def committed_offset(stub: BrokerStub) -> int:
    consumer = Consumer({"bootstrap.servers": stub.bootstrap, "group.id": "g"})
    try:
        (found,) = consumer.committed([TopicPartition("t", 0)], LIMIT_S)
        return int(found.offset)
    finally:
        consumer.close()
