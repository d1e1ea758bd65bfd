"""Delivery callbacks: the thread that runs them, their order, and what they may do."""

from __future__ import annotations

import asyncio
import logging
import threading
from functools import partial
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import AsyncProducer, BufferFull, DeliveryError, Misuse, RecordFuture, TopicUnavailable
from fencepost.producer.wire import Api, ErrorCode
from tests.producer.stub_helpers import ONE_EACH, quick, values


class Collector:
    """A delivery callback that keeps what it got, and on which thread."""

    def __init__(self) -> None:
        self.futures: list[RecordFuture] = []
        self.threads: set[str] = set()
        self.errors: list[BaseException] = []
        self.done = threading.Event()

    def __call__(self, future: RecordFuture) -> None:
        self.futures.append(future)
        self.threads.add(threading.current_thread().name)

    def trying(self, call: Any) -> Any:
        """A callback that makes a call and keeps what it raised."""

        def run(future: RecordFuture) -> None:
            try:
                call(future)
            except (Misuse, TimeoutError, DeliveryError) as error:
                self.errors.append(error)
            self.done.set()

        return run


def test_callbacks_run_on_the_sender_thread() -> None:
    """Those of send and those added before the outcome run on the producer's own thread; one added afterwards runs at once, where it was
    added."""
    with BrokerStub() as stub, quick(stub, client_id="me") as producer:
        heard = Collector()
        hold = stub.faults.on(Api.PRODUCE).before().times(1).hold()
        future = producer.send("t", b"x", on_delivery=heard)
        future.add_done_callback(heard)
        hold.remove()
        producer.flush(20)
        assert heard.threads == {"fencepost-sender-me"}
        assert heard.futures == [future, future]
        late = Collector()
        future.add_done_callback(late)
        assert late.threads == {threading.current_thread().name}


def test_a_partitions_callbacks_come_in_the_order_of_its_records() -> None:
    """The callbacks of a partition come in the order of sending, with rising offsets, also when requests are lost, retried or answered
    late."""
    with BrokerStub() as stub, quick(stub, **ONE_EACH) as producer:
        stub.create_topic("t", partitions=3)
        stub.faults.on(Api.PRODUCE).after_append().probability(0.1, 7).disconnect()
        stub.faults.on(Api.PRODUCE).before().probability(0.1, 8).error(ErrorCode.NOT_ENOUGH_REPLICAS)
        heard = Collector()
        sent = [producer.send("t", b"%d" % i, partition=i % 3, on_delivery=heard) for i in range(90)]
        producer.flush(60)
        assert len(heard.futures) == 90
        for partition in range(3):
            mine = [future for future in heard.futures if future.result(0).partition == partition]
            assert mine == sent[partition::3]
            assert [future.result(0).offset for future in mine] == list(range(30))


def test_failures_and_successes_keep_the_order_too() -> None:
    """A batch that fails in the middle has its callback between its neighbours'."""
    with BrokerStub() as stub, quick(stub, **ONE_EACH) as producer:
        producer.send("t", b"hello").result(20)
        stub.faults.on(Api.PRODUCE).before().on_call(3).error(ErrorCode.INVALID_RECORD)
        heard = Collector()
        sent = [producer.send("t", b"%d" % i, on_delivery=heard) for i in range(6)]
        producer.flush(20)
        assert heard.futures == sent
        assert [future.exception(0) is None for future in sent] == [True, True, False, True, True, True]


def test_a_flush_without_patience() -> None:
    """`flush(0)` raises nothing where nothing is left to wait for: the sender thread gets its turn."""
    with BrokerStub() as stub, quick(stub) as producer:
        for _ in range(50):
            producer.send("t", b"x").result(20)
            producer.flush(0)


def test_flush_returns_after_the_callbacks() -> None:
    """When flush returns, the callbacks of everything sent before have returned, slow ones too."""
    with BrokerStub() as stub, quick(stub) as producer:
        go_on, finished = threading.Event(), []

        def slow(future: RecordFuture) -> None:
            go_on.wait(20)
            finished.append(future)

        future = producer.send("t", b"x", on_delivery=slow)
        future.result(20)
        threading.Timer(0.05, go_on.set).start()
        producer.flush(20)
        assert finished == [future]


@pytest.mark.parametrize("raised", [ValueError("mine"), SystemExit(3), KeyboardInterrupt(), Misuse("mine")], ids=repr)
def test_an_exception_is_contained_and_logged(raised: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    """A callback that raises is logged with its traceback and topic. The next callback runs, and the producer goes on."""
    with BrokerStub() as stub, quick(stub) as producer, caplog.at_level(logging.ERROR, "fencepost.producer"):

        def bad(future: RecordFuture) -> None:
            raise raised

        heard = Collector()
        future = producer.send("orders", b"x", on_delivery=bad)
        future.add_done_callback(heard)
        producer.flush(20)
        assert heard.futures == [future]
        assert producer.send("orders", b"y").result(20).offset == 1
        (record,) = [record for record in caplog.records if record.exc_info]
        assert "orders-0" in record.getMessage()
        assert record.exc_info is not None
        assert record.exc_info[1] is raised


def test_an_exception_in_a_late_callback_is_contained_too(caplog: pytest.LogCaptureFixture) -> None:
    """A callback that runs at once because the outcome is known does not raise into the caller's code either."""
    with BrokerStub() as stub, quick(stub) as producer:
        future = producer.send("t", b"x")
        future.result(20)
        future.add_done_callback(lambda future: 1 // 0)
        assert any(record.exc_info for record in caplog.records)


def test_send_in_a_callback_works() -> None:
    """A callback may send: the follow-up record is delivered, and close waits for it if it was sent in time."""
    with BrokerStub() as stub, quick(stub) as producer:
        followed = threading.Event()

        def follow(future: RecordFuture) -> None:
            producer.send("t", b"after %d" % future.result(0).offset, on_delivery=lambda future: followed.set())

        producer.send("t", b"x", on_delivery=follow)
        assert followed.wait(20)
        assert values(stub, "t") == [b"x", b"after 0"]


def test_send_in_a_callback_on_a_full_buffer_raises() -> None:
    """Only the sender can make room, and it runs the callback: instead of waiting for ever, send raises BufferFull at once."""
    with BrokerStub() as stub, quick(stub, **ONE_EACH, buffer_memory=4_000, max_request_size=2_000, max_in_flight=1) as producer:
        producer.send("t", b"hello").result(20)
        heard = Collector()
        held = stub.faults.on(Api.PRODUCE).before().hold()
        again = heard.trying(lambda future: producer.send("t", b"z" * 1_500))
        producer.send("t", b"a", on_delivery=again)
        held.wait(1, 20)
        producer.send("t", b"b" * 1_500)
        producer.send("t", b"c" * 1_500)
        held.release()
        assert heard.done.wait(10), "no deadlock"
        (error,) = heard.errors
        assert isinstance(error, BufferFull)
        assert "callback" in str(error)
        producer.flush(20)
        assert [value[:1] for value in values(stub, "t")] == [b"h", b"a", b"b", b"c"]


def test_send_in_a_callback_to_an_unknown_topic_raises() -> None:
    """Metadata would come through the thread that runs the callback: send raises TopicUnavailable at once, and the topic is being asked
    for."""
    with BrokerStub() as stub, quick(stub) as producer:
        heard = Collector()
        producer.send("t", b"x", on_delivery=heard.trying(lambda future: producer.send("u", b"y")))
        assert heard.done.wait(20)
        (error,) = heard.errors
        assert isinstance(error, TopicUnavailable)
        assert "callback" in str(error)
        assert str(error).endswith(": call partitions_for('u') before the first record")
        assert producer.send("u", b"y").result(20).offset == 0


@pytest.mark.parametrize("call", ["flush", "close", "partitions_for", "result", "exception"])
def test_what_would_wait_for_itself_is_a_misuse(call: str) -> None:
    """flush, close, partitions_for and the result of an unsettled record wait for the very thread that runs the callback: Misuse, at
    once, and the producer goes on."""
    with BrokerStub() as stub, quick(stub, **ONE_EACH) as producer:
        producer.send("t", b"hello").result(20)
        heard = Collector()
        mine = stub.faults.on(Api.PRODUCE).reply().on_call(1).hold()
        other = stub.faults.on(Api.PRODUCE).reply().on_call(2).hold()
        pending: list[RecordFuture] = []
        calls = {
            "flush": lambda future: producer.flush(),
            "close": lambda future: producer.close(),
            "partitions_for": lambda future: producer.partitions_for("t"),
            "result": lambda future: pending[0].result(),
            "exception": lambda future: pending[0].exception(),
        }
        producer.send("t", b"0", on_delivery=heard.trying(calls[call]))
        pending.append(producer.send("t", b"1"))
        mine.wait(1, 20)
        other.wait(1, 20)
        mine.release()
        assert heard.done.wait(20)
        (error,) = heard.errors
        assert isinstance(error, Misuse)
        assert "callback" in str(error)
        other.release()
        assert pending[0].result(20).offset == 2


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("intercepted", [False, True])
def test_an_async_callback_is_told(bound: bool, intercepted: bool, caplog: pytest.LogCaptureFixture) -> None:
    """The producer does not await what a callback returns: an async function, or a partial of one, is logged as a TypeError. The record is
    delivered, and no coroutine is left that was never awaited."""

    async def tell(future: RecordFuture) -> None:
        raise AssertionError("this never runs")

    callback = partial(tell) if bound else tell
    settings: dict[str, Any] = {"interceptors": Listener()} if intercepted else {}

    async def send(stub: BrokerStub) -> None:
        async with AsyncProducer(bootstrap_servers=stub.bootstrap, **settings) as producer:
            future = await producer.send("t", b"x", on_delivery=callback)
            assert (await future).offset == 0

    with BrokerStub() as stub:
        asyncio.run(send(stub))
        with quick(stub, **settings) as producer:
            assert producer.send("t", b"x", on_delivery=callback).result(20).offset == 1
    errors = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    assert errors == ["on_delivery is an async function, which the producer does not await: give a function, or await the future"] * 2


class Listener:
    """An interceptor that hears of each outcome."""

    def on_acknowledgement(self, metadata: Any, error: Exception | None) -> None:
        """Nothing."""


def test_its_own_outcome_can_be_read_in_a_callback() -> None:
    """Inside its callback a record's future is done: result and exception answer without waiting."""
    with BrokerStub() as stub, quick(stub) as producer:
        seen: list[Any] = []
        producer.send("t", b"x", on_delivery=lambda future: seen.append((future.done(), future.result().offset, future.exception())))
        producer.flush(20)
        assert seen == [(True, 0, None)]


def test_every_accepted_record_has_its_callback_called_once() -> None:
    """Delivered, failed or cut off by close: one call each, and none for what send refused."""
    with BrokerStub() as stub:
        heard = Collector()
        producer = quick(stub, **ONE_EACH)
        producer.send("t", b"0", on_delivery=heard)
        producer.flush(20)
        stub.faults.on(Api.PRODUCE).before().error(ErrorCode.INVALID_RECORD)
        producer.send("t", b"1", on_delivery=heard)
        producer.flush(20)
        stub.faults.on(Api.PRODUCE).before().forever().hold()
        producer.send("t", b"2", on_delivery=heard)
        with pytest.raises(TypeError):
            producer.send("t", "text", on_delivery=heard)
        producer.close(0.05)
        stub.faults.clear()
        assert [future.exception(0) is None for future in heard.futures] == [True, False, False]
