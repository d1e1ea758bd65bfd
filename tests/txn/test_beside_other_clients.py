"""The rules of a transactional producer, compared with other clients on the stub.

A commit fails if a record was lost. A repeated commit or abort ends one transaction only. The producer asks for no identity before EndTxn
is answered. Epochs run out without an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import aiokafka
import kafka
import pytest
from msgspec.structs import replace

from fencepost.broker_stub import BrokerStub
from fencepost.producer.errors import DeliveryTimeout, Fatal
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from fencepost.txn.errors import CommitOutcomeUnknown, MustAbort
from fencepost.txn.producer import TransactionalProducer
from tests.conformance.raw import RawConnection
from tests.txn.stub_helpers import LIMIT_S, SETTINGS, committed, ends
from tests.waiting import until

BOTH = pytest.mark.parametrize("version", [1, 2])
IMPATIENT = {"request_timeout_ms": 2_000, "delivery_timeout_ms": 3_000}


@contextlib.contextmanager
def a_stub(version: int = 2) -> Iterator[BrokerStub]:
    with BrokerStub(transaction_version=version) as stub:
        stub.create_topic("t", partitions=1)
        yield stub


def test_an_unobserved_refused_record() -> None:
    """aiokafka: the broker refuses a record that no task awaits, and the commit returns without an error. Our producer raises MustAbort."""

    async def theirs(bootstrap: str) -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="theirs")
        await producer.start()
        try:
            await producer.begin_transaction()
            await producer.send_and_wait("t", b"kept")
            stub.faults.on(Api.PRODUCE).times(1).error(ErrorCode.INVALID_RECORD)
            lost = await producer.send("t", b"lost")
            await producer.commit_transaction()
            assert lost.exception() is not None
        finally:
            await producer.stop()

    with a_stub() as stub:
        asyncio.run(asyncio.wait_for(theirs(stub.bootstrap), LIMIT_S))
        assert ends(stub) == [True]
        assert committed(stub, "t") == [b"kept"]

    with a_stub() as stub, TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap) as producer:
        with pytest.raises(MustAbort, match="INVALID_RECORD"), producer.transaction(LIMIT_S) as tx:
            tx.send("t", b"kept").result(LIMIT_S)
            stub.faults.on(Api.PRODUCE).times(1).error(ErrorCode.INVALID_RECORD)
            tx.send("t", b"lost")
        assert ends(stub) == [False]
        assert committed(stub, "t") == []


def test_an_unobserved_late_record() -> None:
    """kafka-python: the delivery timeout of a record passes without a look at its future, and the commit returns without an error. Our
    producer raises MustAbort."""
    with a_stub() as stub:
        theirs = kafka.KafkaProducer(bootstrap_servers=stub.bootstrap, transactional_id="theirs", linger_ms=0, **IMPATIENT)
        theirs.init_transactions()
        theirs.begin_transaction()
        refused = stub.faults.on(Api.PRODUCE).forever().error(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        lost = theirs.send("t", b"lost")
        theirs.commit_transaction()
        refused.remove()
        theirs.close(timeout=5)
        assert isinstance(lost.exception, kafka.errors.KafkaTimeoutError)
        assert committed(stub, "t") == []

    with a_stub() as stub, TransactionalProducer({**SETTINGS, **IMPATIENT}, bootstrap_servers=stub.bootstrap) as producer:
        tx = producer.begin(LIMIT_S)
        refused = stub.faults.on(Api.PRODUCE).forever().error(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        tx.send("t", b"lost")
        with pytest.raises(MustAbort) as spoilt:
            tx.commit(LIMIT_S)
        assert isinstance(spoilt.value.cause, DeliveryTimeout)
        refused.remove()
        tx.abort(LIMIT_S)
        assert committed(stub, "t") == []


def repeated(stub: BrokerStub) -> int:
    """Send the first commit once more, as a network may; returns what the coordinator says."""
    first = stub.journal.requests(Api.END_TXN)[0]
    assert isinstance(first.request, EndTxnRequest)
    with RawConnection(stub.addresses[1]) as connection:
        answer = connection.ask(first.request, first.version)
    assert isinstance(answer, EndTxnResponse)
    return answer.error_code


def test_a_commit_that_arrives_once_more_in_the_next_transaction() -> None:
    """Transaction version 1, and the reply to a commit is lost. kafka-python asks again and goes on under the same epoch: the first
    request, if it arrives only now, commits the transaction after it. Ours has renewed its epoch by then, and the request is refused."""
    with a_stub(1) as stub:
        theirs = kafka.KafkaProducer(bootstrap_servers=stub.bootstrap, transactional_id="theirs", linger_ms=0, **IMPATIENT)
        theirs.init_transactions()
        stub.faults.on(Api.END_TXN).after_append().times(1).disconnect()
        theirs.begin_transaction()
        theirs.send("t", b"first")
        theirs.commit_transaction()
        theirs.begin_transaction()
        theirs.send("t", b"second").get(LIMIT_S)
        assert repeated(stub) == ErrorCode.NONE
        until(lambda: committed(stub, "t") == [b"first", b"second"], "what nobody committed is committed")
        theirs.close(timeout=5)

    with a_stub(1) as stub, TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap) as producer:
        stub.faults.on(Api.END_TXN).after_append().times(1).disconnect()
        with producer.transaction(LIMIT_S) as tx:
            tx.send("t", b"first")
        tx = producer.begin(LIMIT_S)
        tx.send("t", b"second").result(LIMIT_S)
        assert repeated(stub) in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
        assert committed(stub, "t") == [b"first"]
        tx.abort(LIMIT_S)


@BOTH
@pytest.mark.parametrize("code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_no_identity_is_asked_for_before_the_end_is_answered(version: int, code: ErrorCode) -> None:
    """What makes a producer renew its epoch happens while it commits (librdkafka#3575): InitProducerId waits until the transaction is
    aborted and the coordinator has said so."""
    with a_stub(version) as stub, TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap) as producer:
        tx = producer.begin(LIMIT_S)
        tx.send("t", b"fine").result(LIMIT_S)
        stub.faults.on(Api.PRODUCE).times(1).error(code)
        held = stub.faults.on(Api.END_TXN).times(1).hold()
        tx.send("t", b"refused")
        with pytest.raises(MustAbort, match=code.name):
            tx.commit(LIMIT_S)
        ending = threading.Thread(target=tx.abort, args=(LIMIT_S,))
        ending.start()
        held.wait(1, LIMIT_S)
        assert len(stub.journal.requests(Api.INIT_PRODUCER_ID)) == 1
        held.release()
        ending.join(LIMIT_S)
        with producer.transaction(LIMIT_S) as tx:
            tx.send("t", b"next")
        assert len(stub.journal.requests(Api.INIT_PRODUCER_ID)) == (2 if version < 2 else 1)
        assert ends(stub) == [False, True]
        assert committed(stub, "t") == [b"next"]


def worn(stub: BrokerStub, *, epoch: int) -> None:
    """Have the coordinator give this epoch next, as if the ones before had been used up."""

    def put() -> None:
        shard = stub.services.transactions.shard_for("a", 1)
        assert shard is not None
        shard.ids["a"].txn = replace(shard.ids["a"].txn, epoch=epoch - 1)

    with TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap) as first:
        first.init(LIMIT_S)
    stub._call(put)


def test_epochs_run_out() -> None:
    """Transaction version 2: every end takes an epoch, and after 32766 the coordinator answers with another producer id, which goes on
    from 0; all of it is committed, in order."""
    with a_stub() as stub:
        worn(stub, epoch=32_765)
        with TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap) as producer:
            had = []
            for turn in range(4):
                with producer.transaction(LIMIT_S) as tx:
                    tx.send("t", b"%d" % turn)
                    had.append(producer._manager.identity)
        pids, epochs = zip(*[identity for identity in had if identity is not None], strict=True)
        assert epochs == (32_765, 32_766, 0, 1)
        assert pids[0] == pids[1] != pids[2] == pids[3]
        assert committed(stub, "t") == [b"0", b"1", b"2", b"3"]


def test_epochs_run_out_by_failures() -> None:
    """Transaction version 1: an epoch is taken where a transaction was broken, and after 32766 there is another producer id."""
    with a_stub(1) as stub:
        worn(stub, epoch=32_765)
        with TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap) as producer:
            had = []
            for turn in range(3):
                stub.faults.on(Api.PRODUCE).times(1).error(ErrorCode.INVALID_RECORD)
                with pytest.raises(MustAbort), producer.transaction(LIMIT_S) as tx:
                    had.append(producer._manager.identity)
                    tx.send("t", b"broken")
                with producer.transaction(LIMIT_S) as tx:
                    tx.send("t", b"%d" % turn)
        pids, epochs = zip(*[identity for identity in had if identity is not None], strict=True)
        assert epochs == (32_765, 32_766, 0)
        assert pids[0] == pids[1] != pids[2]
        assert committed(stub, "t") == [b"0", b"1", b"2"]


@pytest.mark.parametrize("there", ["nobody", "somebody who has committed", "somebody in a transaction"])
def test_a_commit_where_another_cluster_has_taken_the_address(there: str) -> None:
    """A cluster is made anew where the old one was, and gives the same producer ids and epochs away once more. A commit that is asked for
    afterwards ends no transaction of the new cluster, and does not take the end of one for its own."""
    with BrokerStub(cluster_id="first") as first:
        address: dict[str, Any] = {"bootstrap_servers": first.bootstrap}
        first.create_topic("t")
        with TransactionalProducer(SETTINGS, **address) as producer:
            tx = producer.begin(LIMIT_S)
            tx.send("t", b"gone with the cluster").result(LIMIT_S)
            first.close()
            with BrokerStub(cluster_id="second", seed=1, port=first.addresses[1][1]) as second:
                second.create_topic("t")
                with TransactionalProducer(SETTINGS, **address) as other:
                    theirs = other.begin(LIMIT_S) if there != "nobody" else None
                    if theirs is not None:
                        theirs.send("t", b"theirs").result(LIMIT_S)
                    if there == "somebody who has committed":
                        other.commit(LIMIT_S)
                    asked = len(ends(second))
                    # The outcome is unknown if the request was already on its way when the first cluster ended.
                    with pytest.raises((Fatal, CommitOutcomeUnknown), match="another cluster"):
                        tx.commit(LIMIT_S)
                    assert len(ends(second)) == asked
                    if there == "somebody in a transaction":
                        other.abort(LIMIT_S)
                assert committed(second, "t") == ([b"theirs"] if there == "somebody who has committed" else [])
