"""`AIOKafkaProducer` of fencepost.compat.aiokafka: sending, what `send` returns, batches and partitions, as aiokafka's users know them."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import aiokafka
import pytest
import uvloop
from aiokafka.partitioner import DefaultPartitioner

from fencepost.broker_stub import BrokerStub
from fencepost.compat.aiokafka import AIOKafkaProducer, BatchBuilder, DeliveryFuture, TopicPartition
from fencepost.compat.aiokafka.errors import KafkaTimeoutError
from fencepost.producer import AsyncProducer, RecordFuture
from fencepost.producer.wire import Api
from tests.fencepost.compat.aiokafka_producers import made
from tests.later import Jump, jump
from tests.producer.stub_helpers import LIMIT_S, run_story, values

__all__ = ["jump"]


def test_send_and_wait_returns_aiokafkas_metadata() -> None:
    """All seven fields, in aiokafka's own tuple."""

    async def story() -> None:
        async with made(stub) as producer:
            before = int(time.time() * 1000)
            at = await producer.send_and_wait("t", b"value", b"key", 1, None, [("h", b"1")])
            assert isinstance(at, aiokafka.structs.RecordMetadata)
            assert before <= (at.timestamp or 0) <= before + 10_000
            assert at == ("t", 1, TopicPartition("t", 1), 0, at.timestamp, 0, None)
            at = await producer.send_and_wait("t", value=b"then", partition=1, timestamp_ms=123_456)
            assert (at.offset, at.timestamp, at.timestamp_type) == (1, 123_456, 0)

    with BrokerStub(default_partitions=2) as stub:
        run_story(story())
        first, second = stub.records("t", 1)
        assert (first.key, first.value, first.headers) == (b"key", b"value", (("h", b"1"),))
        assert (second.key, second.value, second.timestamp) == (None, b"then", 123_456)


def test_the_brokers_time_is_told() -> None:
    """With message.timestamp.type=LogAppendTime the type is 1, and the time is the broker's."""

    async def story() -> None:
        async with made(stub) as producer:
            at = await producer.send_and_wait("t", b"v", timestamp_ms=5)
            assert at.timestamp_type == 1
            assert (at.timestamp or 0) > 5

    with BrokerStub() as stub:
        stub.create_topic("t", config={"message.timestamp.type": "LogAppendTime"})
        run_story(story())


def test_what_send_returns_is_an_asyncio_future() -> None:
    """It works with await, gather, wait, wait_for, shield, as_completed and callbacks, before and after the outcome, twice and in any
    order."""

    async def story() -> None:
        async with made(stub) as producer:
            made_futures = [await producer.send("t", b"%d" % number) for number in range(8)]
            assert asyncio.isfuture(made_futures[0])
            assert asyncio.Future in type(made_futures[0]).__mro__
            assert made_futures[0].get_loop() is asyncio.get_running_loop()
            called: list[int] = []
            made_futures[0].add_done_callback(lambda done: called.append(done.result().offset))
            removed: Any = called.append
            made_futures[0].add_done_callback(removed)
            assert made_futures[0].remove_done_callback(removed) == 1
            done, pending = await asyncio.wait(made_futures[:3])
            assert not pending
            assert {each.result().offset for each in done} == {0, 1, 2}
            assert called == [0]
            gathered = await asyncio.gather(*made_futures[3:5], made_futures[3])
            assert [at.offset for at in gathered] == [3, 4, 3]
            assert await asyncio.wait_for(made_futures[5], 10) == await asyncio.shield(made_futures[5])
            assert [(await each) is not None for each in asyncio.as_completed(made_futures[6:])] == [True, True]
            last = made_futures[7]
            assert last.done()
            assert not last.cancelled()
            assert last.exception() is None
            last.add_done_callback(lambda done: called.append(done.result().offset))
            assert called == [0]  # callbacks come from the loop, never from the call
            await asyncio.sleep(0)
            assert called == [0, 7]

    with BrokerStub() as stub:
        run_story(story())


def test_a_future_that_is_not_used_costs_no_callback() -> None:
    """Until the program uses it, the future only points at fencepost's, which is `underlying`."""

    async def story() -> None:
        async with made(stub) as producer:
            future = await producer.send("t", b"v")
            assert isinstance(future, DeliveryFuture)
            assert isinstance(future.underlying, RecordFuture)
            assert "pending" in repr(future)
            assert not future.done()
            assert not future.cancelled()
            assert future.remove_done_callback(print) == 0
            with pytest.raises(asyncio.InvalidStateError):
                future.result()
            await producer.flush()
            assert future.done()
            assert future.result().offset == 0
            assert "offset 0" in repr(future)

    with BrokerStub() as stub:
        run_story(story())


def test_the_futures_of_a_batch_that_is_split() -> None:
    """The topic takes smaller batches than the producer made. Each future gets its own record's offset, and a cancelled one none."""

    async def story() -> None:
        async with made(stub, max_batch_size=16_000) as producer:
            await producer.partitions_for("t")
            futures = [await producer.send("t", b"%03d" % number + b"x" * 100) for number in range(120)]
            assert futures[5].cancel()
            done, pending = await asyncio.wait(futures)
            assert (len(done), pending) == (120, set())
            assert [each.result().offset for each in futures if not each.cancelled()] == [*range(5), *range(6, 120)]
            assert producer._outcomes._followed == {}

    with BrokerStub() as stub:
        stub.create_topic("t", config={"max.message.bytes": 2_000})
        run_story(story())
        assert [each[:3] for each in values(stub, "t")] == [b"%03d" % number for number in range(120)]


def test_cancelling_a_future_cancels_no_record(caplog: pytest.LogCaptureFixture) -> None:
    """The future is cancelled, and the record is in the log."""

    async def story() -> None:
        async with made(stub) as producer:
            await producer.send_and_wait("t", b"0")
            future = await producer.send("t", b"1")
            assert future.cancel()
            assert future.cancelled()
            assert "cancelled" in repr(future)
            with pytest.raises(asyncio.CancelledError):
                await future
            with pytest.raises(TimeoutError):
                held = stub.faults.on(Api.PRODUCE).reply().hold()
                await asyncio.wait_for(await producer.send("t", b"2"), 0.05)
            held.remove()
            batch = producer.create_batch()
            batch.append(timestamp=None, key=None, value=b"3")
            assert (await producer.send_batch(batch, "t", partition=0)).cancel()
            await producer.flush()

    with BrokerStub() as stub:
        run_story(story())
        assert values(stub, "t") == [b"0", b"1", b"2", b"3"]
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []


def test_without_acknowledgements_the_result_is_none() -> None:
    """acks=0, as in aiokafka."""

    async def story() -> None:
        async with made(stub, acks=0) as producer:
            assert await producer.send_and_wait("t", b"v") is None
            batch = producer.create_batch()
            batch.append(timestamp=None, key=None, value=b"w")
            assert await (await producer.send_batch(batch, "t", partition=0)) is None

    with BrokerStub() as stub:
        run_story(story())


def test_serializers_are_called_as_aiokafka_calls_them() -> None:
    """With the one argument, and for None too; in `send` and in batches."""

    async def story() -> None:
        seen: list[object] = []

        def key(given: Any) -> bytes | None:
            seen.append(given)
            return None if given is None else given.encode()

        async with made(stub, key_serializer=key, value_serializer=lambda given: json.dumps(given).encode()) as producer:
            await producer.send_and_wait("t", {"a": 1}, key="k")
            await producer.send_and_wait("t", None, key="n")
            await producer.send_and_wait("t", [2])
            batch = producer.create_batch()
            batch.append(timestamp=None, key="b", value="text")
            await (await producer.send_batch(batch, "t", partition=0))
            assert seen == ["k", "n", None, "b"]

    with BrokerStub() as stub:
        run_story(story())
        assert [(each.key, each.value) for each in stub.records("t", 0)] == [
            (b"k", b'{"a": 1}'),
            (b"n", b"null"),
            (None, b"[2]"),
            (b"b", b'"text"'),
        ]


def test_bytes_like_values_and_any_headers_are_sent() -> None:
    """bytearray and memoryview, and headers of a dictionary's items, as pairs in lists, and none."""

    async def story() -> None:
        async with made(stub) as producer:
            await producer.send_and_wait("t", bytearray(b"v"), memoryview(b"k"), headers={"a": b"1"}.items())
            await producer.send_and_wait("t", b"w", headers=[["b", bytearray(b"2")], ("c", None)])  # type: ignore[list-item]  # it works
            await producer.send_and_wait("t", b"x", headers=())

    with BrokerStub() as stub:
        run_story(story())
        assert [(each.key, each.value, each.headers) for each in stub.records("t", 0)] == [
            (b"k", b"v", (("a", b"1"),)),
            (None, b"w", (("b", b"2"), ("c", None))),
            (None, b"x", ()),
        ]


def test_partitioners_are_called_as_aiokafka_calls_them() -> None:
    """A function gets the encoded key and the partitions. aiokafka's own default is fencepost's: both place a key alike."""
    seen: list[tuple[Any, list[int], list[int]]] = []

    def last(key: bytes | None, everywhere: list[int], available: list[int]) -> int:
        seen.append((key, everywhere, available))
        return everywhere[-1]

    async def story() -> None:
        async with made(stub, partitioner=last) as producer:
            at = await producer.send_and_wait("t", b"v", key=b"k")
            assert at.partition == 4
            assert seen == [(b"k", [0, 1, 2, 3, 4], [0, 1, 2, 3, 4])]
            batch = producer.create_batch()
            batch.append(timestamp=None, key=None, value=b"w")
            at = await (await producer.send_batch(batch, "t", partition=None))
            assert at.partition == 4
        async with made(stub, partitioner=DefaultPartitioner()) as producer:
            for key in (b"a", b"some longer key", b"\x00\xff"):
                at = await producer.send_and_wait("t", b"v", key=key)
                assert at.partition == DefaultPartitioner()(key, [0, 1, 2, 3, 4], [0, 1, 2, 3, 4])

    with BrokerStub(default_partitions=5) as stub:
        run_story(story())


def test_partitions_for_returns_a_set() -> None:
    """As in aiokafka."""

    async def story() -> None:
        async with made(stub) as producer:
            assert await producer.partitions_for("t") == {0, 1, 2}

    with BrokerStub(default_partitions=3) as stub:
        run_story(story())


def test_a_batch_is_filled_and_sent() -> None:
    """The builder counts records and bytes as aiokafka's does. The future has the offset of the first record."""

    async def story() -> None:
        async with made(stub, max_batch_size=300) as producer, aiokafka.AIOKafkaProducer(bootstrap_servers=stub.bootstrap) as theirs:
            await producer.send_and_wait("t", b"before")
            batch, other = producer.create_batch(), theirs.create_batch()
            assert isinstance(batch, BatchBuilder)
            number = 0
            while (at := batch.append(timestamp=1_000 + number, key=b"k", value=b"v%02d" % number, headers=[("h", b"x")])) is not None:
                like = other.append(timestamp=1_000 + number, key=b"k", value=b"v%02d" % number, headers=[("h", b"x")])
                assert (at.offset, at.size, at.timestamp, at.crc) == (like.offset, like.size, like.timestamp, like.crc)
                number += 1
            assert batch.size() <= 300
            assert (batch.record_count(), batch.closed(), batch.size()) == (number, True, other.size())
            assert batch.append(timestamp=None, key=None, value=b"") is None
            future = await producer.send_batch(batch, "t", partition=0)
            assert await future == ("t", 0, TopicPartition("t", 0), 1, -1, 0, None)
            with pytest.raises(ValueError, match="sent before"):
                await producer.send_batch(batch, "t", partition=0)

    with BrokerStub() as stub:
        run_story(story())
        assert [each.timestamp for each in stub.records("t", 0)][1:] == list(range(1_000, 1_000 + len(values(stub, "t")) - 1))
        assert len(values(stub, "t")) > 10


@pytest.mark.parametrize("transactional", [False, True])
def test_a_batch_without_room_is_not_sent_in_part(jump: Jump, transactional: bool) -> None:
    """The buffer has room for some of its records. The call raises, or is cancelled, and none is in the log: the program sends the batch
    again, and each record is there once."""

    async def waits_for_room(producer: AIOKafkaProducer, batch: BatchBuilder) -> asyncio.Task[Any]:
        waiting = asyncio.create_task(producer.send_batch(batch, "t", partition=0))
        inner: Any = getattr(producer.underlying, "_inner", producer.underlying)
        while not inner._accumulator.waiting:
            await asyncio.sleep(0)
        return waiting

    async def story() -> None:
        more = {"transactional_id": "a"} if transactional else {}
        async with made(stub, request_timeout_ms=40_000, max_batch_size=1_000_000, **more) as producer:
            await producer.partitions_for("t")
            await producer.partitions_for("other")
            if transactional:
                await producer.begin_transaction()
            held = stub.faults.on(Api.PRODUCE).forever().hold()
            while (room := producer.underlying.stats().buffer_available_bytes) > 450_000:
                await producer.send("other", bytes(min(200_000, room - 420_000)))
            batch = producer.create_batch()
            for number in range(9):
                assert batch.append(timestamp=None, key=None, value=b"%d" % number + bytes(90_000)) is not None
            waiting = await waits_for_room(producer, batch)
            jump(50_000)
            with pytest.raises(KafkaTimeoutError, match="has no room"):
                await waiting
            waiting = await waits_for_room(producer, batch)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            held.remove()
            await producer.flush()
            assert (await (await producer.send_batch(batch, "t", partition=0))).offset == 0
            with pytest.raises(ValueError, match="sent before"):
                await producer.send_batch(batch, "t", partition=0)
            if transactional:
                await producer.commit_transaction()

    with BrokerStub(default_partitions=1) as stub:
        stub.create_topic("t")
        stub.create_topic("other")
        run_story(story())
        assert [value[:1] for value in values(stub, "t") if value] == [b"%d" % number for number in range(9)]


def test_a_batch_of_many_small_records() -> None:
    """More than are appended in one step, and in more than one batch of the log: all are there, in order."""

    async def story() -> None:
        async with made(stub, max_batch_size=200_000) as producer:
            batch = producer.create_batch()
            number = 0
            while batch.append(timestamp=None, key=None, value=b"%d" % number, headers=[("h", b"")] if number % 2 else None) is not None:
                number += 1
            counted.append(number)
            assert (await (await producer.send_batch(batch, "t", partition=0))).offset == 0

    counted: list[int] = []
    with BrokerStub() as stub:
        stub.create_topic("t")
        run_story(story())
        assert values(stub, "t") == [b"%d" % number for number in range(counted[0])]
        assert counted[0] > 5_000


def test_odd_batches() -> None:
    """A first record may be larger than the batch. A closed or empty batch can be sent. Bad records are refused and change nothing."""

    async def story() -> None:
        async with made(stub, max_batch_size=100) as producer:
            large = producer.create_batch()
            assert large.append(timestamp=None, key=None, value=b"x" * 500) is not None
            assert large.append(timestamp=None, key=None, value=b"y") is None
            await (await producer.send_batch(large, "t", partition=0))
            empty = producer.create_batch()
            empty.close()
            assert await (await producer.send_batch(empty, "t", partition=0)) is None
            bad = producer.create_batch()
            size = bad.size()
            for wrong in ({"value": "text"}, {"key": 5}, {"timestamp": -5}, {"timestamp": "now"}, {"headers": [("a",)]}, {"headers": 7}):
                with pytest.raises((TypeError, ValueError)):
                    bad.append(**{"timestamp": None, "key": None, "value": b"v", **wrong})  # type: ignore[arg-type]  # wrong on purpose
            assert (bad.record_count(), bad.size()) == (0, size)

    with BrokerStub() as stub:
        run_story(story())
        assert values(stub, "t") == [b"x" * 500]


def test_a_health_check_asks_the_client() -> None:
    """All topics, or those that were added; the brokers, in aiokafka's own tuples; and False while no broker answers."""

    async def story() -> None:
        async with made(stub) as producer:
            client = producer.client
            assert (client.cluster.brokers(), client.cluster.topics()) == (set(), set())
            assert (await client.fetch_all_metadata()).topics() == {"t", "u"}
            (broker,) = client.cluster.brokers()
            assert isinstance(broker, aiokafka.structs.BrokerMetadata)
            assert f"{broker.host}:{broker.port}" == stub.bootstrap
            assert await client.add_topic("t")
            assert await client.force_metadata_update()
            assert client.cluster.topics() == {"t"}
            assert client.cluster.partitions_for_topic("t") == {0, 1}
            assert client.cluster.partitions_for_topic("u") is None
            stub.stop_broker(1)
            assert not await client.force_metadata_update()
            assert client.cluster.topics() == {"t"}
            stub.start_broker(1)
            client.add_topic("new")
            await client.force_metadata_update()
            assert await client.force_metadata_update()
            assert client.cluster.topics() == {"t", "new"}

    with BrokerStub(default_partitions=2) as stub:
        stub.create_topic("t")
        stub.create_topic("u")
        run_story(story())


def test_fenceposts_producer_is_underneath() -> None:
    """With all that it has: idempotence, send_many, statistics."""

    async def story() -> None:
        async with made(stub) as producer:
            assert isinstance(producer.underlying, AsyncProducer)
            assert stub.bootstrap in repr(producer)
            await (await producer.underlying.send_many("t", [b"1", b"2"]))
            assert producer.underlying.stats().record_send_total == 2

    with BrokerStub() as stub:
        run_story(story())


def test_it_runs_on_uvloop() -> None:
    """Its futures are asyncio's there, too."""

    async def story() -> None:
        async with made(stub) as producer:
            futures = [await producer.send("t", b"%d" % number) for number in range(100)]
            await asyncio.wait(futures)
            assert [each.result().offset for each in await asyncio.gather(*map(done, futures))] == list(range(100))

    async def done(future: DeliveryFuture) -> DeliveryFuture:
        await asyncio.wait_for(asyncio.shield(future), 10)
        return future

    with BrokerStub() as stub, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(story(), LIMIT_S))


def test_many_tasks_send_at_once() -> None:
    """Ten thousand records of a hundred tasks through a small buffer: each is there once, and each task's are in order."""

    async def story() -> None:
        async with made(stub, max_batch_size=1000, max_request_size=2000) as producer:

            async def send(task: int) -> None:
                for number in range(100):
                    await producer.send("t", b"%d-%d" % (task, number), key=b"%d" % task)

            await asyncio.gather(*map(send, range(100)))
            await producer.flush()

    with BrokerStub(default_partitions=4) as stub:
        run_story(story())
        found: dict[bytes, list[int]] = {}
        for partition in range(4):
            for value in values(stub, "t", partition):
                task, _, number = (value or b"").partition(b"-")
                found.setdefault(task, []).append(int(number))
        assert found == {b"%d" % task: list(range(100)) for task in range(100)}
