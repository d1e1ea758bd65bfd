"""Pools with one instance, and what a dead process left open. What is told here is told on Apache Kafka, too (`stories`)."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.errors import Fenced, ProducerForked
from fencepost.producer.wire import Api, ErrorCode
from fencepost.txn.errors import CommitOutcomeUnknown
from fencepost.txn.pool.async_pool import AsyncTransactionalPool
from fencepost.txn.pool.errors import PoolTakenOver, PoolTimeout
from fencepost.txn.pool.pool import TransactionalPool
from fencepost.txn.producer import TransactionalProducer
from tests.producer.stub_helpers import LIMIT_S, QUICK, run_story
from tests.txn.pool.helpers import KINDS, Pool, block, made_of, pool_of, sent, wrote
from tests.txn.pool.stories import is_cut_off_and_followed, is_killed_and_followed, share_an_instance
from tests.txn.stub_helpers import committed, stub
from tests.waiting import until

__all__ = ["stub"]

both = pytest.mark.parametrize("kind", KINDS)


@both
def test_two_pools_with_one_instance(stub: BrokerStub, kind: type[Pool]) -> None:
    """The newer one continues. The older one begins no more, and says why."""
    run_story(share_an_instance(kind, stub.bootstrap, "t"))
    assert committed(stub, "t") == [b"older", b"newer", b"newer", b"newer"]


@both
def test_the_newer_one_wins_at_any_moment(stub: BrokerStub, kind: type[Pool]) -> None:
    """The older pool has registered a slot between the newer one's two registrations. The newer one takes its slot back."""

    async def story() -> None:
        settings = {"instance": "a", "size": 2, "acquire_timeout_ms": 30_000}
        async with pool_of(kind, stub.bootstrap, **settings) as newer:
            await made_of(newer.init, LIMIT_S)
            async with block(newer), block(newer):
                pass
            # An older pool that was slow between its question and its registration.
            older = TransactionalProducer(QUICK, bootstrap_servers=stub.bootstrap, transactional_id="p-a-1")
            await made_of(older.init, LIMIT_S)
            told = [await asyncio.gather(wrote(newer, b"newer"), return_exceptions=True) for _ in range(4)]
            failures = [error for (error,) in told if error is not None]
            assert len(failures) == 1
            assert not isinstance(failures[0], PoolTakenOver)
            async with block(newer), block(newer):
                pass
            assert await made_of(older.replaced, LIMIT_S)
            await made_of(older.close)
            await wrote(newer, b"newer")

    run_story(story())
    assert committed(stub, "t") == [b"newer"] * 4


@both
def test_a_commit_without_an_answer_while_a_newer_pool_takes_over(stub: BrokerStub, kind: type[Pool]) -> None:
    """The reply to the commit is lost, and the repeat is refused because the newer pool has the id. It is committed, so the caller must
    not hear PoolTakenOver, which says that nothing was. The older pool begins no more all the same."""

    async def story() -> None:
        settings = {"instance": "a", "size": 1, "acquire_timeout_ms": 30_000, "request_timeout_ms": 500}
        async with pool_of(kind, stub.bootstrap, **settings) as older, pool_of(kind, stub.bootstrap, **settings) as newer:
            await made_of(older.init, LIMIT_S)
            lost = stub.faults.on(Api.END_TXN).drop_reply()
            writing = asyncio.create_task(wrote(older, b"once"))
            await made_of(lost.wait, 1, LIMIT_S)
            repeats = stub.faults.on(Api.END_TXN).before().forever().hold()
            await made_of(newer.init, LIMIT_S)
            repeats.remove()
            with pytest.raises(CommitOutcomeUnknown):
                await writing
            with pytest.raises(PoolTakenOver):
                await wrote(older, b"no more")
            await wrote(newer, b"newer")

    run_story(story())
    assert committed(stub, "t") == [b"once", b"newer"]


@both
def test_a_pool_that_was_cut_off(stub: BrokerStub, kind: type[Pool]) -> None:
    """Its slot registers nothing once another process has the instance."""
    run_story(is_cut_off_and_followed(kind, stub.bootstrap, "t"))
    assert committed(stub, "t") == [b"newer"] * 2


@both
def test_a_pool_that_was_cut_off_while_it_opened(stub: BrokerStub, kind: type[Pool]) -> None:
    """The registration of its guard goes no further without a caller: the pool that has opened meanwhile is not taken over."""

    async def story() -> None:
        settings = {"instance": "a", "size": 1, "acquire_timeout_ms": 30_000, "request_timeout_ms": 200}
        async with (
            pool_of(kind, stub.bootstrap, **settings, client_id="older") as older,
            pool_of(kind, stub.bootstrap, **settings) as newer,
        ):
            cut_off = stub.faults.on(Api.INIT_PRODUCER_ID).where(client_id="older").forever().drop()
            while not cut_off.hits:
                with pytest.raises(PoolTimeout):
                    await wrote(older, b"none", timeout=0.3)
            pending = older._program._pending_registration
            assert pending is not None
            window = pending.window
            await made_of(until, lambda: not window.is_open(), "its caller has left")
            await made_of(newer.init, LIMIT_S)
            cut_off.remove()
            much_later = time.monotonic() + 1.0
            while time.monotonic() < much_later:
                await wrote(newer, b"newer")
            told.append(newer.stats().committed)

    told: list[int] = []
    run_story(story())
    assert committed(stub, "t") == [b"newer"] * told[0]


@both
def test_two_pools_that_open_at_the_same_time(stub: BrokerStub, kind: type[Pool]) -> None:
    """One of them continues, and the other one ends: they do not fence each other in turns."""

    async def story() -> None:
        settings = {"instance": "a", "size": 2, "acquire_timeout_ms": 30_000}
        for _ in range(5):
            async with pool_of(kind, stub.bootstrap, **settings) as first, pool_of(kind, stub.bootstrap, **settings) as second:
                told: dict[Pool, list[BaseException | None]] = {first: [], second: []}
                for _ in range(6):
                    found = await asyncio.gather(*[wrote(pool, b"row") for pool in told], return_exceptions=True)
                    for pool, each in zip(told, found, strict=True):
                        told[pool].append(each)
                last = [told[pool][-1] for pool in told]
                assert sorted(type(each).__name__ for each in last) == ["NoneType", "PoolTakenOver"], told
                counted[0] += sum(each is None for errors in told.values() for each in errors)

    counted = [0]
    run_story(story())
    assert len(committed(stub, "t")) == counted[0] > 0


@both
def test_pools_that_choose_share_nothing(stub: BrokerStub, kind: type[Pool], tmp_path: Path) -> None:
    """Two at the same time have instances of their own; one after the other have the same."""

    async def story() -> None:
        settings = {"size": 2, "lock_directory": tmp_path}
        async with pool_of(kind, stub.bootstrap, **settings) as first:
            async with pool_of(kind, stub.bootstrap, **settings) as second:
                await asyncio.gather(*[wrote(pool, b"row") for pool in (first, second) for _ in range(10)])
                assert len({first.instance, second.instance}) == 2
            async with pool_of(kind, stub.bootstrap, **settings) as third:
                await wrote(third, b"row")
                assert third.instance == second.instance

    run_story(story())
    assert committed(stub, "t") == [b"row"] * 21


@both
def test_a_chosen_instance_that_another_process_has(
    stub: BrokerStub, kind: type[Pool], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The claim was void, as with a cloned machine: the pool chooses another instance, and goes on."""

    async def story() -> None:
        async with pool_of(kind, stub.bootstrap, size=1, lock_directory=tmp_path, acquire_timeout_ms=30_000) as pool:
            await wrote(pool, b"row")
            before = pool.instance
            for end in ("guard", "0"):
                other = TransactionalProducer(QUICK, bootstrap_servers=stub.bootstrap, transactional_id=f"p-{before}-{end}")
                await made_of(other.init, LIMIT_S)
                other.close()
            with pytest.raises(Exception, match=r"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH|fenced"):
                await wrote(pool, b"lost")
            await wrote(pool, b"next")
            assert pool.instance != before

    with caplog.at_level(logging.WARNING, "fencepost.pool"):
        run_story(story())
    assert "the pool chooses another instance: " in caplog.text
    assert committed(stub, "t") == [b"row", b"next"]


def test_what_a_killed_process_left_open(stub: BrokerStub, tmp_path: Path) -> None:
    """The next process on the machine has its instance, and aborts what was left open in any slot at once."""
    is_killed_and_followed(stub.bootstrap, "t", lock_directory=tmp_path)
    assert committed(stub, "t") == [b"after"]


def test_with_a_given_instance(stub: BrokerStub) -> None:
    """The same, on any machine."""
    is_killed_and_followed(stub.bootstrap, "t", instance="a")
    assert committed(stub, "t") == [b"after"]


def test_a_fork(stub: BrokerStub, tmp_path: Path) -> None:
    """A pool that was used before: the child has an instance of its own, and the parent continues."""
    with TransactionalPool(QUICK, bootstrap_servers=stub.bootstrap, transactional_id_prefix="p", lock_directory=tmp_path) as pool:
        with pool.transaction() as tx:
            tx.send("t", b"parent")
            child = os.fork()
            if not child:
                code = 1
                try:
                    with pytest.raises(ProducerForked):
                        tx.send("t", b"none")
                    with pool.transaction() as own:
                        own.send("t", b"child")
                    code = 0
                    pool.close()
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            tx.send("t", b"parent")
        assert len(list(tmp_path.iterdir())) == 2
    assert sorted(committed(stub, "t")) == [b"child", b"parent", b"parent"]


@both
def test_a_fork_with_a_given_instance(stub: BrokerStub, kind: type[Pool]) -> None:
    """The child is refused, whether or not the pool was used before."""
    pool = kind(QUICK, bootstrap_servers=stub.bootstrap, transactional_id_prefix="p", instance="a")
    child = os.fork()
    if not child:
        code = 1
        try:
            with pytest.raises(
                ProducerForked, match=r"this pool with instance='a' was made in process \d+, and cannot be used in its child"
            ):
                pool.transaction()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    run_story(made_of(pool.close))


def test_the_caller_of_a_fenced_transaction_is_told(stub: BrokerStub) -> None:
    """At the commit, and when a record failed."""

    async def story() -> None:
        for _ in range(2):
            async with pool_of(AsyncTransactionalPool, stub.bootstrap, instance="a") as older:
                with pytest.raises(Fenced, match="instance 'a' of the pool 'p' belongs to another process now") as told:
                    async with block(older) as tx:
                        await sent(tx, "t", b"older")
                        await older._program._slots.all[0].producer.flush(LIMIT_S)
                        async with pool_of(AsyncTransactionalPool, stub.bootstrap, instance="a") as newer:
                            await made_of(newer.init, LIMIT_S)
                assert isinstance(told.value, PoolTakenOver)
                with pytest.raises(PoolTakenOver):
                    await made_of(older.check)

    run_story(story())
    assert committed(stub, "t") == []


def test_old_brokers_cannot_be_asked(stub: BrokerStub) -> None:
    """A pool needs DescribeTransactions: without it a second owner would go unnoticed. The error says so, before any transaction."""
    stub.faults.on(Api.DESCRIBE_TRANSACTIONS).forever().error(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

    async def story() -> None:
        async with pool_of(AsyncTransactionalPool, stub.bootstrap, instance="a") as pool:
            with pytest.raises(Exception, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
                await wrote(pool, b"none")

    run_story(story())
