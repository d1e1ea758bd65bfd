"""Where docs/compat.md says that aiokafka's producer and ours differ: both are asked, and do what its table says of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import aiokafka
import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.compat.aiokafka import AIOKafkaProducer
from fencepost.producer.wire import Api, ErrorCode
from tests.producer.stub_helpers import run_story


async def _illegal_name(producer: Any) -> object:
    return await producer.send("a b", b"v")


async def _negative_time(producer: Any) -> object:
    return await producer.send_and_wait("t", b"v", timestamp_ms=-5)


async def _half_a_millisecond(producer: Any) -> object:
    return await producer.send_and_wait("t", b"v", timestamp_ms=1.5)


async def _a_batch_twice(producer: Any) -> object:
    batch = producer.create_batch()
    batch.append(key=None, value=b"v", timestamp=None)
    for _ in range(2):
        await (await producer.send_batch(batch, "t", partition=0))
    return batch


async def _flush_after_stop(producer: Any) -> object:
    await producer.stop()
    return await producer.flush()


DONE = "done"
ROWS = [
    (_illegal_name, "UnknownTopicOrPartitionError", "ValueError"),
    (_negative_time, DONE, "ValueError"),
    (_half_a_millisecond, DONE, "TypeError"),
    (_a_batch_twice, DONE, "ValueError"),
    (_flush_after_stop, DONE, "ProducerClosed"),
]


async def _ended(call: Callable[[Any], Awaitable[object]], producer: Any) -> str:
    try:
        await call(producer)
    except Exception as error:  # noqa: BLE001  # the name of its class is what is compared
        return type(error).__name__
    return DONE


@pytest.mark.parametrize(("call", "theirs", "ours"), ROWS, ids=[call.__name__.lstrip("_") for call, *_ in ROWS])
def test_both_do_what_the_page_says(call: Callable[[Any], Awaitable[object]], theirs: str, ours: str) -> None:
    """The error, or none."""

    async def story() -> None:
        for kind, expected in ((aiokafka.AIOKafkaProducer, theirs), (AIOKafkaProducer, ours)):
            async with kind(bootstrap_servers=stub.bootstrap, request_timeout_ms=500) as producer:
                assert await _ended(call, producer) == expected

    with BrokerStub() as stub:
        stub.create_topic("t")
        run_story(story())


@pytest.mark.parametrize(("kind", "expected"), [(aiokafka.AIOKafkaProducer, "AssertionError"), (AIOKafkaProducer, DONE)])
def test_a_commit_inside_a_block(kind: Any, expected: str) -> None:
    """aiokafka's block commits once more at its end, and ours sees that there is nothing left to end."""

    async def block(producer: Any) -> None:
        async with producer.transaction():
            await producer.send("t", b"v")
            await producer.commit_transaction()

    async def story() -> None:
        async with kind(bootstrap_servers=stub.bootstrap, transactional_id="id") as producer:
            assert await _ended(block, producer) == expected

    with BrokerStub() as stub:
        stub.create_topic("t")
        run_story(story())
        assert [record.value for record in stub.records("t", 0)] == [b"v"]


@pytest.mark.parametrize(
    ("kind", "ends", "kept"), [(aiokafka.AIOKafkaProducer, DONE, [b"first"]), (AIOKafkaProducer, "InvalidTimestampError", [])]
)
def test_a_record_of_the_transaction_is_refused(kind: Any, ends: str, kept: list[bytes]) -> None:
    """aiokafka commits the others, and the transaction is not whole. Ours refuses the commit with the record's error."""

    async def commit(producer: Any) -> None:
        await producer.commit_transaction()

    async def story() -> None:
        async with kind(bootstrap_servers=stub.bootstrap, transactional_id="id") as producer:
            await producer.begin_transaction()
            await producer.send_and_wait("t", b"first")
            stub.faults.on(Api.PRODUCE).error(ErrorCode.INVALID_TIMESTAMP)
            with pytest.raises(aiokafka.errors.InvalidTimestampError):
                await producer.send_and_wait("t", b"second")
            assert await _ended(commit, producer) == ends

    with BrokerStub() as stub:
        stub.create_topic("t")
        run_story(story())
        assert [record.value for record in stub.records("t", 0)] == kept
