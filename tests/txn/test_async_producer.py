"""The transactional producer on asyncio: the same promises, and cancellation that never loses an outcome."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.faults.rules import Fault
from fencepost.producer.errors import Misuse, ProducerClosed, RecordRefused
from fencepost.producer.wire import Api, ErrorCode
from fencepost.txn.async_producer import AsyncTransaction, AsyncTransactionalProducer
from fencepost.txn.coordinator.exit_and_fork import GIVEN_UP
from fencepost.txn.coordinator.send_admission import NoTransaction
from fencepost.txn.coordinator.state_machine import Event, State
from fencepost.txn.coordinator.transaction_manager import FORGOTTEN
from fencepost.txn.errors import CommitOutcomeUnknown, DeliveryAborted, IllegalCall, MustAbort, TransactionTimeout
from fencepost.txn.group_metadata import GroupMetadata
from tests.producer.stub_helpers import run_story
from tests.txn.stub_helpers import LIMIT_S, SETTINGS, committed, ends, stub

__all__ = ["stub"]


def made(stub: BrokerStub, **settings: Any) -> AsyncTransactionalProducer:
    return AsyncTransactionalProducer({**SETTINGS, **settings}, bootstrap_servers=stub.bootstrap)


async def hit(fault: Fault) -> None:
    """Wait until it holds something up."""
    await asyncio.to_thread(fault.wait, 1, LIMIT_S)


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel it, and see that it is."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_block_commits_and_an_exception_aborts(stub: BrokerStub) -> None:
    """Records, many at once and offsets are seen after the block, and not where an exception left it; tasks share a transaction."""

    async def story() -> None:
        async with made(stub) as producer:
            await producer.init(LIMIT_S)
            async with producer.transaction(LIMIT_S) as tx:
                await asyncio.gather(*[tx.send("t", b"%02d" % row, partition=0) for row in range(50)])
                bulk = await tx.send_many("t", [b"many"] * 3)
                await tx.send_offsets({("t", 0): 5}, GroupMetadata("g"))
            assert (await bulk).acknowledged == 3
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction(LIMIT_S) as tx:
                    await tx.send("t", b"aborted")
                    raise ZeroDivisionError
            with pytest.raises(NoTransaction):
                await tx.send("t", b"late")
            async with producer.transaction(LIMIT_S):
                pass

    run_story(story())
    assert sorted(committed(stub, "t")) == sorted([*[b"%02d" % row for row in range(50)], b"many", b"many", b"many"])
    assert ends(stub) == [True, False]


def test_try_send_writes_into_the_open_transaction(stub: BrokerStub) -> None:
    """It waits for nothing, and its record is committed or aborted with the others. A transaction that is over or not open refuses it, and
    one that can only be aborted says so."""

    async def story() -> None:
        async with made(stub) as producer:
            await producer.init(LIMIT_S)
            with pytest.raises(NoTransaction):
                producer.try_send("t", b"before")
            async with producer.transaction(LIMIT_S) as tx:
                await producer.partitions_for("t")
                first = tx.try_send("t", b"first", partition=0)
                second = producer.try_send("t", b"second", partition=0)
            assert (await first).offset == 0
            assert (await second).offset == 1
            with pytest.raises(NoTransaction):
                tx.try_send("t", b"late")
            await producer.begin(LIMIT_S)
            stub.faults.on(Api.PRODUCE).error(ErrorCode.INVALID_RECORD)
            refused = producer.try_send("t", b"refused")
            with pytest.raises(RecordRefused):
                await refused
            with pytest.raises(MustAbort):
                producer.try_send("t", b"after the refused one")
            await producer.abort(LIMIT_S)

    run_story(story())
    assert committed(stub, "t") == [b"first", b"second"]
    assert ends(stub) == [True, False]


def test_work_that_leaves_a_coroutine_undone_is_not_committed(stub: BrokerStub) -> None:
    """A work that returns the coroutine of the real one, without awaiting it, has written nothing: Misuse, not a commit."""

    async def work(tx: AsyncTransaction) -> None:
        await tx.send("t", b"row")

    async def forgets(tx: AsyncTransaction) -> Awaitable[None]:
        return work(tx)

    async def story() -> None:
        async with made(stub) as producer:
            with pytest.raises(Misuse, match=r"function, so its body has not run"):
                await producer.run(forgets, timeout=LIMIT_S)
            await producer.run(work, timeout=LIMIT_S)

    run_story(story())
    assert committed(stub, "t") == [b"row"]


@pytest.mark.parametrize("error", [None, ZeroDivisionError()], ids=["", "error"])
@pytest.mark.parametrize(
    ("call", "ended"),
    [
        (AsyncTransaction.commit, [True]),
        (AsyncTransaction.abort, [False]),
        (AsyncTransaction.prepare, []),
        (AsyncTransactionalProducer.prepare, []),
    ],
    ids=lambda given: getattr(given, "__qualname__", ""),
)
def test_a_transaction_that_is_ended_or_prepared_in_its_block(
    stub: BrokerStub, caplog: pytest.LogCaptureFixture, call: Callable[..., Awaitable[object]], ended: list[bool], error: Exception | None
) -> None:
    """What the caller decided in the block stands when the block is left, also by an exception; the end of the block asks for nothing more,
    and complains of nothing."""

    async def story() -> None:
        async with made(stub) as producer:
            with contextlib.nullcontext() if error is None else pytest.raises(type(error)):
                async with producer.transaction(LIMIT_S) as tx:
                    await tx.send("t", b"row")
                    await call(producer if call is AsyncTransactionalProducer.prepare else tx, LIMIT_S)
                    if error is not None:
                        raise error
            assert ends(stub) == ended
            if not ended:
                await producer.abort(LIMIT_S)

    run_story(story())
    assert ends(stub) == (ended or [False])
    assert not caplog.records


def test_an_end_where_no_transaction_is_open(stub: BrokerStub) -> None:
    """The producer's own calls end only the open transaction. A caller that commits an aborted one is not told that it is committed, for
    all outcomes of earlier transactions."""

    async def story() -> None:
        async with made(stub) as producer:
            for end in (producer.commit, producer.abort):
                await (await producer.begin(LIMIT_S)).send("t", b"row")
                await end(LIMIT_S)
                for call in (producer.commit, producer.abort, producer.prepare):
                    with pytest.raises(IllegalCall, match="the producer is between transactions"):
                        await call(LIMIT_S)

    run_story(story())


def test_an_end_of_a_transaction_that_is_over_leaves_the_open_one_alone(stub: BrokerStub) -> None:
    """Every call that ends a transaction, made again through the object of an earlier one, is told what became of that, and the transaction
    that is open takes records as before."""

    async def story() -> None:
        async with made(stub) as producer:
            old = await producer.begin(LIMIT_S)
            await old.send("t", b"old")
            await old.commit(LIMIT_S)
            tx = await producer.begin(LIMIT_S)
            for call in (old.abort, old.prepare):
                with pytest.raises(IllegalCall, match="the transaction has been committed"):
                    await call(LIMIT_S)
                await tx.send("t", b"row")
            await old.commit(LIMIT_S)
            await tx.send("t", b"row")
            await tx.commit(LIMIT_S)

    run_story(story())
    assert committed(stub, "t") == [b"old", *[b"row"] * 3]


def test_a_call_ends_at_its_deadline_and_can_be_made_again() -> None:
    """Without a broker init and begin end in time, and say why."""

    async def story() -> None:
        async with AsyncTransactionalProducer(SETTINGS, bootstrap_servers="127.0.0.1:1") as producer:
            for call in (producer.init, producer.begin, producer.begin):
                with pytest.raises(TransactionTimeout, match="asking the coordinator for an identity"):
                    await call(0.05)

    run_story(story())


def test_an_unobserved_failure_refuses_the_commit_on_asyncio(stub: BrokerStub) -> None:
    """The commit is refused with the first failure; `run` writes once more what may fare better, and not what may not."""

    async def story() -> None:
        async with made(stub) as producer:
            stub.faults.on(Api.PRODUCE).times(1).error(ErrorCode.INVALID_RECORD)
            with pytest.raises(MustAbort, match="INVALID_RECORD"):
                async with producer.transaction(LIMIT_S) as tx:
                    await tx.send("t", b"bad")
            stub.faults.on(Api.PRODUCE).times(1).error(ErrorCode.TRANSACTION_ABORTABLE)

            async def work(tx: AsyncTransaction) -> AsyncTransaction:
                await tx.send("t", b"good")
                return tx

            assert (await producer.run(work, timeout=LIMIT_S))._number == 3
            with pytest.raises(ValueError, match="attempts=0"):
                await producer.run(work, attempts=0)

    run_story(story())
    assert committed(stub, "t") == [b"good"]


def test_a_commit_cancelled_in_the_middle(stub: BrokerStub) -> None:
    """The coordinator was asked, and its answer is still to come: nothing else can be begun, and the next call tells what came of it."""

    async def story() -> None:
        async with made(stub) as producer:
            for last in (Event.COMMIT, Event.ABORT):
                tx = await producer.begin(LIMIT_S)
                await tx.send("t", last.value.encode())
                held = stub.faults.on(Api.END_TXN).after_append().hold()
                task = asyncio.create_task(tx.commit(LIMIT_S))
                await hit(held)
                await cancelled(task)
                for call in (producer.begin, tx.abort):
                    with pytest.raises(IllegalCall, match="what can be called now: commit"):
                        await call(LIMIT_S)
                held.release()
                held.remove()
                if last is Event.COMMIT:
                    await tx.commit(LIMIT_S)
                else:
                    while producer._manager.machine.state is State.COMMITTING:
                        await asyncio.sleep(0)
                    with pytest.raises(IllegalCall, match="abort: the transaction has been committed"):
                        await tx.abort(LIMIT_S)
                    await tx.commit(LIMIT_S)

    run_story(story())
    assert committed(stub, "t") == [b"commit", b"abort"]
    assert ends(stub) == [True, True]


def test_a_commit_cancelled_while_records_are_on_their_way(stub: BrokerStub) -> None:
    """Nothing is decided: it can be committed, or aborted, as before."""

    async def story() -> None:
        async with made(stub) as producer:
            for end in ("commit", "abort"):
                held = stub.faults.on(Api.PRODUCE).after_append().hold()
                tx = await producer.begin(LIMIT_S)
                await tx.send("t", end.encode())
                await hit(held)
                task = asyncio.create_task(tx.commit(LIMIT_S))
                await asyncio.sleep(0)
                await cancelled(task)
                ending = asyncio.create_task(getattr(tx, end)(LIMIT_S))
                await asyncio.sleep(0)
                held.release()
                held.remove()
                await ending

    run_story(story())
    assert committed(stub, "t") == [b"commit"]
    assert ends(stub) == [True, False]


def test_a_block_whose_commit_is_cancelled(stub: BrokerStub) -> None:
    """The cancellation is the caller's, nothing is aborted that may be committed, and the outcome can be asked for afterwards."""

    async def story() -> None:
        async with made(stub) as producer:
            held = stub.faults.on(Api.END_TXN).after_append().hold()

            async def block() -> None:
                async with producer.transaction(LIMIT_S) as tx:
                    await tx.send("t", b"row")

            task = asyncio.create_task(block())
            await hit(held)
            await cancelled(task)
            held.release()
            held.remove()
            await producer.commit(LIMIT_S)

    run_story(story())
    assert ends(stub) == [True]
    assert committed(stub, "t") == [b"row"]


def test_a_close_that_is_cancelled_twice(stub: BrokerStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second cancellation comes while the connections end. The next close ends them."""

    async def story() -> None:
        producer = made(stub)
        tx = await producer.begin(LIMIT_S)
        await (await tx.send("t", b"left open"))
        side = producer._inner._running()
        ended = side.end

        async def slow(_: object) -> None:
            entered.set()
            await asyncio.Event().wait()

        entered = asyncio.Event()
        monkeypatch.setattr(side, "end", slow)
        held = stub.faults.on(Api.END_TXN).before().hold()
        closing = asyncio.create_task(producer.close(LIMIT_S))
        await hit(held)
        closing.cancel()
        await entered.wait()
        await cancelled(closing)
        monkeypatch.setattr(side, "end", ended)
        await producer.close(LIMIT_S)
        assert producer._inner._closed
        assert side._ended
        held.remove()

    run_story(story())


def test_a_block_whose_commit_was_asked_for_as_its_time_passed(stub: BrokerStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time passes while a record is on its way, which arrives before the abort is asked for: the block ends as the commit does."""

    async def story() -> None:
        async with made(stub) as producer:
            await producer.init(LIMIT_S)
            slow = stub.faults.on(Api.PRODUCE).reply().hold()
            abort = AsyncTransaction.abort

            async def too_late(tx: AsyncTransaction, timeout: float | None = None) -> None:
                slow.release()
                while producer._manager.machine.state is not State.READY:
                    await asyncio.sleep(0.01)
                await abort(tx, timeout)

            monkeypatch.setattr(AsyncTransaction, "abort", too_late)
            async with producer.transaction(0.2) as tx:
                await tx.send("t", b"row")
            with pytest.raises(IllegalCall):
                await abort(tx)
            async with producer.transaction(LIMIT_S) as following:
                with pytest.raises(IllegalCall):
                    await abort(tx)
                await following.send("t", b"next")

    run_story(story())
    assert committed(stub, "t") == [b"row", b"next"]


def test_a_block_whose_body_is_cancelled(stub: BrokerStub) -> None:
    """It is aborted before the cancellation goes on, and the producer goes on after it."""

    async def story() -> None:
        async with made(stub) as producer:
            waits = asyncio.Event()

            async def block() -> None:
                async with producer.transaction(LIMIT_S) as tx:
                    await (await tx.send("t", b"row"))
                    waits.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(block())
            await waits.wait()
            await cancelled(task)
            assert ends(stub) == [False]
            async with producer.transaction(LIMIT_S) as tx:
                await tx.send("t", b"next")

    run_story(story())
    assert committed(stub, "t") == [b"next"]


@pytest.mark.parametrize("first", [True, False])
def test_a_begin_cancelled_at_any_time(stub: BrokerStub, first: bool) -> None:
    """After a cancelled `begin` no transaction is open, at every point of the cancellation, and the next `begin` begins one."""

    async def story() -> None:
        for turns in range(12):
            async with made(stub, transactional_id=f"{turns}") as producer:
                if not first:
                    await producer.init(LIMIT_S)
                task = asyncio.create_task(producer.begin(LIMIT_S))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await (await task).abort(LIMIT_S)
                tx = await producer.begin(LIMIT_S)
                await tx.send("t", b"%d" % turns)
                await tx.commit(LIMIT_S)

    run_story(story())
    assert committed(stub, "t") == [b"%d" % turns for turns in range(12)]


def test_a_send_that_waits_comes_out_in_no_other_transaction(stub: BrokerStub) -> None:
    """A task that waits for its topic while its transaction ends is refused, and the next transaction waits for it."""

    async def story() -> None:
        async with made(stub) as producer:
            tx = await producer.begin(LIMIT_S)
            held = stub.faults.on(Api.METADATA).where(topic="unknown").hold()
            task = asyncio.create_task(tx.send("unknown", b"row"))
            await hit(held)
            await tx.commit(LIMIT_S)
            with pytest.raises(TransactionTimeout, match="has not returned"):
                await producer.begin(0.01)
            beginning = asyncio.create_task(producer.begin(LIMIT_S))
            await asyncio.sleep(0)
            held.release()
            held.remove()
            with pytest.raises(NoTransaction):
                await task
            await (await beginning).commit(LIMIT_S)

    run_story(story())


def test_an_outcome_that_stays_unknown(stub: BrokerStub) -> None:
    """Without an answer to EndTxn the commit ends at its deadline; the error's `resolve` is awaited for the rest."""

    async def story() -> None:
        async with made(stub) as producer:
            tx = await producer.begin(LIMIT_S)
            await (await tx.send("t", b"row"))
            lost = stub.faults.on(Api.END_TXN).after_append().forever().disconnect()
            with pytest.raises(CommitOutcomeUnknown) as unknown:
                while True:
                    with contextlib.suppress(TransactionTimeout):  # it was not even asked in that time
                        await tx.commit(0.5)
            lost.remove()
            await unknown.value.resolve(LIMIT_S)
            async with producer.transaction(LIMIT_S):
                pass

    run_story(story())
    assert committed(stub, "t") == [b"row"]


def test_close_aborts_what_is_open(stub: BrokerStub, caplog: pytest.LogCaptureFixture) -> None:
    """Leaving the producer's block gives the transaction up, with a word in the log, and what was not sent fails; then every call says that
    it is closed."""

    async def story() -> None:
        held = stub.faults.on(Api.PRODUCE).after_append().hold()
        producer = made(stub, batch_size=0, max_in_flight=1)
        tx = await producer.begin(LIMIT_S)
        await tx.send("t", b"flying")
        queued = await tx.send("t", b"queued")
        await hit(held)
        closing = asyncio.create_task(producer.close(LIMIT_S))
        await asyncio.sleep(0)
        held.release()
        held.remove()
        await closing
        await producer.close()
        assert isinstance(queued.exception(0), DeliveryAborted)
        for call in (producer.begin, producer.init, producer.commit):
            with pytest.raises(ProducerClosed):
                await call(1)
        assert caplog.messages.count(GIVEN_UP % (producer.transactional_id, FORGOTTEN)) == 1

    run_story(story())
    assert ends(stub) == [False]
    assert committed(stub, "t") == []
