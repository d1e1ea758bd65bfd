"""The beginning and the end of an `AIOKafkaProducer` of fencepost.compat.aiokafka: start, stop, what is left, and what is forgotten."""

from __future__ import annotations

import asyncio
import gc
import warnings
import weakref
from typing import Any

import aiokafka.errors
import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.compat.aiokafka import AIOKafkaProducer
from fencepost.producer.wire import Api, ErrorCode
from tests.fencepost.compat.aiokafka_producers import made
from tests.producer.stub_helpers import drop, run_story, values


def test_stop_delivers_what_is_left() -> None:
    """Records that nothing waited for are in the log, also if they would linger for long. A second stop does nothing."""

    async def story() -> None:
        producer = made(stub, linger_ms=60_000)
        await producer.start()
        futures = [await producer.send("t", b"%d" % number) for number in range(1000)]
        await producer.stop()
        assert all(each.done() for each in futures)
        await producer.stop()
        with pytest.raises(aiokafka.errors.ProducerClosed):
            await producer.send("t", b"late")
        for call in (producer.flush, producer.start, lambda: producer.partitions_for("t")):
            with pytest.raises(aiokafka.errors.ProducerClosed):
                await call()
        batch = producer.create_batch()
        with pytest.raises(aiokafka.errors.ProducerClosed):
            await producer.send_batch(batch, "t", partition=0)

    with BrokerStub() as stub:
        run_story(story())
        assert len(values(stub, "t")) == 1000


def test_flush_ends_the_linger() -> None:
    """Every future has its outcome then."""

    async def story() -> None:
        async with made(stub, linger_ms=60_000) as producer:
            futures = [await producer.send("t", b"v") for _ in range(3)]
            assert not any(each.done() for each in futures)
            await producer.flush()
            assert all(each.done() for each in futures)

    with BrokerStub() as stub:
        run_story(story())


def test_awaiting_a_future_ends_the_linger() -> None:
    """The wait would be a minute. The other records of the batch go with it."""

    async def story() -> None:
        async with made(stub, linger_ms=60_000) as producer:
            first, second = [await producer.send("t", b"%d" % number) for number in range(2)]
            assert (await first).offset == 0
            assert second.done()

    with BrokerStub() as stub:
        run_story(story())


def test_nothing_works_before_start() -> None:
    """IllegalStateError says what to call. `stop` may be called, and a producer that was never started needs none."""

    async def story() -> None:
        producer = made(stub, transactional_id="a")
        for call in (producer.flush, producer.begin_transaction, lambda: producer.send("t", b"v"), lambda: producer.partitions_for("t")):
            with pytest.raises(aiokafka.errors.IllegalStateError, match=r"producer\.start\(\)"):
                await call()
        await producer.stop()
        made(stub)
        gc.collect()

    with BrokerStub() as stub:
        run_story(story())


def test_start_can_be_repeated() -> None:
    """A program may call it until a broker answers. A block whose start failed leaves nothing open."""

    async def story() -> None:
        stub.stop_broker(1)
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
        for _ in range(2):
            with pytest.raises(aiokafka.errors.KafkaConnectionError):
                await producer.start()
        stub.start_broker(1)
        await producer.start()
        await producer.send_and_wait("t", b"v")
        await producer.stop()
        stub.faults.on(Api.INIT_PRODUCER_ID).forever().error(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        with pytest.raises(aiokafka.errors.TransactionalIdAuthorizationFailed):
            async with made(stub, transactional_id="a"):
                pass
        gc.collect()

    with BrokerStub() as stub:
        bootstrap = stub.bootstrap
        run_story(story())
        assert values(stub, "t") == [b"v"]


def test_start_twice() -> None:
    """The second one does nothing, and asks no broker."""

    async def story() -> None:
        async with made(stub) as producer:
            await producer.send_and_wait("t", b"v")
            stub.stop_broker(1)
            await producer.start()
            stub.start_broker(1)
            await producer.send_and_wait("t", b"w")

    with BrokerStub() as stub:
        run_story(story())


@pytest.mark.parametrize("settings", [{}, {"transactional_id": "a"}], ids=["plain", "transactional"])
def test_a_stop_while_it_starts(settings: dict[str, Any]) -> None:
    """The start says so: it does not return as if the producer could be used."""

    async def story() -> None:
        producer = made(stub, **settings)
        held = stub.faults.on(Api.METADATA).hold()
        starting = asyncio.create_task(producer.start())
        await asyncio.to_thread(held.wait)
        await producer.stop()
        held.remove()
        with pytest.raises(aiokafka.errors.ProducerClosed):
            await starting
        with pytest.raises(aiokafka.errors.ProducerClosed):
            await producer.send("t", b"v")

    with BrokerStub() as stub:
        run_story(story())


def test_another_loop_is_refused() -> None:
    """A producer belongs to the loop on which it was started."""
    with BrokerStub() as stub, asyncio.Runner() as runner, asyncio.Runner() as other:
        producer = made(stub)
        runner.run(producer.start())
        for call in (lambda: producer.send("t", b"v"), lambda: producer.partitions_for("t")):
            with pytest.raises(aiokafka.errors.IllegalStateError, match="event loop"):
                other.run(call())
        runner.run(producer.stop())
        with pytest.warns(DeprecationWarning, match="loop"):
            bound = made(stub, loop=runner.get_loop())
        with pytest.raises(aiokafka.errors.IllegalStateError, match="another event loop"):
            other.run(bound.start())


def test_a_loop_that_was_closed_without_stop() -> None:
    """Outcomes can be read, a new call is refused, and the warning names the class that the program knows."""
    with BrokerStub() as stub, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        held: list[Any] = []
        with asyncio.Runner() as runner:

            async def story() -> None:
                producer = made(stub)
                await producer.start()
                held.extend([producer, await producer.send("t", b"v")])
                await producer.flush()

            runner.run(story())
        assert held[1].done()
        assert held[1].result().offset == 0
        with pytest.raises(aiokafka.errors.IllegalStateError, match="event loop"):
            asyncio.run(held[0].send("t", b"w"))
        held.clear()
        gc.collect()
        assert [str(each.message).split(" AIOKafkaProducer(")[0] for each in warned if "AIOKafka" in str(each.message)] == [
            "Unclosed AIOKafkaProducer"
        ]


def test_an_unclosed_producer_warns() -> None:
    """As aiokafka's: a ResourceWarning and the loop's exception handler."""

    async def story() -> None:
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        producer = made(stub)
        gone = weakref.ref(producer)
        await producer.start()
        await producer.send_and_wait("t", b"v")
        underlying, held = producer.underlying, [producer]
        del producer
        with pytest.warns(ResourceWarning, match="Unclosed AIOKafkaProducer"):
            drop(held)
        assert [each["message"] for each in told] == ["Unclosed AIOKafkaProducer"]
        told.clear()
        assert gone() is None
        await underlying.close()

    with BrokerStub() as stub:
        run_story(story())


def test_failures_that_nothing_looks_at_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """`flush` and `stop` raise no failed delivery, as aiokafka's do not. It is logged, and its future has it."""

    async def story() -> None:
        producer = made(stub)
        await producer.start()
        await producer.partitions_for("t")
        stub.faults.on(Api.PRODUCE).before().forever().error(ErrorCode.INVALID_TIMESTAMP)
        future = await producer.send("t", b"v")
        await producer.flush()
        await producer.send("t", b"w")
        await producer.stop()
        with pytest.raises(aiokafka.errors.InvalidTimestampError):
            await future

    with BrokerStub() as stub:
        run_story(story())
    assert sum("not delivered" in each.getMessage() for each in caplog.records) == 2


def test_a_future_that_has_its_failure_unread_is_logged_by_asyncio() -> None:
    """A future that was set up, and whose exception the program never retrieved, tells the loop's exception handler."""

    async def story() -> None:
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        async with made(stub) as producer:
            await producer.partitions_for("t")
            stub.faults.on(Api.PRODUCE).before().times(1).error(ErrorCode.INVALID_TIMESTAMP)
            future = await producer.send("t", b"v")
            await asyncio.wait([future])
            del future
            gc.collect()
        assert [type(each["exception"]).__name__ for each in told] == ["InvalidTimestampError"]

    with BrokerStub() as stub:
        run_story(story())


def test_a_cancelled_send_is_not_sent() -> None:
    """It waited for its topic. The others are."""

    async def story() -> None:
        async with made(stub) as producer:
            held = stub.faults.on(Api.METADATA).before().hold()
            waiting = asyncio.create_task(producer.send("t", b"cancelled"))
            await asyncio.to_thread(held.wait)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            held.remove()
            await producer.send_and_wait("t", b"sent")

    with BrokerStub() as stub:
        run_story(story())
        assert values(stub, "t") == [b"sent"]


def test_an_exception_leaves_the_block() -> None:
    """The records before it are delivered."""

    async def story() -> None:
        with pytest.raises(ZeroDivisionError):
            async with made(stub) as producer:
                await producer.send("t", b"v")
                raise ZeroDivisionError
        assert isinstance(producer, AIOKafkaProducer)

    with BrokerStub() as stub:
        run_story(story())
        assert values(stub, "t") == [b"v"]
