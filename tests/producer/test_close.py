"""The end of a producer in a process that goes on: close, its time limits, what is left afterwards, and collection without close."""

from __future__ import annotations

import os
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import DeliveryError, DeliveryFatal, Producer, ProducerClosed, UndeliveredRecords
from fencepost.producer.foundations.turns import TURN_S
from fencepost.producer.network.sender_thread import STOP_LEAST_S
from fencepost.producer.wire import Api
from tests.producer.stub_helpers import ONE_EACH, QUICK, drop, quick, until, values

SOON_S = 10.0
"""For what must not take the two minutes of the delivery deadline; a busy machine may need some of it."""


def descriptors() -> int:
    """How many files and sockets this process has open."""
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("only Linux tells which descriptors are open")
    return len(os.listdir("/proc/self/fd"))


def senders() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("fencepost")}


def test_close_delivers_what_lingers() -> None:
    """close sends what is still lingering and returns when it is acknowledged."""
    with BrokerStub() as stub:
        producer = quick(stub, linger_ms=60_000)
        futures = [producer.send("t", b"%d" % i) for i in range(50)]
        producer.close()
        assert [future.result(0).offset for future in futures] == list(range(50))
        assert values(stub, "t") == [b"%d" % i for i in range(50)]


def test_the_block_closes() -> None:
    """The end of a `with` block is a close."""
    with BrokerStub() as stub:
        with quick(stub, linger_ms=60_000) as producer:
            future = producer.send("t", b"x")
        assert future.result(0).offset == 0
        with pytest.raises(ProducerClosed):
            producer.send("t", b"y")


def test_closed_is_closed() -> None:
    """After close: send says so, for known and unknown topics; flush and another close have nothing to do."""
    with BrokerStub() as stub:
        producer = quick(stub)
        producer.send("t", b"x").result(20)
        producer.close()
        for topic in ("t", "never-heard-of"):
            with pytest.raises(ProducerClosed, match="closed"):
                producer.send(topic, b"x")
        producer.flush(1)
        producer.close()
        producer.close(0)
        assert len(values(stub, "t")) == 1


def test_a_producer_that_was_never_used_closes_at_once() -> None:
    """No broker, no record, no wait."""
    began = time.monotonic()
    Producer(bootstrap_servers="127.0.0.1:1").close()
    assert time.monotonic() - began < SOON_S


@pytest.mark.parametrize("timeout", [0, 0.1])
def test_close_is_bounded_when_the_broker_is_dead(timeout: float) -> None:
    """close(timeout) returns soon after the timeout, with every record told, though the delivery deadline is minutes away."""
    with BrokerStub() as stub:
        producer = quick(stub, **ONE_EACH)
        producer.send("t", b"hello").result(20)
        stub.stop_broker(1)
        futures = [producer.send("t", b"x") for _ in range(10)]
        began = time.monotonic()
        with pytest.raises(UndeliveredRecords, match="10 records"):
            producer.close(timeout)
        assert time.monotonic() - began < SOON_S
        assert all(isinstance(future.exception(0), DeliveryFatal) for future in futures)
        assert not producer._sender.running


def test_close_is_bounded_when_the_broker_hangs() -> None:
    """close(timeout) returns soon after the timeout when requests are in flight and never answered."""
    with BrokerStub() as stub:
        producer = quick(stub)
        held = stub.faults.on(Api.PRODUCE).before().forever().hold()
        future = producer.send("t", b"x")
        held.wait(1, 20)
        began = time.monotonic()
        with pytest.raises(UndeliveredRecords):
            producer.close(0.1)
        assert time.monotonic() - began < SOON_S
        assert future.done()
        stub.faults.clear()


def test_close_is_bounded_while_a_callback_blocks(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The sender thread cannot end before the callback returns. `close` comes back a second after its timeout, and the log names the
    cause; the records without an outcome fail when the thread goes on."""
    going, release = threading.Event(), threading.Event()

    def block(*_: object) -> None:
        going.set()
        release.wait(60)

    with BrokerStub() as stub:
        stub.create_topic("t")
        producer = Producer(bootstrap_servers=stub.bootstrap, linger_ms=0)
        producer.send("t", b"x").result(20)
        producer.send("t", b"y", on_delivery=block)  # Not add_done_callback: if the record had its outcome, this thread would call it.
        assert going.wait(20)
        late = producer.send("t", b"z")
        over = producer._sender._over
        limits: list[float] = []
        wait = over.wait

        def noted(seen: object | None, deadline: float) -> bool:
            limits.append(deadline - time.monotonic())
            return wait(seen, deadline)

        monkeypatch.setattr(over, "wait", noted)
        producer.close(0.1)
        assert sum(limits) <= STOP_LEAST_S + TURN_S
        assert not late.done()
        assert "a callback or an interceptor still runs" in caplog.text
        release.set()
        assert isinstance(late.exception(20), DeliveryFatal)


def test_close_while_connecting() -> None:
    """A connection that is being made when close comes is given up with the rest."""
    with BrokerStub() as stub:
        stub.faults.on(Api.API_VERSIONS).before().forever().hold()
        producer = quick(stub)
        with ThreadPoolExecutor() as pool:
            sending = pool.submit(producer.send, "t", b"x")
            until(lambda: stub.stats()["connections"] > 0, "it connects")
            producer.close(0.1)
            assert isinstance(sending.exception(SOON_S), ProducerClosed)
        assert not producer._sender.running
        stub.faults.clear()


def test_nothing_is_left_behind() -> None:
    """Ten producers that sent, failed, reconnected and closed leave no thread and no descriptor; the first one pays for what is made
    once."""
    with BrokerStub(brokers=3) as stub:
        stub.create_topic("t", partitions=3)

        def live() -> None:
            with quick(stub, **ONE_EACH) as producer:
                futures = [producer.send("t", b"x", partition=p) for p in range(3)]
                stub.cut_connections()
                for future in futures:
                    future.result(20)

        live()
        until(lambda: stub.stats()["open"] == 0, "the connections are down")
        before = (senders(), descriptors())
        for _ in range(10):
            live()
        until(lambda: stub.stats()["open"] == 0, "the connections are down")
        until(lambda: (senders(), descriptors()) == before, "threads and descriptors as before", timeout_s=SOON_S)


def test_threads_that_wait_when_it_closes() -> None:
    """close delivers what other threads wait for; those that wait in result and flush get their outcomes."""
    with BrokerStub() as stub:
        producer = quick(stub, **ONE_EACH)
        producer.send("t", b"hello").result(20)
        held = stub.faults.on(Api.PRODUCE).before().hold()
        future = producer.send("t", b"x")
        held.wait(1, 20)
        with ThreadPoolExecutor() as pool:
            asking, flushing = pool.submit(future.result, 20), pool.submit(producer.flush, 20)
            closing = pool.submit(producer.close, 20)
            until(lambda: producer._accumulator.refusal is not None, "it closes")
            held.release()
            assert asking.result(20).offset == 1
            flushing.result(20)
            closing.result(20)


def test_two_threads_close() -> None:
    """Only one of them closes, the other returns; neither hangs."""
    with BrokerStub() as stub:
        producer = quick(stub)
        producer.send("t", b"x")
        with ThreadPoolExecutor() as pool:
            for closing in [pool.submit(producer.close, 20) for _ in range(4)]:
                closing.result(20)
        assert values(stub, "t") == [b"x"]


def test_a_second_close_waits_for_the_thread_too() -> None:
    """A second `close` returns only when the sender thread has ended, even if the first has closed the loop already."""
    with BrokerStub() as stub, ThreadPoolExecutor() as pool:
        producer = quick(stub)
        loop, leave = producer._sender._loop, threading.Event()
        end = loop.close

        def linger() -> None:
            end()
            leave.wait(SOON_S)

        loop.close = linger  # type: ignore[method-assign]
        closing = pool.submit(producer.close)
        until(loop.is_closed, "the loop is closed")
        threading.Timer(0.2, leave.set).start()
        producer.close()
        assert not producer._sender.running
        closing.result(SOON_S)


def test_collection_without_close_warns_and_ends_the_thread() -> None:
    """A producer without references ends: a ResourceWarning, no thread, no connections. A future that was kept has its outcome."""
    with BrokerStub() as stub:
        before = senders()
        held = [quick(stub, linger_ms=60_000)]
        held[0].partitions_for("t")
        future = held[0].send("t", b"x")
        gone = weakref.ref(held[0]._exit_guard)
        with pytest.warns(ResourceWarning, match="without close"):
            drop(held)
        assert gone() is None
        assert senders() == before
        with pytest.raises(DeliveryError, match="garbage-collected"):
            future.result(0)
        until(lambda: stub.stats()["open"] == 0, "the connections are down")


@pytest.mark.filterwarnings("error::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_collection_where_warnings_raise() -> None:
    """A program that makes warnings raise keeps no thread either. Python drops what is raised in a finalizer."""
    with BrokerStub() as stub:
        before = senders()
        held = [quick(stub)]
        drop(held)
        until(lambda: senders() == before, "the thread has ended")


def test_a_future_does_not_keep_its_producer() -> None:
    """Keeping futures keeps their outcomes, not the producer, its thread or its sockets."""
    with BrokerStub() as stub:
        producer = quick(stub)
        future = producer.send("t", b"x")
        future.result(20)
        gone = weakref.ref(producer._exit_guard)
        producer.close()
        held = [producer]
        del producer
        drop(held)
        assert gone() is None
        assert future.result(0).offset == 0


def test_two_producers_do_not_know_each_other() -> None:
    """Two producers in one process have an id each; closing one does nothing to the other."""
    with BrokerStub() as stub, quick(stub) as one:
        with quick(stub) as other:
            one.send("t", b"1").result(20)
            other.send("t", b"2").result(20)
        assert one.send("t", b"3").result(20).offset == 2
        assert len({record.offset for record in stub.records("t", 0)}) == 3
        assert QUICK
