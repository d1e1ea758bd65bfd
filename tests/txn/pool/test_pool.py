"""Both pools on a stub: concurrent transactions, the wait for a slot, failures, and the end. What is told of one is told of the other."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub, VirtualClock
from fencepost.producer.errors import ConfigError, Fatal, FencepostError, Misuse, ProducerClosed
from fencepost.producer.wire import Api, ErrorCode, InitProducerIdRequest
from fencepost.txn.async_producer import AsyncTransactionalProducer
from fencepost.txn.coordinator.state_machine import State
from fencepost.txn.coordinator.transaction_manager import IN_BLOCK
from fencepost.txn.errors import CommitOutcomeUnknown, IllegalCall, MustAbort, TransactionTimeout
from fencepost.txn.pool.async_pool import AsyncTransactionalPool
from fencepost.txn.pool.errors import PoolTakenOver, PoolTimeout
from fencepost.txn.pool.instance import Instance, choose
from fencepost.txn.pool.instance_registration import InstanceRegistration, RegistrationWindow
from fencepost.txn.pool.pool import TransactionalPool
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.recovery.resume import resume_async
from tests.producer.stub_helpers import LIMIT_S, QUICK, run_story, values
from tests.txn.pool.helpers import KINDS, Pool, block, made_of, pool_of, sent, wrote
from tests.txn.stub_helpers import committed, ends, stub
from tests.waiting import until

__all__ = ["stub"]

both = pytest.mark.parametrize("kind", KINDS)


@both
def test_opening_takes_longer_than_a_call(kind: type[Pool]) -> None:
    """A registration goes on when its call has given up, and the next calls wait for the same one, so the pool opens at last. Each call
    says what did not end in time, and does not ask for more slots while none is in use."""
    late = "0 of size=1 are in use(, 1 opening)?; the last failure: "

    async def story(stub: BrokerStub) -> None:
        held = stub.faults.on(Api.INIT_PRODUCER_ID).forever().hold()
        async with pool_of(kind, stub.bootstrap, size=1, acquire_timeout_ms=60) as pool:
            for registration in (1, 2):
                calls = 0
                while calls < 3 or held.hits < registration:
                    calls += 1
                    with pytest.raises(PoolTimeout, match=late):
                        await wrote(pool, b"row")
                held.release()
            await wrote(pool, b"row", timeout=LIMIT_S)
            assert len(stub.journal.requests(Api.INIT_PRODUCER_ID)) == 2  # the guard's and the slot's

    with BrokerStub() as stub:
        stub.create_topic("t", partitions=1)
        run_story(story(stub))
        assert committed(stub, "t") == [b"row"]


@both
def test_opening_goes_on_without_a_call(stub: BrokerStub, kind: type[Pool]) -> None:
    """A slot whose registration ended while no call waited is free for the next one."""

    async def story() -> None:
        async with pool_of(kind, stub.bootstrap, size=2) as pool:
            await made_of(pool.init, LIMIT_S)
            slot = pool._program._slots.all[1]
            held = stub.faults.on(Api.INIT_PRODUCER_ID).hold()
            async with block(pool):
                with pytest.raises(PoolTimeout):
                    await wrote(pool, b"none", timeout=0.2)
                assert pool.stats().free == 0
                await made_of(held.wait, 1, LIMIT_S)
                held.release()
                await asyncio.to_thread(until, lambda: slot.state is State.READY, "it is registered")
                assert pool.stats().free == 1
                asked = stub.journal.requests(Api.INIT_PRODUCER_ID)
                await wrote(pool, b"row")
                assert stub.journal.requests(Api.INIT_PRODUCER_ID) == asked

    run_story(story())
    assert committed(stub, "t") == [b"row"]


@both
def test_a_closed_pool_stops_a_registration(stub: BrokerStub, kind: type[Pool]) -> None:
    """One that goes on without its call ends with the pool."""

    async def story() -> None:
        stub.faults.on(Api.INIT_PRODUCER_ID).forever().drop()
        async with pool_of(kind, stub.bootstrap, size=1) as pool:
            with pytest.raises(PoolTimeout):
                await wrote(pool, b"none", timeout=0.1)

    run_story(story())
    until(lambda: stub.stats()["open"] == 0, "the connections are closed")
    assert not [each for each in threading.enumerate() if each.name.startswith("fencepost-sender") and each.is_alive()]


@both
def test_a_pool_that_is_closed_while_a_call_asks(stub: BrokerStub, kind: type[Pool]) -> None:
    """The call begins no registration afterwards, which `close` would not have seen."""

    async def story() -> None:
        async with pool_of(kind, stub.bootstrap, size=2) as pool:
            await made_of(pool.init, LIMIT_S)
            held = stub.faults.on(Api.DESCRIBE_TRANSACTIONS).hold()
            registrations = stub.journal.requests(Api.INIT_PRODUCER_ID)
            async with block(pool):
                late = asyncio.create_task(wrote(pool, b"none"))
                await asyncio.to_thread(until, lambda: held.holding, "the call asks whether the pool has its instance")
                await made_of(pool.close, 0.0)
                held.release()
                with pytest.raises(ProducerClosed):
                    await late
                assert stub.journal.requests(Api.INIT_PRODUCER_ID) == registrations

    with suppress(ProducerClosed):  # the outer block's
        run_story(story())
    until(lambda: stub.stats()["open"] == 0, "the connections are closed")


def test_two_calls_that_register_at_once(stub: BrokerStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool has lost the instance that it chose, and two calls open slots. One of them is so late that the other has registered the
    new instance: it uses that, and does not let another process take it over."""
    pool = TransactionalPool(
        {**QUICK, "transactional_id_prefix": "p", "size": 3, "lock_directory": tmp_path, "bootstrap_servers": stub.bootstrap}
    )
    pool.init(LIMIT_S)
    program = pool._program
    asked = threading.Barrier(2)
    askers: list[int] = []
    late: list[int] = []
    look, extend = program._look_whether_ours, RegistrationWindow.extend

    async def lost(timeout_s: float) -> InstanceRegistration | None:
        askers.append(threading.get_ident())
        if len(askers) > 2:
            return await look(timeout_s)
        asked.wait(LIMIT_S)  # The coordinator has named a newer producer to both.
        with program._lock:
            program._registration = program._slots.registration = None
        if asked.wait(LIMIT_S) == 0:
            until(lambda: late, "the other call is about to register")
        return None

    def extended(self: RegistrationWindow, seconds: float) -> None:
        pending = program._pending_registration
        if pending is not None and self is pending.window:
            late.append(threading.get_ident())
            if len(late) == 1:
                until(lambda: program._registration is not None, "the other call has registered it")
        extend(self, seconds)

    monkeypatch.setattr(program, "_look_whether_ours", lost)
    monkeypatch.setattr(RegistrationWindow, "extend", extended)
    with pool.transaction() as tx, ThreadPoolExecutor(2) as threads:
        tx.send("t", b"2")  # It has the only slot that is open.
        for block in [threads.submit(asyncio.run, wrote(pool, b"%d" % number)) for number in range(2)]:
            block.result(LIMIT_S)
    with closing_instance(choose("p", tmp_path)) as other:
        assert other.name != pool.instance
    pool.close()
    assert sorted(committed(stub, "t")) == [b"0", b"1", b"2"]


@contextmanager
def closing_instance(instance: Instance) -> Iterator[Instance]:
    """The instance, which another process may take over afterwards."""
    try:
        yield instance
    finally:
        instance.release()


@both
def test_a_pool_that_was_taken_over_stops_a_registration(stub: BrokerStub, kind: type[Pool]) -> None:
    """One that goes on without its call would fence the newer pool."""

    async def story() -> None:
        async with pool_of(kind, stub.bootstrap, size=2, instance="a") as pool:
            await made_of(pool.init, LIMIT_S)
            held = stub.faults.on(Api.INIT_PRODUCER_ID).hold()
            async with block(pool):
                with pytest.raises(PoolTimeout):
                    await wrote(pool, b"none", timeout=0.2)
            assert pool._program._slots.all[1].is_registering
            async with AsyncTransactionalProducer(QUICK, bootstrap_servers=stub.bootstrap, transactional_id="p-a-guard") as other:
                await other.init(LIMIT_S)
            with pytest.raises(PoolTakenOver):
                await made_of(pool.check, LIMIT_S)
            slot = pool._program._slots.all[1]
            await asyncio.to_thread(until, lambda: slot.producer is None, "the registration is given up")
            held.release()

    run_story(story())


@both
@pytest.mark.parametrize("parallel", [8, 100])
def test_parallel_transactions(stub: BrokerStub, kind: type[Pool], parallel: int) -> None:
    """More callers than slots: each transaction is committed, once, and in one of `size` ids."""

    async def story() -> None:
        async with pool_of(kind, stub.bootstrap, size=4, acquire_timeout_ms=30_000) as pool:
            await asyncio.gather(*[wrote(pool, b"%03d" % row) for row in range(parallel)])
            stats = pool.stats()
            assert (stats.opened, stats.committed, stats.aborted) == (parallel, parallel, 0)
            assert (stats.in_use, stats.free, stats.waiting, stats.settling, stats.timeouts) == (0, 4, 0, 0, 0)

    run_story(story())
    assert sorted(committed(stub, "t")) == [b"%03d" % row for row in range(parallel)]


@both
def test_transactions_are_open_at_the_same_time(stub: BrokerStub, kind: type[Pool]) -> None:
    """Blocks overlap, an exception aborts only its own, and the slots are used again."""

    async def story() -> None:
        async with pool_of(kind, stub.bootstrap, size=2) as pool:
            with pytest.raises(ZeroDivisionError):
                async with block(pool) as first:
                    await sent(first, "t", b"aborted")
                    async with block(pool) as second:
                        await sent(second, "t", b"kept")
                        assert pool.stats().in_use == 2
                    raise ZeroDivisionError
            await wrote(pool, b"next")
            assert first.over
            assert (pool.stats().committed, pool.stats().aborted) == (2, 1)

    run_story(story())
    assert sorted(committed(stub, "t")) == [b"kept", b"next"]


@both
def test_no_slot_in_time(stub: BrokerStub, kind: type[Pool]) -> None:
    """The error says how many are in use, for how long, how many wait, and which setting says so; the pool goes on."""

    async def story() -> None:
        async with pool_of(kind, stub.bootstrap, size=1, acquire_timeout_ms=150) as pool:
            await made_of(pool.init, LIMIT_S)
            async with block(pool) as tx:
                await sent(tx, "t", b"row")
                late = await asyncio.gather(*[wrote(pool, b"late") for _ in range(2)], return_exceptions=True)
            texts = sorted(str(each) for each in late)
            assert [type(each) for each in late] == [PoolTimeout, PoolTimeout]
            first = r"no transaction could begin within acquire_timeout_ms=150: 1 of size=1 is in use, the longest for \d+\.\d s[,;]"
            assert all(re.match(first, each) for each in texts), texts
            assert all(each.endswith("raise `size`, or make the transactions shorter") for each in texts), texts
            assert pool.stats().timeouts == 2
            await wrote(pool, b"after", timeout=LIMIT_S)

    run_story(story())
    assert committed(stub, "t") == [b"row", b"after"]


@both
def test_a_caller_that_waits_gets_the_slot(stub: BrokerStub, kind: type[Pool]) -> None:
    """The longest waiting caller is first."""

    async def story() -> None:
        order: list[int] = []

        async def one(number: int) -> None:
            async with block(pool):
                order.append(number)

        async with pool_of(kind, stub.bootstrap, size=1, acquire_timeout_ms=30_000) as pool:
            async with block(pool):
                tasks = []
                for number in range(4):
                    tasks.append(asyncio.create_task(one(number)))
                    while pool.stats().waiting <= number:
                        await asyncio.sleep(0.001)
            await asyncio.gather(*tasks)
        assert order == [0, 1, 2, 3]

    run_story(story())


@both
def test_a_timeout_of_the_block(stub: BrokerStub, kind: type[Pool]) -> None:
    """`timeout` limits the beginning, and the end; a commit that is late is aborted, as with one producer."""

    async def story() -> None:
        async with pool_of(kind, stub.bootstrap, size=1) as pool:
            await made_of(pool.init, LIMIT_S)
            async with block(pool):
                with pytest.raises(PoolTimeout, match=r"no transaction could begin within timeout=0\.1 s: 1 of size=1 is in use"):
                    await wrote(pool, b"none", timeout=0.1)
            held = stub.faults.on(Api.PRODUCE).forever().hold()
            with pytest.raises(TransactionTimeout, match="commit"):
                await wrote(pool, b"late", timeout=0.3)
            held.remove()
            await wrote(pool, b"after", timeout=LIMIT_S)

    run_story(story())
    assert committed(stub, "t") == [b"after"]


@both
def test_no_broker(kind: type[Pool]) -> None:
    """The call ends in time with the cause; once a broker is there, the same pool works."""

    async def story(stub: BrokerStub) -> None:
        async with pool_of(kind, stub.bootstrap, acquire_timeout_ms=1_000) as pool:
            stub.stop_broker(1)
            with pytest.raises(PoolTimeout, match="the last failure: init: "):
                await wrote(pool, b"none")
            with pytest.raises(PoolTimeout):
                await made_of(pool.check, 0.2)
            stub.start_broker(1)
            await made_of(pool.init, LIMIT_S)
            await wrote(pool, b"row", timeout=LIMIT_S)
            stub.stop_broker(1)
            with pytest.raises(TransactionTimeout, match="did not answer"):
                await made_of(pool.check, 0.2)
            stub.start_broker(1)
            assert (await made_of(pool.check, LIMIT_S)).committed == 1

    with BrokerStub() as stub:
        stub.create_topic("t", partitions=1)
        run_story(story(stub))
        assert committed(stub, "t") == [b"row"]


@both
@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_that_takes_too_long(kind: type[Pool], version: int) -> None:
    """The coordinator aborts it. The caller gets the error, and the slot goes on under the same id, with a new producer if it must."""

    async def story(stub: BrokerStub) -> None:
        async with pool_of(kind, stub.bootstrap, size=1, transaction_timeout_ms=5_000) as pool:
            with pytest.raises((MustAbort, Fatal)):
                async with block(pool) as tx:
                    await sent(tx, "t", b"late")
                    await made_of(until, lambda: stub.end_offset("t", 0), "it is written")
                    stub.advance(20_000)
                    await made_of(until, lambda: stub.end_offset("t", 0) > 1, "the marker")
            await wrote(pool, b"after", timeout=LIMIT_S)
            stats = pool.stats()
            assert (stats.committed, stats.aborted, stats.replaced) == (1, 1, int(version == 1))
            assert pool.instance is not None

    with BrokerStub(transaction_version=version, clock=VirtualClock()) as stub:
        stub.create_topic("t", partitions=1)
        run_story(story(stub))
        assert values(stub, "t") == [b"after"]
        requests = [exchange.request for exchange in stub.journal.requests(Api.INIT_PRODUCER_ID)]
        ids = {request.transactional_id for request in requests if isinstance(request, InitProducerIdRequest)}
        assert len(ids) == 2  # the guard's and the slot's


@both
def test_an_outcome_that_is_unknown(stub: BrokerStub, kind: type[Pool]) -> None:
    """The slot gets no further transaction until its outcome is known, and a new producer then: `resolve` asks the old one, whenever."""

    async def story() -> None:
        async with pool_of(kind, stub.bootstrap, size=1, acquire_timeout_ms=30_000, request_timeout_ms=300) as pool:
            await made_of(pool.init, LIMIT_S)
            fault = stub.faults.on(Api.END_TXN).reply().forever().drop()
            with pytest.raises(CommitOutcomeUnknown) as unknown:
                await wrote(pool, b"row", timeout=2.0)
            assert pool.stats().settling == 1
            with pytest.raises(PoolTimeout, match="1 settling"):
                await wrote(pool, b"too soon", timeout=0.2)
            fault.remove()
            for _ in range(120):
                await wrote(pool, b"next", timeout=LIMIT_S)
            assert pool.stats().replaced == 1
            await made_of(unknown.value.resolve, LIMIT_S)
            assert (pool.stats().committed, pool.stats().unknown) == (121, 0)

    run_story(story())
    assert committed(stub, "t") == [b"row", *[b"next"] * 120]


@both
def test_an_interrupted_commit_keeps_its_slot(stub: BrokerStub, kind: type[Pool]) -> None:
    """While a commit goes on without its caller, the slot settles. It counts as committed, and the slot is free again."""

    async def story() -> None:
        async with pool_of(kind, stub.bootstrap, size=1, acquire_timeout_ms=30_000) as pool:
            await made_of(pool.init, LIMIT_S)
            fault = stub.faults.on(Api.END_TXN).times(1).hold()
            with pytest.raises(CommitOutcomeUnknown):
                await wrote(pool, b"row", timeout=2.0)
            waiting = asyncio.create_task(wrote(pool, b"next"))
            while not pool.stats().waiting:
                await asyncio.sleep(0.001)
            assert pool.stats().settling == 1
            fault.release()
            await asyncio.wait_for(waiting, LIMIT_S)

    run_story(story())
    assert committed(stub, "t") == [b"row", b"next"]


@both
def test_a_prepared_transaction_stays_open(stub: BrokerStub, kind: type[Pool]) -> None:
    """Its slot begins no transaction until the token's transaction is over; the other slots do."""

    async def story() -> None:
        async with pool_of(kind, stub.bootstrap, size=2, acquire_timeout_ms=30_000) as pool:
            async with block(pool) as tx:
                await sent(tx, "t", b"prepared")
                token = await made_of(tx.prepare)
            assert pool.stats().prepared == 1
            for _ in range(3):
                await wrote(pool, b"other")
            await resume_async(token, bootstrap_servers=stub.bootstrap).commit()
            async with block(pool), block(pool):
                assert pool.stats().in_use == 2

    run_story(story())
    assert sorted(committed(stub, "t")) == [b"other"] * 3 + [b"prepared"]


def test_a_slot_whose_registration_is_refused(stub: BrokerStub) -> None:
    """An error that lasts is raised at once, and the pool works once its cause is gone."""

    async def story() -> None:
        async with pool_of(AsyncTransactionalPool, stub.bootstrap) as pool:
            fault = stub.faults.on(Api.INIT_PRODUCER_ID).forever().error(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            with pytest.raises(FencepostError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
                await wrote(pool, b"none")
            fault.remove()
            await wrote(pool, b"row")

    run_story(story())
    assert committed(stub, "t") == [b"row"]


def test_cancelled_requests(stub: BrokerStub) -> None:
    """A client that disconnects: before its turn, in the block, and in the commit. None keeps a slot, and what was committed is there."""

    async def story() -> None:
        async with pool_of(AsyncTransactionalPool, stub.bootstrap, size=2, acquire_timeout_ms=30_000) as pool:
            await made_of(pool.init, LIMIT_S)
            inside = asyncio.Event()

            async def lingers() -> None:
                async with block(pool) as tx:
                    await sent(tx, "t", b"cancelled")
                    inside.set()
                    await asyncio.sleep(LIMIT_S)

            first, second = asyncio.create_task(lingers()), asyncio.create_task(lingers())
            await inside.wait()
            while pool.stats().in_use < 2:
                await asyncio.sleep(0.001)
            third = asyncio.create_task(wrote(pool, b"waited"))
            while not pool.stats().waiting:
                await asyncio.sleep(0.001)
            for task in (third, first, second):
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert (pool.stats().in_use, pool.stats().waiting) == (0, 0)
            held = stub.faults.on(Api.END_TXN).times(1).hold()
            fourth = asyncio.create_task(wrote(pool, b"committing"))
            await asyncio.to_thread(held.wait, 1, LIMIT_S)
            fourth.cancel()
            with pytest.raises(asyncio.CancelledError):
                await fourth
            assert pool.stats().settling == 1
            held.release()
            await asyncio.gather(*[wrote(pool, b"after") for _ in range(4)])

    run_story(story())
    assert sorted(committed(stub, "t")) == [b"after"] * 4 + [b"committing"]


@both
def test_close_waits_for_blocks_and_aborts_the_rest(stub: BrokerStub, kind: type[Pool], caplog: pytest.LogCaptureFixture) -> None:
    """A block that ends in time commits. One that does not is aborted, and the log says what to change. No call begins meanwhile."""

    async def story() -> None:
        async with pool_of(kind, stub.bootstrap, size=2) as pool:
            async with block(pool) as quick:
                await sent(quick, "t", b"quick")
                closing = asyncio.create_task(made_of(pool.close, LIMIT_S))
                while not pool._program.closed:
                    await asyncio.sleep(0.001)
                with pytest.raises(ProducerClosed, match="the pool is closed"):
                    await wrote(pool, b"none")
            await closing
        async with pool_of(kind, stub.bootstrap, size=2) as pool:
            with pytest.raises(FencepostError):
                async with block(pool) as slow:
                    await sent(slow, "t", b"slow")
                    await made_of(pool.close, 0.4)
                    await sent(slow, "t", b"more")
        async with pool_of(kind, stub.bootstrap, size=2, close_timeout_ms=300) as pool:
            with pytest.raises(FencepostError):
                async with block(pool) as slow, block(pool) as other:
                    await sent(slow, "t", b"slow")
                    await sent(other, "t", b"slow")
                    await made_of(pool.close)

    run_story(story())
    assert committed(stub, "t") == [b"quick"]
    said = [each.partition(": ")[2] for each in caplog.messages if each.startswith("p: ")]
    assert said == [
        "1 block has not ended within timeout=0.4 s: close() aborts its transaction, and readers of committed records see none of its"
        " records. End the blocks sooner, or give close() a longer timeout",
        "2 blocks have not ended within close_timeout_ms=300: close() aborts their transactions, and readers of committed records see none"
        " of their records. End the blocks sooner, or raise close_timeout_ms",
    ]
    each_said = [each for each in caplog.messages if "close() aborted the open transaction" in each]
    assert len(each_said) == 3
    assert all(each.endswith(IN_BLOCK) for each in each_said)
    assert not [each for each in threading.enumerate() if each.name.startswith("fencepost-sender") and each.is_alive()]


def test_close_where_no_thread_can_be_started(stub: BrokerStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a handler of `atexit` on Python 3.12: the producers are closed one after the other, within the time of `close`."""
    pool = TransactionalPool(QUICK, bootstrap_servers=stub.bootstrap, transactional_id_prefix="p", size=3, warm=3)
    pool.init(LIMIT_S)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    stub.faults.on(Api.END_TXN).forever().drop()
    blocks = [pool.transaction() for _ in range(3)]
    for each in blocks:
        each.__enter__().send("t", b"open")
    given: list[float] = []
    close = TransactionalProducer.close

    def noted(producer: TransactionalProducer, timeout: float) -> None:
        given.append(timeout)
        close(producer, timeout)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        patched.setattr(TransactionalProducer, "close", noted)
        pool.close(2.0)
    assert sum(given) <= 2.0, given  # and not two seconds for each of three
    assert len(given) >= 3
    assert pool._program._producers == []
    until(lambda: stub.stats()["open"] == 0, "the connections are closed")


@both
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system does not list descriptors")
def test_close_leaves_no_socket(stub: BrokerStub, kind: type[Pool]) -> None:
    """Nor a descriptor of its lock."""

    async def story() -> None:
        async with pool_of(kind, stub.bootstrap) as pool:
            await asyncio.gather(*[wrote(pool, b"row") for _ in range(8)])

    def opened() -> set[str]:
        places = []
        for fd in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                places.append(os.readlink(f"/proc/self/fd/{fd}"))
        return {place for place in places if place.startswith("socket:") or "fencepost-pool" in place}

    before = opened()
    run_story(story())
    until(lambda: opened() - before, "no socket is left", good=lambda left: not left)


async def sleeping(value: bytes) -> bytes:
    """An asynchronous serializer, which a blocking pool cannot await."""
    await asyncio.sleep(0)
    return value


@both
def test_stray_settings(kind: type[Pool]) -> None:
    """A wrong setting is refused when the pool is made, with its name and its limit."""
    servers = {"bootstrap_servers": "localhost:1"}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "transactional_id_prefix is missing: a name for the transactions of this service"),
        ({"transactional_id": "a"}, "transactional_id='a': a pool makes the ids of its producers: give it transactional_id_prefix='a'"),
        ({"transactional_id_prefix": "a", "size": 0}, "size=0: a whole number from 1 to 10000"),
        ({"transactional_id_prefix": "a", "size": 2, "warm": 3}, "warm=3: at most size=2"),
        ({"transactional_id_prefix": "a", "acquire_timeout_ms": -1}, "acquire_timeout_ms=-1: a whole number from 0"),
        ({"transactional_id_prefix": "a", "instance": ""}, "instance='': a printable text"),
        ({"transactional_id_prefix": "a", "transaction_timeout_ms": 0}, "transaction_timeout_ms=0"),
        ({"transactional_id_prefix": "a", "lingr_ms": 0}, "unknown setting 'lingr_ms'; did you mean 'linger_ms'?"),
        ({"transactional_id_prefix": "a", "sise": 4}, "unknown setting 'sise'; did you mean 'size'?"),
        ({"transactional_id_prefix": "a", "acks": 0}, "a transaction needs acks=all"),
    ]
    if kind is TransactionalPool:
        wrong.append(({"transactional_id_prefix": "a", "value_serializer": sleeping}, "value_serializer=<function sleeping"))
    for settings, told in wrong:
        with pytest.raises(ConfigError) as refused:
            kind({**servers, **settings})
        assert told in str(refused.value)
    pool = kind({**servers, "transactional.id.prefix": "a", "acquire.timeout.ms": 5, "linger.ms": 1})
    assert repr(pool) == f"{kind.__name__}(transactional_id_prefix='a', instance=None, size=8, in_use=0)"


def test_a_second_transaction_of_one_producer_names_the_pool(stub: BrokerStub) -> None:
    """The error says what to use for concurrent transactions."""
    told = r"share, returned; concurrent transactions need a TransactionalPool, or an AsyncTransactionalPool with asyncio$"
    with TransactionalProducer(QUICK, bootstrap_servers=stub.bootstrap, transactional_id="a") as producer:
        producer.begin()
        with pytest.raises(IllegalCall, match=told):
            producer.begin()

    async def story() -> None:
        async with AsyncTransactionalProducer(QUICK, bootstrap_servers=stub.bootstrap, transactional_id="b") as producer:
            await producer.begin()
            with pytest.raises(IllegalCall, match=told):
                await producer.begin()

    run_story(story())


def test_another_loop(stub: BrokerStub) -> None:
    """An asyncio pool belongs to one loop; the error says where to make it."""
    pool = AsyncTransactionalPool(QUICK, bootstrap_servers=stub.bootstrap, transactional_id_prefix="p")

    async def used() -> None:
        await wrote(pool, b"row")
        await pool.close()

    async def again() -> None:
        with pytest.raises(Misuse, match="this pool belongs to the event loop on which it was first used"):
            await wrote(pool, b"none")

    run_story(used())
    run_story(again())
    assert committed(stub, "t") == [b"row"]


@both
def test_a_block_is_entered_once(stub: BrokerStub, kind: type[Pool]) -> None:
    """A second time would lose track of the first one's slot."""

    async def story() -> None:
        async with pool_of(kind, stub.bootstrap) as pool:
            entered = pool.transaction()
            enter = getattr(entered, "__aenter__", None) or entered.__enter__  # type: ignore[union-attr]
            leave = getattr(entered, "__aexit__", None) or entered.__exit__  # type: ignore[union-attr]
            await made_of(enter)
            with pytest.raises(Misuse, match=r"call the pool's transaction\(\) for each block"):
                await made_of(enter)
            await made_of(leave, None, None, None)
            assert pool.stats().in_use == 0

    run_story(story())


def test_any_thread(stub: BrokerStub) -> None:
    """Threads share a pool."""
    with TransactionalPool(QUICK, bootstrap_servers=stub.bootstrap, transactional_id_prefix="p", size=3) as pool:

        def work(number: int) -> None:
            for row in range(5):
                with pool.transaction() as tx:
                    tx.send("t", b"%d %d" % (number, row))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(committed(stub, "t")) == [b"%d %d" % (number, row) for number in range(8) for row in range(5)]
    assert ends(stub) == [True] * 40


@pytest.mark.parametrize("name", ["sasl_password", "sasl.password", "sasl_plain_password"])
def test_no_password_is_shown(name: str) -> None:
    """What a pool keeps for the producers of its slots shows no password, in any spelling, and they log in with it."""
    with BrokerStub(sasl={"alice": "hush-hush"}) as broker:
        login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "alice", name: "hush-hush"}
        with TransactionalPool({**QUICK, **login, "bootstrap_servers": broker.bootstrap, "transactional_id_prefix": "a"}) as pool:
            assert "hush" not in repr(vars(pool))
            with pool.transaction() as tx:
                tx.send("t", b"v")
        assert [record.value for record in broker.records("t", 0)] == [b"v"]
