"""A stub on an event loop, and a stub whose time stands still."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub, FaultProxy, VirtualClock
from fencepost.producer import AsyncProducer, Producer
from fencepost.producer.wire import Api

START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def closed(stub: BrokerStub) -> bool:
    """Whether the stub's ports are closed."""
    with socket.socket() as probe:
        return probe.connect_ex(next(iter(stub.addresses.values()))) != 0


def still_stub() -> BrokerStub:
    """Time stands still years ago. The broker stamps records itself: it would refuse the producer's timestamps, which lie in its future."""
    return BrokerStub(clock=VirtualClock(START_MS), config={"log.message.timestamp.type": "LogAppendTime"})


def test_async_with() -> None:
    """`async with` starts and closes the stub, and the loop goes on meanwhile."""

    async def scenario() -> BrokerStub:
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        turning = asyncio.create_task(turn())
        async with BrokerStub() as stub:
            begun = turns
            assert begun > 0
            async with AsyncProducer(bootstrap_servers=stub.bootstrap, linger_ms=0) as producer:
                assert (await (await producer.send("t", b"v"))).offset == 0
            before_closing = turns
        assert turns > before_closing
        turning.cancel()
        return stub

    assert closed(asyncio.run(scenario()))


def test_async_with_is_left_by_an_error() -> None:
    """What leaves the block goes on its way, and the stub is closed."""
    stub = BrokerStub()

    async def scenario() -> None:
        async with stub:
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        asyncio.run(scenario())
    assert closed(stub)


def test_cancelled_while_it_starts() -> None:
    """Nothing half started is left behind."""
    stub = BrokerStub()

    async def scenario() -> None:
        entering = asyncio.create_task(stub.__aenter__())
        await asyncio.sleep(0)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering

    asyncio.run(scenario())
    assert stub._once.thread is not None
    assert not stub._once.thread.is_alive()
    assert not any(thread.name == "broker-stub" for thread in threading.enumerate())


def test_time_stands_still_until_it_is_advanced() -> None:
    """With a VirtualClock two records at different real times have one timestamp; `advance` alone makes the next one later."""
    with still_stub() as stub, Producer(bootstrap_servers=stub.bootstrap, linger_ms=0) as producer:
        stamps = [producer.send("t", b"v").result(20).timestamp for _ in range(2)]
        assert stub.advance(HOUR_MS) == START_MS + HOUR_MS
        stamps.append(producer.send("t", b"v").result(20).timestamp)
    assert stamps == [START_MS, START_MS, START_MS + HOUR_MS]


def test_a_clock_that_was_told_no_time_begins_now() -> None:
    """`VirtualClock()` takes a producer's own timestamps as they are, and stands still from then on."""
    with BrokerStub(clock=VirtualClock()) as stub, Producer(bootstrap_servers=stub.bootstrap, linger_ms=0) as producer:
        assert [producer.send("t", b"v").result(20).offset for _ in range(2)] == [0, 1]
        began = stub.clock.now_ms()
        assert stub.advance(HOUR_MS) == began + HOUR_MS


def test_what_waits_for_a_time_waits_for_advance() -> None:
    """A reply that a fault delays by an hour comes with the step that completes the hour and not before, and then at once."""
    with still_stub() as stub, Producer(bootstrap_servers=stub.bootstrap, linger_ms=0) as producer:
        producer.partitions_for("t")
        delayed = stub.faults.on(Api.PRODUCE).after_append().delay(HOUR_MS)
        future = producer.send("t", b"v")
        delayed.wait(1, 20)
        stub.advance(HOUR_MS - 1)
        assert not future.done()
        assert stub.journal.requests(Api.PRODUCE)[0].response is None
        stub.advance(1)
        assert stub.journal.requests(Api.PRODUCE)[0].response is not None  # what came due is done when advance returns
        assert future.result(20).offset == 0


def test_real_time_cannot_be_advanced() -> None:
    """A stub with a real clock says which one it would have to have, and no clock goes back."""
    with BrokerStub() as stub, pytest.raises(TypeError, match=r"advance\(\) needs BrokerStub\(clock=VirtualClock\(\)\).*RealClock"):
        stub.advance(1)
    with BrokerStub(clock=VirtualClock()) as still, pytest.raises(ValueError, match="never runs backwards"):
        still.advance(-1)


def test_configs_may_be_numbers() -> None:
    """What Kafka writes as text may be given as what it is; a list is refused by name."""
    config = {"num.partitions": 3, "auto.create.topics.enable": False, "log.retention.ms": 10**9}
    with BrokerStub(config=config) as stub:
        stub.create_topic("t", config={"retention.ms": 1000, "preallocate": True})
        topic = stub.cluster.topics.named("t")
        assert topic is not None
        assert topic.overrides == {"retention.ms": "1000", "preallocate": "true"}
        assert not stub.cluster.auto_create_topics
        assert stub.cluster.default_partitions == 3
    with pytest.raises(TypeError, match=r"config 'num.partitions' must be text, a number or a bool, not list"):
        BrokerStub(config={"num.partitions": [3]})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"default_partitions": 0}, "default_partitions=0: a topic has at least one"),
        (
            {"default_partitions": 6, "config": {"num.partitions": 2}},
            "default_partitions=6 and num.partitions=2 are the same setting: give one of them",
        ),
        (
            {"brokers": 2, "default_replication_factor": 1, "config": {"default.replication.factor": 2}},
            "default_replication_factor=1 and default.replication.factor=2 are the same setting: give one of them",
        ),
        ({"default_replication_factor": 9, "brokers": 3}, "default_replication_factor=9: from 1 to brokers=3"),
        ({"default_replication_factor": 0}, "default_replication_factor=0: from 1 to brokers=1"),
    ],
)
def test_defaults_that_no_topic_could_have_are_refused(settings: dict[str, int], reason: str) -> None:
    """Otherwise no topic could be created, and no error would say why."""
    with pytest.raises(ValueError, match=f"^{reason}$"):
        BrokerStub(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [BrokerStub, FaultProxy])
def test_one_that_was_never_made_leaves_nothing_but_its_error(kind: type[Any]) -> None:
    """An argument that there is not: no second error comes from letting go of what was not made."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'partitions'"):
        kind(partitions=6)


def test_a_stub_that_is_dropped_says_so_and_ends() -> None:
    """A stub without references that was not closed warns with a ResourceWarning, and its thread and its ports end."""
    stub = BrokerStub().start()
    thread, (address,) = stub._once.thread, stub.addresses.values()
    assert thread is not None
    with pytest.warns(ResourceWarning, match="a BrokerStub was dropped without close"):
        del stub
    thread.join(20)
    assert not thread.is_alive()
    with socket.socket() as probe:
        assert probe.connect_ex(address) != 0


def test_a_proxy_that_is_dropped_says_so_and_ends() -> None:
    """As a stub does."""
    with BrokerStub() as stub:
        proxy = FaultProxy(stub.bootstrap).start()
        thread = proxy._once.thread
        assert thread is not None
        with pytest.warns(ResourceWarning, match="a FaultProxy was dropped without close"):
            del proxy
        thread.join(20)
        assert not thread.is_alive()


def test_a_proxy_that_does_not_run_has_no_address() -> None:
    """Before `start` the proxy listens on no port."""
    with pytest.raises(RuntimeError, match="the proxy does not run"):
        FaultProxy("localhost:9092").bootstrap  # noqa: B018


def test_a_call_during_the_close_of_a_stub_does_not_wait() -> None:
    """Calls of other threads that meet the end of a stub: each is answered, none waits for a loop that has ended. A closed stub can be
    read, and what would change it is refused."""
    for _ in range(20):
        stub = BrokerStub(clock=VirtualClock(START_MS)).start()
        stub.create_topic("orders")
        done = threading.Event()
        errors: list[BaseException] = []
        calls = (partial(stub.advance, 1), partial(stub.records, "orders", 0))
        callers = [threading.Thread(target=_call_until, args=(call, done, errors)) for call in calls]
        for caller in callers:
            caller.start()
        stub.close()
        done.set()
        for caller in callers:
            caller.join(5)  # a call's own limit is 10 s
        assert not any(caller.is_alive() for caller in callers)
        assert {str(error) for error in errors} <= {"the stub is closed"}


def test_a_call_during_the_close_of_a_proxy_does_not_wait() -> None:
    """As with a stub, but a proxy that has ended says so."""
    with BrokerStub() as stub:
        for _ in range(10):
            proxy = FaultProxy(stub.bootstrap).start()
            errors: list[BaseException] = []
            caller = threading.Thread(target=_call_until, args=(proxy.stats, threading.Event(), errors))
            caller.start()
            proxy.close()
            caller.join(5)
            assert not caller.is_alive()
            assert [str(error) for error in errors] == ["the proxy does not run"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_does_not_ask_a_stub_that_it_has_not() -> None:
    """The loop is the parent's. A call in the child raises at once, instead of waiting for ever."""
    with BrokerStub() as stub:
        child = os.fork()
        if child == 0:
            try:
                stub.end_offset("orders", 0)
            except RuntimeError as error:
                os._exit(0 if "another process" in str(error) else 2)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _call_until(call: Callable[[], object], done: threading.Event, errors: list[BaseException]) -> None:
    """Again and again, until it is told to end or is refused."""
    while not done.is_set():
        try:
            call()
        except (RuntimeError, TimeoutError) as error:
            errors.append(error)
            return
