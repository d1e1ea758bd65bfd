"""A prepared transaction on an event loop: what the blocking producer promises of it, awaited."""

from __future__ import annotations

import asyncio

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.txn.async_producer import AsyncTransactionalProducer
from fencepost.txn.errors import TransactionAborted, TransactionOpen
from fencepost.txn.recovery.outcome import Outcome
from fencepost.txn.recovery.resume import resume, resume_async
from fencepost.txn.recovery.token import PreparedTransaction

WAIT_S = 30.0


async def prepare(producer: AsyncTransactionalProducer) -> PreparedTransaction:
    """In a block that is left."""
    async with producer.transaction(WAIT_S) as tx:
        await tx.send("t", b"one")
        return await tx.prepare(WAIT_S)


def test_leaving_and_closing_abort_nothing() -> None:
    """Another producer of the process is refused while the token waits; the token commits, awaited or in a thread, and again."""

    async def story(stub: BrokerStub) -> None:
        async with AsyncTransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="id") as producer:
            token = await prepare(producer)
        resumed = resume_async(str(token), stub.bootstrap)
        assert (await resumed.status(WAIT_S)).outcome is Outcome.OPEN
        async with AsyncTransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="id") as producer:
            with pytest.raises(TransactionOpen):
                await producer.begin(WAIT_S)
            assert not (await resumed.commit(WAIT_S)).already
            assert (await asyncio.to_thread(resume(token).commit, WAIT_S)).already
            async with producer.transaction(WAIT_S) as tx:
                await tx.send("t", b"two")

    with BrokerStub() as stub:
        asyncio.run(story(stub))


def test_a_prepared_transaction_that_another_process_aborted() -> None:
    """Its own producer is told, and goes on."""

    async def story(stub: BrokerStub) -> None:
        async with AsyncTransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="id") as producer:
            tx = await producer.begin(WAIT_S)
            await tx.send("t", b"one")
            await resume_async(await tx.prepare(WAIT_S)).abort(WAIT_S)
            with pytest.raises(TransactionAborted):
                await tx.commit(WAIT_S)
            async with producer.transaction(WAIT_S) as tx:
                await tx.send("t", b"two")

    with BrokerStub() as stub:
        asyncio.run(story(stub))
