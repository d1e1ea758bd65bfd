"""Transactions of `fencepost.compat.aiokafka.AIOKafkaProducer`: aiokafka's calls, over an AsyncTransactionalProducer."""

from __future__ import annotations

import asyncio
import contextlib

import aiokafka
import aiokafka.errors
import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.compat.aiokafka import AIOKafkaProducer
from fencepost.producer.wire import Api, ErrorCode
from fencepost.txn import AsyncTransactionalProducer
from tests.fencepost.compat.aiokafka_producers import made
from tests.producer.stub_helpers import run_story, values


def transactional(stub: BrokerStub, name: str = "a") -> AIOKafkaProducer:
    return made(stub, transactional_id=name)


def test_a_block_commits_and_an_exception_aborts() -> None:
    """Readers see the records of the first and of none other."""

    async def story() -> None:
        async with transactional(stub) as producer:
            assert isinstance(producer.underlying, AsyncTransactionalProducer)
            with pytest.raises(AssertionError, match="has no partition 5"):
                async with producer.transaction():
                    await producer.send("t", b"0", partition=5)
            async with producer.transaction():
                await producer.send("t", b"1")
                at = await producer.send_and_wait("t", b"2")
                assert (at.offset, at.topic) == (1, "t")
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction():
                    await producer.send("t", b"3")
                    raise ZeroDivisionError
            async with producer.transaction():
                pass

    with BrokerStub() as stub:
        run_story(story())
        assert values(stub, "t") == [b"1", b"2"]


def test_the_calls_one_by_one() -> None:
    """begin, send, a batch, commit; begin, send, abort."""

    async def story() -> None:
        async with transactional(stub) as producer:
            await producer.begin_transaction()
            first = await producer.send("t", b"1")
            batch = producer.create_batch()
            batch.append(timestamp=None, key=None, value=b"2")
            second = await producer.send_batch(batch, "t", partition=0)
            await producer.commit_transaction()
            assert first.done()
            assert second.done()
            await producer.begin_transaction()
            await producer.send_and_wait("t", b"3")
            await producer.flush()
            await producer.abort_transaction()

    with BrokerStub() as stub:
        run_story(story())
        assert values(stub, "t") == [b"1", b"2"]


def test_without_a_transactional_id_there_are_none() -> None:
    """IllegalOperation, from each call."""

    async def story() -> None:
        async with made(stub) as producer:
            for call in (producer.begin_transaction, producer.commit_transaction, producer.abort_transaction):
                with pytest.raises(aiokafka.errors.IllegalOperation, match="transactional_id"):
                    await call()
            with pytest.raises(aiokafka.errors.IllegalOperation, match="transactional_id"):
                await producer.send_offsets_to_transaction({}, "g")
            with pytest.raises(aiokafka.errors.IllegalOperation, match="transactional_id"):
                async with producer.transaction():
                    pass

    with BrokerStub() as stub:
        run_story(story())


def test_calls_that_do_not_fit() -> None:
    """Records and offsets outside a transaction, a second begin, an end without a begin: refused, and the producer goes on."""

    async def story() -> None:
        async with transactional(stub) as producer:
            batch = producer.create_batch()
            batch.append(timestamp=None, key=None, value=b"no")

            async def outside() -> None:
                with pytest.raises(aiokafka.errors.IllegalOperation):
                    await producer.send("t", b"no")
                with pytest.raises(aiokafka.errors.IllegalOperation):
                    await producer.send_batch(batch, "t", partition=0)
                with pytest.raises(aiokafka.errors.IllegalOperation):
                    await producer.send_offsets_to_transaction({}, None)

            for call in (producer.commit_transaction, producer.abort_transaction):
                with pytest.raises(AssertionError):
                    await call()
            await outside()
            await producer.begin_transaction()
            with pytest.raises(aiokafka.errors.IllegalOperation):
                await producer.begin_transaction()
            await producer.send("t", b"yes")
            committing = asyncio.create_task(producer.commit_transaction())
            await asyncio.sleep(0)
            await outside()
            await committing
            await outside()

    with BrokerStub() as stub:
        run_story(story())
        assert values(stub, "t") == [b"yes"]


def test_offsets_count_with_the_transaction() -> None:
    """In each form that aiokafka takes. aiokafka's own consumer finds what was committed, and not what was aborted."""

    async def committed(tp: aiokafka.TopicPartition) -> int | None:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=stub.bootstrap, group_id="g", enable_auto_commit=False)
        await consumer.start()
        try:
            offset: int | None = await consumer.committed(tp)
        finally:
            await consumer.stop()
        return offset

    async def story() -> None:
        tp = aiokafka.TopicPartition("in", 0)
        async with transactional(stub) as producer:
            for number, value in enumerate((1, (2, "note"), aiokafka.structs.OffsetAndMetadata(3, "")), start=1):
                async with producer.transaction():
                    await producer.send("out", b"v")
                    await producer.send_offsets_to_transaction({tp: value}, "g")
                assert await committed(tp) == number
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({tp: 9}, "g")
            await producer.abort_transaction()
            assert await committed(tp) == 3

    with BrokerStub() as stub:
        stub.create_topic("in")
        run_story(story())


def test_offsets_that_are_wrong_are_refused() -> None:
    """As in aiokafka: ValueError for none, for an empty group and for odd values, TypeError for odd keys and metadata."""

    async def story() -> None:
        tp = aiokafka.TopicPartition("in", 0)
        async with transactional(stub) as producer, producer.transaction():
            for offsets, group, kind in (
                ({}, "g", ValueError),
                (None, "g", ValueError),
                ([tp], "g", ValueError),
                ({tp: 1}, "", ValueError),
                ({tp: 1}, None, ValueError),
                ({tp: "1"}, "g", ValueError),
                ({tp: (1, 2, 3)}, "g", ValueError),
                ({tp: (1, None)}, "g", TypeError),
                ({tp: -5}, "g", ValueError),
                ({"in": 1}, "g", TypeError),
                ({("in", "0"): 1}, "g", TypeError),
                ({("in", 0, 1): 1}, "g", TypeError),
            ):
                with pytest.raises(kind):
                    await producer.send_offsets_to_transaction(offsets, group)  # type: ignore[arg-type]  # wrong on purpose

    with BrokerStub() as stub:
        run_story(story())


def test_a_newer_producer_fences() -> None:
    """ProducerFenced leaves the older one's block, and the newer one's records are there."""

    async def story() -> None:
        async with transactional(stub) as old, transactional(stub) as new:
            async with new.transaction():
                await new.send("t", b"new")
            with pytest.raises(aiokafka.errors.ProducerFenced):
                async with old.transaction():
                    await old.send_and_wait("t", b"old")

    with BrokerStub() as stub:
        run_story(story())
        assert values(stub, "t") == [b"new"]


def test_a_failed_record_fails_the_commit() -> None:
    """With the record's error. A block has aborted then; without a block the program aborts. The producer goes on."""

    async def story() -> None:
        async with transactional(stub) as producer:
            await producer.partitions_for("t")
            refused = stub.faults.on(Api.PRODUCE).before().times(1).error(ErrorCode.INVALID_TIMESTAMP)
            with pytest.raises(aiokafka.errors.InvalidTimestampError):
                async with producer.transaction():
                    await producer.send("t", b"refused")
                    await producer.send("t", b"beside it")
            assert refused.hits == 1
            stub.faults.on(Api.PRODUCE).before().times(1).error(ErrorCode.INVALID_TIMESTAMP)
            await producer.begin_transaction()
            with pytest.raises(aiokafka.errors.InvalidTimestampError):
                await producer.send_and_wait("t", b"refused")
            with pytest.raises(aiokafka.errors.InvalidTimestampError):
                await producer.commit_transaction()
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send("t", b"then")

    with BrokerStub() as stub:
        run_story(story())
        assert values(stub, "t") == [b"then"]


def test_a_cancelled_commit_goes_on() -> None:
    """As in aiokafka. The next transaction begins after it."""

    async def story() -> None:
        async with transactional(stub) as producer:
            await producer.begin_transaction()
            await producer.send("t", b"1")
            task = asyncio.create_task(producer.commit_transaction())
            await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await producer.commit_transaction()
            task = asyncio.create_task(producer.begin_transaction())
            await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            async with producer.transaction():
                await producer.send("t", b"2")

    with BrokerStub() as stub:
        run_story(story())
        assert values(stub, "t") == [b"1", b"2"]


def test_a_cancelled_block_aborts() -> None:
    """None of its records is seen, and the producer goes on."""

    async def story() -> None:
        async with transactional(stub) as producer:
            inside = asyncio.Event()

            async def block() -> None:
                async with producer.transaction():
                    await producer.send("t", b"cancelled")
                    inside.set()
                    await asyncio.sleep(60)

            task = asyncio.create_task(block())
            await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with producer.transaction():
                await producer.send("t", b"then")

    with BrokerStub() as stub:
        run_story(story())
        assert values(stub, "t") == [b"then"]


def test_stop_aborts_what_is_open() -> None:
    """A transaction that was not committed is aborted, at once and not at its timeout."""

    async def story() -> None:
        producer = transactional(stub)
        await producer.start()
        await producer.begin_transaction()
        await producer.send("t", b"open")
        await producer.stop()
        for call in (producer.begin_transaction, producer.commit_transaction):
            with pytest.raises(aiokafka.errors.ProducerClosed):
                await call()

    with BrokerStub() as stub:
        run_story(story())
        assert values(stub, "t") == []


def test_a_refused_transactional_id_fails_the_start() -> None:
    """With aiokafka's error for it."""

    async def story() -> None:
        producer = transactional(stub)
        with pytest.raises(aiokafka.errors.TransactionalIdAuthorizationFailed):
            await producer.start()
        await producer.stop()

    with BrokerStub() as stub:
        stub.faults.on(Api.INIT_PRODUCER_ID).forever().error(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        run_story(story())
