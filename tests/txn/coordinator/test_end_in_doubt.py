"""A commit that a coordinator answers with CONCURRENT_TRANSACTIONS may be in its log."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.wire import Api, ErrorCode
from fencepost.txn import CommitOutcomeUnknown, TransactionalProducer
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
