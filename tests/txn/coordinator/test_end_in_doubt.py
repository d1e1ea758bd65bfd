"""A commit that a coordinator answers with CONCURRENT_TRANSACTIONS may be in its log."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer import Fenced
from fencepost.producer.wire import Api, ErrorCode
from fencepost.txn import AsyncTransactionalProducer, CommitOutcomeUnknown, TransactionalProducer
from tests.txn.stub_helpers import committed
from tests.waiting import until

WAIT_S = 30.0


@pytest.mark.parametrize("version", [1, 2])
def test_a_producer_that_is_closed_before_it_asks_again(version: int) -> None:
    """The commit was carried out. Its caller does not hear that nothing was committed, and finds the outcome out."""
    with BrokerStub(transaction_version=version) as stub, ThreadPoolExecutor() as pool:
        stub.faults.on(Api.END_TXN).after_append().forever().error(ErrorCode.CONCURRENT_TRANSACTIONS)
        producer = TransactionalProducer(stub.settings, transactional_id="id", linger_ms=0)
        tx = producer.begin(WAIT_S)
        tx.send("t", b"x").result(WAIT_S)
        committing = pool.submit(tx.commit, WAIT_S)
        until(lambda: len(stub.journal.requests(Api.END_TXN)) >= 4, "the producer has asked again", timeout_s=WAIT_S)
        producer.close(0)
        with pytest.raises(CommitOutcomeUnknown) as unknown:
            committing.result(WAIT_S)
        stub.faults.clear()
        unknown.value.resolve(WAIT_S)
        assert [record.value for record in stub.records("t", 0)] == [b"x"]


def test_a_coordinator_that_is_asked_and_does_not_answer() -> None:
    """The error of a commit without an answer does not say that no coordinator was asked."""
    with BrokerStub() as stub, TransactionalProducer(stub.settings, transactional_id="id", linger_ms=0) as producer:
        tx = producer.begin(WAIT_S)
        tx.send("t", b"x").result(WAIT_S)
        unanswered = stub.faults.on(Api.END_TXN).reply().hold()
        committing = ThreadPoolExecutor().submit(tx.commit, 1.0)
        unanswered.wait(1, WAIT_S)
        with pytest.raises(CommitOutcomeUnknown, match="has not answered yet \\(no answer has come yet\\)") as unknown:
            committing.result(WAIT_S)
        unanswered.release()
        unknown.value.resolve(WAIT_S)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["blocking", "asyncio"])
@pytest.mark.parametrize("carried_out", [False, True], ids=["refused", "carried out"])
@pytest.mark.parametrize("version", [1, 2])
def test_a_producer_that_is_fenced_before_it_asks_again(version: int, carried_out: bool, asynchronous: bool) -> None:
    """So does the transition of a newer producer answer the commit of the one that it fenced. Being fenced does not say what became of the
    commit. The producer asks, and its caller hears whether it was committed."""

    def commit() -> None:
        producer = TransactionalProducer(stub.settings, transactional_id="id", linger_ms=0)
        with producer:
            tx = producer.begin(WAIT_S)
            tx.send("t", b"x").result(WAIT_S)
            tx.commit(WAIT_S)

    async def commit_async() -> None:
        async with AsyncTransactionalProducer(stub.settings, transactional_id="id", linger_ms=0) as producer:
            tx = await producer.begin(WAIT_S)
            await (await tx.send("t", b"x"))
            await tx.commit(WAIT_S)

    with BrokerStub(transaction_version=version, default_partitions=1) as stub, ThreadPoolExecutor() as pool:
        point = stub.faults.on(Api.END_TXN)
        (point.after_append() if carried_out else point.before()).forever().error(ErrorCode.CONCURRENT_TRANSACTIONS)
        committing = pool.submit(asyncio.run, commit_async()) if asynchronous else pool.submit(commit)
        until(lambda: len(stub.journal.requests(Api.END_TXN)) >= 2, "the producer has asked again", timeout_s=WAIT_S)
        with TransactionalProducer(stub.settings, transactional_id="id") as successor:
            successor.init(WAIT_S)
            stub.faults.clear()
            if carried_out:
                committing.result(WAIT_S)
            else:
                with pytest.raises(Fenced):
                    committing.result(WAIT_S)
        assert committed(stub, "t") == [b"x"][: int(carried_out)]
