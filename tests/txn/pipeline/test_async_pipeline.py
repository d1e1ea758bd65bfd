"""The pipeline for asyncio: what differs from the blocking one."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from confluent_kafka import Message

from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import Api, ErrorCode
from fencepost.txn import AsyncPipeline, PoisonMessage
from tests.producer.stub_helpers import run_story
from tests.reading import read_messages
from tests.txn.pipeline.helpers import DEAD, LIMIT_S, PARTITIONS, SINK, bill, group_at, invoices, order, results, settings_for, stub
from tests.waiting import until

__all__ = ["stub"]

N = 300


def made(stub: BrokerStub, transform: Any, **changed: Any) -> AsyncPipeline:
    return AsyncPipeline(**settings_for(stub.bootstrap, transform=transform, **changed))


@pytest.mark.parametrize("transform", [bill, None], ids=["a plain function", "an async function"])
def test_each_message_once(stub: BrokerStub, transform: Any) -> None:
    """Every message has one result, and the loop has no task left."""

    async def billing(message: Message) -> bytes:
        await asyncio.sleep(0)
        return bill(message)

    async def story() -> None:
        stats = await made(stub, transform or billing, batch_size=70).run_until_idle(timeout=LIMIT_S)
        assert stats.records_in == N

    before = set(threading.enumerate())
    order(stub.bootstrap, range(N))
    run_story(story())
    assert results(stub.bootstrap) == invoices(range(N))
    assert group_at(stub.bootstrap) == [N // PARTITIONS] * PARTITIONS
    until(lambda: set(threading.enumerate()) <= before, "the threads end")


def test_many_at_once_in_order(stub: BrokerStub) -> None:
    """Up to `concurrency` calls run at once. Later messages are ready first, and yet the results of a partition are in the order of its
    messages."""
    running, most = 0, 0

    async def backwards(message: Message) -> bytes:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02 if (message.offset() or 0) % 5 == 0 else 0.001)
        running -= 1
        return message.value() or b""

    async def story() -> None:
        await made(stub, backwards, concurrency=10, batch_ms=2_000).run_until_idle(timeout=LIMIT_S)

    order(stub.bootstrap, range(N), partitions=1)
    run_story(story())
    assert 5 <= most <= 10
    found = [message.value() for message in read_messages(stub.bootstrap, SINK, range(PARTITIONS)) if message.key() is not None]
    numbers: dict[int, list[int]] = {}
    for message in read_messages(stub.bootstrap, SINK, range(PARTITIONS)):
        numbers.setdefault(message.partition() or 0, []).append(int((message.value() or b"").split()[1]))
    assert len(found) == N
    assert all(listed == sorted(listed) for listed in numbers.values())


def test_failures_of_an_async_transform(stub: BrokerStub) -> None:
    """It is tried again. What still fails becomes a dead letter, or stops the pipeline behind what came before it."""

    async def picky(message: Message) -> bytes:
        await asyncio.sleep(0)
        if message.value() == b"order 13":
            raise KeyError("price")
        return bill(message)

    async def story() -> None:
        with pytest.raises(PoisonMessage, match="offset 13: KeyError"):
            await made(stub, picky).run_until_idle(timeout=LIMIT_S)
        assert max(group_at(stub.bootstrap)) == 13
        stats = await made(stub, picky, dead_letters=DEAD).run_until_idle(timeout=LIMIT_S)
        assert (stats.dead_letters, stats.retries) == (1, 2)

    order(stub.bootstrap, range(N), partitions=1)
    run_story(story())
    assert results(stub.bootstrap) == sorted(set(invoices(range(N))) - {b"invoice for order 13"})
    assert results(stub.bootstrap, DEAD) == [b"order 13"]


def test_an_async_transform_of_many(stub: BrokerStub) -> None:
    """It is awaited."""

    async def many(messages: list[Message]) -> list[tuple[bytes | None, bytes]]:
        await asyncio.sleep(0)
        return [(message.key(), bill(message)) for message in messages]

    async def story() -> None:
        await AsyncPipeline(**settings_for(stub.bootstrap, transform_many=many)).run_until_idle(timeout=LIMIT_S)

    order(stub.bootstrap, range(N))
    run_story(story())
    assert results(stub.bootstrap) == invoices(range(N))


def test_a_cancellation_aborts_the_open_batch(stub: BrokerStub) -> None:
    """The consumer has left the group and the producer is closed when the task ends. The next run processes everything once."""
    before = set(threading.enumerate())

    async def story() -> None:
        reached = asyncio.Event()

        async def hanging(message: Message) -> bytes:
            if message.value() == b"order 13":
                reached.set()
                await asyncio.sleep(LIMIT_S)
            return bill(message)

        task = asyncio.create_task(made(stub, hanging, concurrency=1, batch_ms=20_000).run())
        await asyncio.wait_for(reached.wait(), LIMIT_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        until(lambda: set(threading.enumerate()) <= before, "the threads end")
        assert len(stub.journal.requests(Api.LEAVE_GROUP)) == 1
        await made(stub, bill).run_until_idle(timeout=LIMIT_S)

    order(stub.bootstrap, range(N), partitions=1)
    run_story(story())
    assert results(stub.bootstrap) == invoices(range(N))


def test_a_cancellation_while_the_place_to_begin_is_not_known(stub: BrokerStub) -> None:
    """The coordinator refuses to tell the group's offsets. The consumer's thread stops asking for them, and the task ends."""
    before = set(threading.enumerate())
    order(stub.bootstrap, range(N))
    refused = stub.faults.on(Api.OFFSET_FETCH).forever().error(ErrorCode.UNKNOWN_SERVER_ERROR)

    async def story() -> None:
        task = asyncio.create_task(made(stub, bill).run())
        await asyncio.to_thread(refused.wait, 3, timeout=LIMIT_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, LIMIT_S)

    run_story(story())
    until(lambda: set(threading.enumerate()) <= before, "the threads end")


def test_an_open_batch_is_committed_before_partitions_are_given_up(stub: BrokerStub) -> None:
    """The consumer's thread waits meanwhile, and no other thread can call the consumer."""

    seen: list[Message] = []

    def noted(message: Message) -> bytes:
        seen.append(message)
        return bill(message)

    async def story() -> None:
        async with made(stub, noted, batch_size=1_000, batch_ms=25_000) as first, made(stub, bill) as second:
            tasks = [asyncio.create_task(first.run(timeout=LIMIT_S))]
            while len(seen) < N:
                await asyncio.sleep(0.01)
            assert not first.stats().batches
            tasks.append(asyncio.create_task(second.run(timeout=LIMIT_S)))
            while not second.stats().partitions:
                await asyncio.sleep(0.01)
            assert first.stats().batches == 1
            assert first.stats().records_in == N
            first.stop()
            second.stop()
            await asyncio.gather(*tasks)

    order(stub.bootstrap, range(N))
    run_story(story())
    assert results(stub.bootstrap) == invoices(range(N))


def test_rebalances_and_aborts(stub: BrokerStub) -> None:
    """Two pipelines on one loop, with aborted transactions: partitions change hands, and every message has one result."""

    async def slowly(message: Message) -> bytes:
        await asyncio.sleep(0.002)
        return bill(message)

    async def story() -> None:
        async with made(stub, slowly, batch_ms=200, concurrency=2) as first, made(stub, slowly, batch_ms=200, concurrency=2) as second:
            tasks = [asyncio.create_task(first.run(timeout=LIMIT_S))]
            while not first.stats().records_in:
                await asyncio.sleep(0.01)
            tasks.append(asyncio.create_task(second.run(timeout=LIMIT_S)))
            while first.stats().records_in + second.stats().records_in < N or not second.stats().partitions:
                await asyncio.sleep(0.01)
            first.stop()
            second.stop()
            await asyncio.gather(*tasks)

    order(stub.bootstrap, range(N))
    stub.faults.on(Api.TXN_OFFSET_COMMIT).on_call(2).error(ErrorCode.ILLEGAL_GENERATION)
    run_story(story())
    assert results(stub.bootstrap) == invoices(range(N))
    assert sum(group_at(stub.bootstrap)) == N


@pytest.mark.parametrize("kind", ["one", "many", "plain"])
@pytest.mark.parametrize("again", [True, False], ids=["once", "always"])
def test_a_cancellation_inside_the_transform(stub: BrokerStub, kind: str, again: bool) -> None:
    """A transform awaits something that was cancelled, and raises CancelledError, though the pipeline was not cancelled: this is a failure
    of the message. It is tried again, or becomes a dead letter, and no message is lost."""
    raised: list[int] = []

    def check(message: Message) -> bytes:
        if b"order 7" in (message.value() or b"") and not (again and raised):
            raised.append(1)
            raise asyncio.CancelledError
        return bill(message)

    async def one(message: Message) -> bytes:
        if b"order 7" in (message.value() or b"") and not (again and raised):
            raised.append(1)
            inner = asyncio.create_task(asyncio.sleep(60))
            inner.cancel()
            await inner
        return bill(message)

    async def many(messages: list[Message]) -> list[bytes]:
        return [await one(message) for message in messages]

    async def story() -> None:
        given: dict[str, Any] = {"dead_letters": DEAD, "attempts": 2, "transform_many": many if kind == "many" else None}
        pipeline = made(stub, {"one": one, "plain": check, "many": None}[kind], **given)
        stats = await pipeline.run_until_idle(timeout=LIMIT_S)
        assert (stats.records_in, stats.dead_letters) == (10, 0 if again else 1)

    order(stub.bootstrap, range(10))
    run_story(story())
    wanted = set(invoices(range(10))) - (set() if again else {b"invoice for order 7"})
    assert results(stub.bootstrap) == sorted(wanted)
    assert results(stub.bootstrap, DEAD) == ([] if again else [b"order 7"])


def test_a_transform_of_lists_that_cancels_its_own_task(stub: BrokerStub) -> None:
    """The pipeline is not cancelled with it: the messages are tried one by one, and the one becomes a dead letter."""

    async def cancelling(messages: list[Message]) -> list[bytes]:
        if any(message.value() == b"order 7" for message in messages):
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)
        return [bill(message) for message in messages]

    async def story() -> None:
        pipeline = AsyncPipeline(**settings_for(stub.bootstrap, transform_many=cancelling, dead_letters=DEAD, attempts=2))
        stats = await pipeline.run_until_idle(timeout=LIMIT_S)
        assert (stats.records_in, stats.dead_letters) == (N, 1)

    order(stub.bootstrap, range(N))
    run_story(story())
    assert results(stub.bootstrap) == sorted(set(invoices(range(N))) - {b"invoice for order 7"})
    assert results(stub.bootstrap, DEAD) == [b"order 7"]


@pytest.mark.parametrize("concurrency", [1, 3, 100])
@pytest.mark.parametrize("again", [True, False], ids=["once", "always"])
def test_a_transform_that_cancels_its_own_task(stub: BrokerStub, concurrency: int, again: bool) -> None:
    """That ends a worker of the pipeline, which other messages waited for. It is a failure of the message, and no message is lost."""
    cancelled: list[int] = []

    async def cancelling(message: Message) -> bytes:
        if message.value() == b"order 7" and not (again and cancelled):
            cancelled.append(1)
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)
        return bill(message)

    async def story() -> None:
        pipeline = made(stub, cancelling, concurrency=concurrency, dead_letters=DEAD, attempts=2)
        stats = await pipeline.run_until_idle(timeout=LIMIT_S)
        assert (stats.records_in, stats.dead_letters, stats.retries) == (N, 0 if again else 1, 1)

    order(stub.bootstrap, range(N))
    run_story(story())
    wanted = set(invoices(range(N))) - (set() if again else {b"invoice for order 7"})
    assert results(stub.bootstrap) == sorted(wanted)
    assert results(stub.bootstrap, DEAD) == ([] if again else [b"order 7"])
