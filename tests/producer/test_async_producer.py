"""The asyncio producer: it keeps the same promises on the caller's loop, serves callers in the order of their arrival, and cancellation
withdraws no accepted record."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import (
    AsyncProducer,
    BufferFull,
    DeliveryError,
    DeliveryFatal,
    Misuse,
    Persisted,
    ProducerClosed,
    RecordFuture,
    RecordMetadata,
    TopicUnavailable,
    UndeliveredRecords,
)
from fencepost.producer.config.keywords import CompressionName
from fencepost.producer.wire import Api, ErrorCode
from tests.producer.stub_helpers import LIMIT_S, QUICK, drop, quick, run_story, values


def made(stub: BrokerStub, **settings: Any) -> AsyncProducer:
    return AsyncProducer(bootstrap_servers=stub.bootstrap, **{**QUICK, **settings})


def test_what_is_awaited_is_in_the_log() -> None:
    """`await send` accepts, `await` of the future acknowledges, and both orders are the order of the log."""

    async def story() -> None:
        async with made(stub) as producer:
            first = await producer.send("t", b"0", partition=0)
            assert isinstance(first, RecordFuture)
            assert await first == RecordMetadata("t", 0, 0, (await first).timestamp)
            futures = [await producer.send("t", b"%d" % n, partition=0) for n in range(1, 200)]
            metadata = await asyncio.gather(*futures)
            assert [m.offset for m in metadata] == list(range(1, 200))
            assert await producer.partitions_for("t") == [0]

    with BrokerStub(default_partitions=1) as stub:
        run_story(story())
        assert values(stub, "t") == [b"%d" % n for n in range(200)]


def test_two_hundred_tasks_and_a_small_buffer() -> None:
    """They wait their turns for room; every record is in the log once, each task's in its order."""

    async def work(producer: AsyncProducer, task: int) -> None:
        for number in range(50):
            await producer.send("t", b"%d:%d" % (task, number), partition=0, headers=[("pad", b"x" * 50)])

    async def story() -> None:
        async with made(stub, buffer_memory=8_000, batch_size=1_000, max_request_size=4_000) as producer:
            await asyncio.gather(*(work(producer, task) for task in range(200)))

    with BrokerStub(default_partitions=1) as stub:
        run_story(story())
        logged = values(stub, "t")
    assert Counter(logged) == Counter(b"%d:%d" % (task, n) for task in range(200) for n in range(50))
    for task in range(200):
        own = [value for value in logged if value.startswith(b"%d:" % task)]
        assert own == [b"%d:%d" % (task, n) for n in range(50)]


def test_a_full_buffer_is_first_come_first_served() -> None:
    """Tasks that wait for room get it in turn. `try_send` does not overtake them. A wait that is too long ends with BufferFull."""

    async def story() -> None:
        async with made(stub, buffer_memory=1_024, batch_size=100, max_request_size=1_024, max_block_ms=20_000) as producer:
            await producer.partitions_for("t")
            hold = stub.faults.on(Api.PRODUCE).before().forever().hold()
            accepted: list[int] = []

            async def send(number: int) -> None:
                await producer.send("t", b"x" * 300, partition=0)
                accepted.append(number)

            tasks = [asyncio.create_task(send(number)) for number in range(10)]
            while len(accepted) < 2:
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert accepted == [0, 1]
            with pytest.raises(BufferFull, match=r"buffer_memory=1024 .* now"):
                producer.try_send("t", b"")
            hold.remove()
            await asyncio.gather(*tasks)
            assert accepted == list(range(10))

    with BrokerStub(default_partitions=1) as stub:
        run_story(story())
        assert len(values(stub, "t")) == 10


def test_the_buffer_stays_full() -> None:
    """BufferFull after max_block_ms names the limit and the setting; the record was not accepted."""

    async def story() -> None:
        async with made(stub, buffer_memory=1_024, max_request_size=1_024, max_block_ms=100) as producer:
            await producer.partitions_for("t", 20)
            hold = stub.faults.on(Api.PRODUCE).before().forever().hold()
            await producer.send("t", b"x" * 500, partition=0)
            with pytest.raises(BufferFull, match=r"buffer_memory=1024 .* max_block_ms=100"):
                await producer.send("t", b"y" * 500, partition=0)
            hold.remove()

    with BrokerStub(default_partitions=1) as stub:
        run_story(story())
        assert [value[:1] for value in values(stub, "t")] == [b"x"]


def test_cancelling_takes_nothing_back() -> None:
    """A cancelled wait for room accepted nothing; a cancelled wait for an acknowledgement leaves the record on its way; others go on."""

    async def story() -> None:
        async with made(stub, buffer_memory=1_024, max_request_size=1_024) as producer:
            await producer.partitions_for("t")
            hold = stub.faults.on(Api.PRODUCE).before().forever().hold()
            first = await producer.send("t", b"a" * 500, partition=0)
            waits = [asyncio.create_task(producer.send("t", letter * 500, partition=0)) for letter in (b"b", b"c")]
            acknowledged = asyncio.ensure_future(first)
            await asyncio.sleep(0)
            waits[0].cancel()
            acknowledged.cancel()
            await asyncio.wait([waits[0], acknowledged])
            assert waits[0].cancelled()
            assert acknowledged.cancelled()
            hold.remove()
            await (await waits[1])
            assert (await first).offset == 0

    with BrokerStub(default_partitions=1) as stub:
        run_story(story())
        assert [value[:1] for value in values(stub, "t")] == [b"a", b"c"]


def test_a_failure_whose_waiter_was_cancelled_is_not_silent() -> None:
    """No caller has seen the failure, so `flush` raises it."""

    async def story() -> None:
        async with made(stub) as producer:
            await producer.partitions_for("t")
            fault = stub.faults.on(Api.PRODUCE).before().times(1).error(ErrorCode.INVALID_RECORD)
            hold = stub.faults.on(Api.PRODUCE).reply().times(1).hold()
            waiter = asyncio.ensure_future(await producer.send("t", b"x", partition=0))
            while not hold.hits:
                await asyncio.sleep(0.001)
            waiter.cancel()
            await asyncio.wait([waiter])
            hold.release()
            with pytest.raises(UndeliveredRecords, match="1 record was not delivered"):
                await producer.flush()
            assert fault.hits == 1

    with BrokerStub(default_partitions=1) as stub:
        run_story(story())


@pytest.mark.parametrize("bulk", [False, True])
def test_a_failure_whose_waiter_was_cancelled_at_the_last_moment(*, bulk: bool) -> None:
    """The failure has come and the waiter is cancelled before it runs: the program has read nothing, so `flush` raises it."""

    async def story() -> None:
        async with made(stub) as producer:
            await producer.partitions_for("t")
            stub.faults.on(Api.PRODUCE).before().times(1).error(ErrorCode.INVALID_RECORD)
            future = await (producer.send_many("t", [b"x"], partition=0) if bulk else producer.send("t", b"x", partition=0))

            async def wait() -> None:
                await future

            waiter = asyncio.ensure_future(wait())
            await asyncio.sleep(0)
            while not future.done():
                await asyncio.sleep(0)
            waiter.cancel()
            await asyncio.wait([waiter])
            assert waiter.cancelled()
            with pytest.raises(UndeliveredRecords, match="1 record was not delivered"):
                await producer.flush()

    with BrokerStub(default_partitions=1) as stub:
        run_story(story())


def test_a_failure_that_a_task_is_about_to_read() -> None:
    """`flush` lets tasks that were woken to read their failures do so first."""

    async def story() -> None:
        async with made(stub) as producer:
            await producer.partitions_for("t")
            stub.faults.on(Api.PRODUCE).before().forever().error(ErrorCode.INVALID_RECORD)

            future = await producer.send("t", b"x", partition=0)

            async def wait() -> None:
                with pytest.raises(DeliveryError):
                    await future

            waiter = asyncio.ensure_future(wait())
            while not future.done():
                await asyncio.sleep(0)
            await producer.flush()
            await waiter

    with BrokerStub(default_partitions=1) as stub:
        run_story(story())


def test_close_under_cancellation_ends_at_once() -> None:
    """A cancelled `close` leaves no connection and no task; what was undelivered has failed."""

    async def story() -> None:
        producer = made(stub)
        await producer.partitions_for("t")
        held = stub.faults.on(Api.PRODUCE).before().forever().hold()
        future = await producer.send("t", b"x", partition=0)
        closing = asyncio.create_task(producer.close())
        await asyncio.to_thread(held.wait, 1, LIMIT_S / 3)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        failure = future.exception()
        assert isinstance(failure, DeliveryFatal)
        assert failure.persisted is Persisted.MAYBE
        with pytest.raises(ProducerClosed):
            await producer.send("t", b"y")

    with BrokerStub(default_partitions=1) as stub:
        run_story(story())


def test_flush_has_a_deadline() -> None:
    """It says how many records have no outcome yet, and they are delivered all the same."""

    async def story() -> None:
        async with made(stub) as producer:
            await producer.partitions_for("t")
            hold = stub.faults.on(Api.PRODUCE).before().forever().hold()
            await producer.send("t", b"x", partition=0)
            with pytest.raises(TimeoutError, match=r"1 record has no outcome after 0\.05 s"):
                await producer.flush(0.05)
            hold.remove()
            await producer.flush()

    with BrokerStub(default_partitions=1) as stub:
        run_story(story())
        assert values(stub, "t") == [b"x"]


def test_an_unknown_topic_has_a_deadline() -> None:
    """TopicUnavailable after max_block_ms, and at once from `try_send`; the loop runs on meanwhile."""

    async def story() -> None:
        async with made(stub, max_block_ms=100, allow_auto_create_topics=False) as producer:
            with pytest.raises(TopicUnavailable, match="asked for"):
                producer.try_send("missing", b"x")
            with pytest.raises(TopicUnavailable, match="'missing' did not become available within max_block_ms=100"):
                await producer.send("missing", b"x")

    with BrokerStub() as stub:
        run_story(story())


@pytest.mark.parametrize("wrong", [1.5, True])
@pytest.mark.parametrize("name", ["partition", "timestamp"])
def test_an_argument_of_the_wrong_type_is_named(name: str, wrong: Any) -> None:
    """The error names the argument and its type, in a row of `send_many`, too. The producer does not wait for a partition of that
    number."""
    says = f"{name} must be an int or None, not {type(wrong).__name__}$"

    async def story() -> None:
        with BrokerStub() as stub:
            async with made(stub) as producer:
                with pytest.raises(TypeError, match=f"^{says}"):
                    await producer.send("t", b"x", **{name: wrong})
                with pytest.raises(TypeError, match=f"^row 0: {says}"):
                    await producer.send_many("t", [{"value": b"x", name: wrong}])
                assert (await (await producer.send("t", b"y"))).offset == 0

    run_story(story())


def test_a_wait_on_the_thread_of_the_loop_is_refused() -> None:
    """`future.result()` in a coroutine would stop the loop that delivers. The error says what to write instead."""

    async def story() -> None:
        with BrokerStub() as stub:
            async with made(stub) as producer:
                future = await producer.send("t", b"x")
                with pytest.raises(Misuse, match="on the thread of the event loop would never end, because this thread delivers: await it"):
                    future.result()
                assert (await future).offset == 0

    run_story(story())


def test_callbacks_run_on_the_loop() -> None:
    """In the order of the records; a blocking wait there is a Misuse rather than a deadlock."""
    seen: list[int] = []
    refusals: list[BaseException] = []

    async def story() -> None:
        loop = asyncio.get_running_loop()

        def delivered(future: RecordFuture) -> None:
            assert asyncio.get_running_loop() is loop
            seen.append(future.result().offset)

        async with made(stub, linger_ms=20) as producer:
            for _ in range(5):
                late = await producer.send("t", b"x", partition=0, on_delivery=delivered)
            try:
                late.result()
            except Misuse as error:
                refusals.append(error)
            await producer.flush()

    with BrokerStub(default_partitions=1) as stub:
        run_story(story())
    assert seen == [0, 1, 2, 3, 4]
    assert len(refusals) == 1


def test_another_loop_is_a_misuse() -> None:
    """A producer belongs to the loop on which it was first used."""

    async def begin(producer: AsyncProducer) -> None:
        await producer.partitions_for("t")

    async def later(producer: AsyncProducer) -> None:
        with pytest.raises(Misuse, match="another one: make one for each loop"):
            await producer.send("t", b"x")

    with BrokerStub(default_partitions=1) as stub:
        producer = made(stub)
        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(begin(producer))
            asyncio.run(later(producer))
            loop.run_until_complete(producer.close())
        finally:
            loop.close()


def test_a_blocking_producers_futures_can_be_awaited() -> None:
    """From any loop, while its own thread delivers."""

    async def story() -> None:
        with quick(stub) as producer:
            metadata = await asyncio.gather(*(producer.send("t", b"%d" % n, partition=0) for n in range(10)))
            assert [m.offset for m in metadata] == list(range(10))

    with BrokerStub(default_partitions=1) as stub:
        run_story(story())


def test_collection_without_close_warns() -> None:
    """Dropped on a running loop: a ResourceWarning, and what was undelivered fails."""

    async def story() -> None:
        own = asyncio.all_tasks()
        held = [made(stub, linger_ms=60_000)]
        await held[0].partitions_for("t")
        future = await held[0].send("t", b"x", partition=0)
        with pytest.warns(ResourceWarning, match="without close"):
            drop(held)
        while not future.done():
            await asyncio.sleep(0)
        assert isinstance(future.exception(), DeliveryFatal)
        while left := asyncio.all_tasks() - own:
            await asyncio.wait(left)

    with BrokerStub(default_partitions=1) as stub:
        run_story(story())


def test_exit_without_close_says_what_is_lost() -> None:
    """The loop is gone, so nothing can be flushed: the process ends at once and says so."""
    with BrokerStub(default_partitions=1) as stub:
        program = f"""
import asyncio
from fencepost import AsyncProducer
producer = AsyncProducer(bootstrap_servers={stub.bootstrap!r}, linger_ms=60000)
async def story():
    for _ in range(3):
        await producer.send("t", b"x", partition=0)
asyncio.run(story())
"""
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT_S)
    assert ran.returncode == 0
    assert "3 records were not delivered" in ran.stderr


@pytest.mark.parametrize(
    ("local", "ending"),
    [
        (True, "asyncio.run(story())"),
        (True, "loop = asyncio.new_event_loop(); loop.run_until_complete(story())"),
        (False, "loop = asyncio.new_event_loop(); loop.run_until_complete(story()); held.clear()"),
    ],
)
def test_a_producer_that_goes_with_its_loop_says_what_was_not_delivered(ending: str, *, local: bool) -> None:
    """The program's last coroutine made the producer and did not close it. The loop ends before a timer can run, or is never run again. The
    log still names the records that were accepted and not delivered."""
    with BrokerStub(default_partitions=1) as stub:
        program = f"""
import asyncio
from fencepost import AsyncProducer
held = []
async def story():
    producer = AsyncProducer(bootstrap_servers={stub.bootstrap!r}, linger_ms=60000)
    if not {local}:
        held.append(producer)
    for _ in range(3):
        await producer.send("t", b"x", partition=0)
{ending}
"""
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT_S)
    assert ran.returncode == 0
    assert "3 records in 1 batch were not delivered; first: t-0: the producer was garbage-collected" in ran.stderr


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("connected", [True, False])
def test_a_program_may_cancel_every_task_of_its_loop(codec: CompressionName, *, connected: bool) -> None:
    """A program that cancels every task of its loop, as many do before they leave, has a producer that still connects, packs and sends."""

    async def story() -> None:
        here = asyncio.current_task()
        with BrokerStub() as stub:
            async with AsyncProducer(bootstrap_servers=stub.bootstrap, **QUICK, compression_type=codec) as producer:
                if connected:
                    await producer.partitions_for("t")
                sending = [asyncio.create_task(producer.send("t", b"x" * 200_000)) for _ in range(5)]
                for _ in range(20):
                    await asyncio.sleep(0)
                    for task in asyncio.all_tasks() - {here}:
                        task.cancel()
                await asyncio.gather(*sending, return_exceptions=True)
                await producer.flush(20)
                assert (await asyncio.wait_for(await producer.send("t", b"after"), 20)).offset >= 0

    asyncio.run(story())
