"""Callers that wait for room get it in the order of their arrival, and the sender thread waits for no caller's code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import AsyncProducer, BufferFull, Producer
from fencepost.producer.wire import Api
from fencepost.txn import AsyncTransactionalProducer
from tests.producer.stub_helpers import QUICK, quick, until, values

ROWS = [b"%d" % n for n in range(60_000)]


def story(work: Any, **settings: Any) -> BrokerStub:
    """Run `work(producer, stub)` on a loop of its own; returns the stub, closed, with its logs."""

    async def begin() -> None:
        async with AsyncProducer(bootstrap_servers=stub.bootstrap, **{**QUICK, **settings}) as producer:
            await producer.partitions_for("t", 20)
            await producer.partitions_for("other", 20)
            await work(producer, stub)

    with BrokerStub(default_partitions=1) as stub:
        asyncio.run(asyncio.wait_for(begin(), 100))
    return stub


def test_others_send_while_a_bulk_is_under_way() -> None:
    """While a task's `send_many` of a large list goes through a large buffer, `try_send` and `send` of others find room at each of its
    steps, and finish long before it."""

    async def work(producer: AsyncProducer, stub: BrokerStub) -> None:
        bulk = asyncio.create_task(producer.send_many("t", ROWS))
        during = 0
        while not bulk.done():
            producer.try_send("other", b"x")
            await producer.send("other", b"y")
            during += not bulk.done()
            await asyncio.sleep(0)
        assert during > 2 * len(ROWS) // 4_096  # the steps of checking, and those of sending
        assert (await (await bulk)).acknowledged == len(ROWS)

    story(work, buffer_memory=1 << 30, max_block_ms=1)


def test_a_full_partition_does_not_keep_the_buffer() -> None:
    """A bulk that waits for room waits for its own next step alone: what comes after it waits behind it, and has its turn before the bulk's
    rows are all through."""

    async def work(producer: AsyncProducer, stub: BrokerStub) -> None:
        rows = [b"%d" % n + b"x" * 100 for n in range(5_000)]
        bulk = asyncio.create_task(producer.send_many("t", rows))
        while not producer._in_line:
            await asyncio.sleep(0)
        with pytest.raises(BufferFull, match=r"has no room \(\d+ used\) now, and others wait for some"):
            producer.try_send("other", b"x")
        sent = [await producer.send("other", b"%d" % n) for n in range(5)]
        assert not bulk.done()
        assert [(await each).offset for each in sent] == list(range(5))
        assert (await (await bulk)).acknowledged == len(rows)

    story(work, buffer_memory=20_000, batch_size=4_000, max_request_size=8_000)


def test_the_task_that_waits_longest_gets_room_first() -> None:
    """The task that waits longest gets room first, also for a large record. Smaller records do not overtake it."""
    order: list[int] = []

    async def one(producer: AsyncProducer, number: int) -> None:
        await producer.send("t", b"x" * (7_000 if number == 0 else 100))
        order.append(number)

    async def work(producer: AsyncProducer, stub: BrokerStub) -> None:
        hold = stub.faults.on(Api.PRODUCE).before().forever().hold()
        for _ in range(3):
            await producer.send("t", b"x" * 2_500)
        tasks = []
        for number in range(10):
            tasks.append(asyncio.create_task(one(producer, number)))
            while producer._in_line <= number:
                await asyncio.sleep(0)
        hold.remove()
        await asyncio.gather(*tasks)

    story(work, buffer_memory=9_000, batch_size=0, max_request_size=8_000)
    assert order == list(range(10))


def test_a_user_s_timeout_is_not_ours() -> None:
    """A partitioner that raises TimeoutError is heard with its own words, not told as a full buffer or a topic that is not there."""

    def choose(*_: object) -> int:
        raise TimeoutError("the registry did not answer")

    async def work(producer: AsyncProducer, stub: BrokerStub) -> None:
        for call in (producer.send("t", b"x"), producer.send_many("t", [b"x"])):
            with pytest.raises(TimeoutError, match="the registry did not answer"):
                await call

    story(work, partitioner=choose)


def test_a_transactional_task_asks_for_partitions_at_any_time() -> None:
    """`partitions_for` of an asyncio transactional producer works while no transaction is open, as in the blocking producer."""

    async def work() -> None:
        async with AsyncTransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="x", **QUICK) as owner:
            assert await owner.partitions_for("t") == [0, 1, 2]

    with BrokerStub(default_partitions=3) as stub:
        asyncio.run(asyncio.wait_for(work(), 60))


@pytest.mark.parametrize("way", ["send", "send_many", "send_arrow", "transactional"])
def test_the_sender_waits_for_no_partitioner(way: str) -> None:
    """A caller waits for room in a full buffer, and its partitioner does not return. The records of other callers are delivered."""
    import pyarrow as pa

    from fencepost.txn import TransactionalProducer

    entered, leave = threading.Event(), threading.Event()

    def choose(key: bytes | None, partitions: list[int], available: list[int]) -> int:
        if key == b"slow":
            if entered.is_set():
                leave.wait(60)  # asked again, in the middle of waiting for room
            entered.set()
        return 0

    def slow(producer: Any) -> None:
        if way == "send_many":
            producer.send_many("t", [(b"slow", b"x" * 2_500)])
        elif way == "send_arrow":
            producer.send_arrow("t", pa.table({"value": [b"x" * 2_500], "key": [b"slow"]}), key="key")
        else:
            producer.send("t", b"x" * 2_500, key=b"slow")

    settings: dict[str, Any] = {"buffer_memory": 4_000, "max_request_size": 3_000, "batch_size": 0, "partitioner": choose}
    with BrokerStub(default_partitions=1) as stub:
        stub.create_topic("t")
        if way == "transactional":
            owner = TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="x", **QUICK, **settings)
            with owner, owner.transaction() as tx:
                hold_and_let_go(stub, tx, slow, leave, lambda: bool(owner._inner._accumulator.waiting))
        else:
            with quick(stub, **settings) as producer:
                hold_and_let_go(stub, producer, slow, leave, lambda: bool(producer._accumulator.waiting))
        assert [len(each) for each in values(stub, "t")] == [1_000, 2_000, 2_500]


def hold_and_let_go(stub: BrokerStub, producer: Any, slow: Any, leave: threading.Event, waits: Callable[[], bool]) -> None:
    """Fill the buffer, have `slow` wait for room, let the brokers answer: what fills the buffer is delivered."""
    producer.send("t", b"x" * 1_000).result(20)
    hold = stub.faults.on(Api.PRODUCE).before().forever().hold()
    pending = producer.send("t", b"x" * 2_000)
    thread = threading.Thread(target=slow, args=(producer,))
    thread.start()
    try:
        until(waits, "a caller that waits for room")
        hold.remove()
        assert pending.result(20).offset == 1
    finally:
        leave.set()
        thread.join(20)


def test_a_partitioner_is_asked_once_for_a_record_that_waits() -> None:
    """However often room is given back before there is enough."""
    asked: list[bytes | None] = []

    def choose(key: bytes | None, partitions: list[int], available: list[int]) -> int:
        asked.append(key)
        return 0

    with (
        BrokerStub(default_partitions=1) as stub,
        quick(stub, buffer_memory=4_000, max_request_size=4_000, batch_size=0, partitioner=choose) as producer,
    ):
        producer.send("t", b"", key=b"0").result(20)
        hold = stub.faults.on(Api.PRODUCE).before().forever().hold()
        for n in range(1, 4):
            producer.send("t", b"x" * 1_000, key=b"%d" % n)
        thread = threading.Thread(target=producer.send, args=("t", b"x" * 3_500), kwargs={"key": b"large"})
        thread.start()
        until(lambda: bool(producer._accumulator.waiting), "a caller that waits")
        hold.remove()
        thread.join(20)
        producer.flush(20)
    assert asked == [b"0", b"1", b"2", b"3", b"large"]


@pytest.mark.parametrize("many", [False, True], ids=["send", "send_many"])
def test_a_large_record_does_not_starve(many: bool) -> None:
    """A thread that sends records as large as the buffer gets room in its turn, though others send small ones all the time."""
    over = threading.Event()
    passed = [0]

    def small(producer: Producer) -> None:
        while not over.is_set():
            if many:
                producer.send_many("t", [b"x" * 100] * 5)
            else:
                producer.send("t", b"x" * 100)
            passed[0] += 1

    settings: dict[str, Any] = {"buffer_memory": 20_000, "max_request_size": 19_500, "batch_size": 1_000, "max_block_ms": 10_000}
    with BrokerStub(default_partitions=1) as stub, quick(stub, **settings) as producer:
        producer.partitions_for("t")
        stub.faults.on(Api.PRODUCE).before().forever().delay(20)
        threads = [threading.Thread(target=small, args=(producer,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            until(lambda: passed[0] > 100, "the others send")
            for _ in range(5):
                producer.send("t", b"y" * 19_000)
        finally:
            over.set()
            for thread in threads:
                thread.join()
    assert (producer._accumulator.used, producer._accumulator.waiting) == (0, 0)


def test_threads_get_room_in_the_order_in_which_they_came() -> None:
    """Freed bytes go to the thread that waits longest, also for a large record. Smaller records wait behind it, and a new caller does not
    take room that the first one needs."""
    order: list[int] = []

    with BrokerStub(default_partitions=1) as stub, quick(stub, buffer_memory=9_000, batch_size=0, max_request_size=8_000) as producer:

        def one(number: int) -> None:
            producer.send("t", b"x" * (7_000 if number == 0 else 2_000))
            order.append(number)

        producer.partitions_for("t")
        hold = stub.faults.on(Api.PRODUCE).before().forever().hold()
        for _ in range(3):
            producer.send("t", b"x" * 2_500)
        threads = [threading.Thread(target=one, args=(number,)) for number in range(6)]
        for number, thread in enumerate(threads):
            thread.start()
            until(lambda: producer._accumulator.waiting > number, "it waits")  # noqa: B023 - asked at once
        with pytest.raises(BufferFull):
            producer.try_send("t", b"x" * 1_000)
        hold.remove()
        for thread in threads:
            thread.join()
    assert order[0] == 0
    assert sorted(order) == list(range(6))


def test_a_caller_that_gives_up_waiting_leaves_the_others_their_turn() -> None:
    """When a caller's wait times out, the next caller gets the free room."""
    with BrokerStub(default_partitions=1) as stub:
        settings: dict[str, Any] = {"buffer_memory": 9_000, "batch_size": 0, "max_request_size": 8_000, "max_block_ms": 300}
        with quick(stub, **settings) as producer:
            producer.partitions_for("t", timeout=20)
            hold = stub.faults.on(Api.PRODUCE).before().forever().hold()
            producer.send("t", b"x" * 2_500)
            with pytest.raises(BufferFull):
                producer.send("t", b"x" * 7_500)
            producer.send("t", b"x" * 2_500)
            hold.remove()
    assert len(values(stub, "t")) == 2
