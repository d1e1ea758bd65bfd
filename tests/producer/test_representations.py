"""What a debugger, a log line and `help` show of producers and futures; and futures as `concurrent.futures` has them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect

import pytest

import fencepost
from fencepost import (
    Api,
    AsyncProducer,
    AsyncTransactionalProducer,
    BrokerStub,
    BulkFuture,
    DeliveryError,
    ErrorCode,
    Producer,
    RecordFuture,
    TransactionalProducer,
)

DOCUMENTED = (Producer, AsyncProducer, TransactionalProducer, AsyncTransactionalProducer, RecordFuture, BulkFuture, fencepost.Transaction)


def test_a_producer() -> None:
    """A producer shows its servers, how much is not acknowledged, and whether it is closed."""
    with BrokerStub() as stub, Producer(bootstrap_servers=stub.bootstrap, linger_ms=60_000) as producer:
        producer.send("t", b"one").result(60)
        producer.send("t", b"two")
        servers = stub.bootstrap
        assert repr(producer) == f"Producer(bootstrap_servers={servers!r}, topics=1, unacknowledged=1)"
    assert repr(producer) == f"Producer(bootstrap_servers={servers!r}, topics=1, unacknowledged=0, closed)"


def test_a_transactional_producer() -> None:
    """A transactional one shows its id and its state, too."""
    with (
        BrokerStub() as stub,
        TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="x") as producer,
        producer.transaction() as tx,
    ):
        tx.send("t", b"one")
        assert repr(producer).startswith("TransactionalProducer(transactional_id='x', state=OPEN, bootstrap_servers=")
    assert repr(producer).endswith(", unacknowledged=0, closed)")


def test_a_transaction_and_its_token() -> None:
    """A transaction shows its id and where it is, and so does what `resume` returns."""
    with BrokerStub() as stub, TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="x") as producer:
        transaction = producer.transaction()
        assert repr(transaction) == "Transaction(transactional_id='x', not begun)"
        with transaction as tx:
            assert repr(tx) == "Transaction(transactional_id='x', open)"
            tx.send("t", b"one")
        assert repr(tx) == "Transaction(transactional_id='x', over)"
        with producer.transaction() as tx:
            tx.send("t", b"two")
            token = tx.prepare()
            assert repr(tx) == "Transaction(transactional_id='x', prepared)"
        resumed = fencepost.resume(token, stub.bootstrap)
        assert repr(resumed) == f"Resumed({token!r})"
        resumed.commit()


def test_futures() -> None:
    """A future shows whether it is pending, done or failed, and to look at it so is no look at the failure."""
    with BrokerStub() as stub, Producer(bootstrap_servers=stub.bootstrap, linger_ms=60_000) as producer:
        future = producer.send("t", b"one")
        assert repr(future) == "RecordFuture(t-0, pending)"
        future.result(60)
        assert repr(future) == "RecordFuture(t-0, offset 0)"
        bulk = producer.send_many("t", [(None, b"a"), (None, b"b")])
        assert repr(bulk) == "BulkFuture(pending, acknowledged=0, failed=0, open=2)"
        bulk.result(60)
        assert repr(bulk) == "BulkFuture(done, acknowledged=2, failed=0, open=0)"
        stub.faults.on(Api.PRODUCE).error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        failed = producer.send("t", b"two")
        assert isinstance(failed.exception(60), DeliveryError)
        assert repr(failed).startswith("RecordFuture(t-0, failed: ")


def test_concurrent_futures() -> None:
    """`concurrent()` makes futures for `wait` and `as_completed`, of records and of bulks; a failure is in them as it is in ours."""
    with BrokerStub() as stub, Producer(bootstrap_servers=stub.bootstrap) as producer:
        futures = [producer.send("t", b"%d" % n).concurrent() for n in range(10)]
        done, waiting = concurrent.futures.wait(futures, timeout=60)
        assert not waiting
        assert sorted(each.result().offset for each in done) == list(range(10))
        [bulk] = concurrent.futures.as_completed([producer.send_many("t", [(None, b"x")] * 5).concurrent()], timeout=60)
        assert bulk.result().acknowledged == 5
        stub.faults.on(Api.PRODUCE).error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        assert isinstance(producer.send("t", b"x").concurrent().exception(60), DeliveryError)


def test_one_can_be_awaited_beside_a_sender_thread() -> None:
    """`await future` works on any loop, also for a `Producer`'s."""

    async def run(producer: Producer) -> int:
        return (await producer.send("t", b"x")).offset

    with BrokerStub() as stub, Producer(bootstrap_servers=stub.bootstrap) as producer:
        assert asyncio.run(run(producer)) == 0


def test_a_stub_that_has_not_started_has_no_address() -> None:
    """`bootstrap` before the start says so."""
    with pytest.raises(RuntimeError, match="the stub has not started"):
        _ = BrokerStub().bootstrap


@pytest.mark.parametrize("public", DOCUMENTED, ids=lambda public: public.__name__)
def test_help_and_signatures(public: type) -> None:
    """Compiled or not: every public class and method has a docstring and a signature with the names that callers use."""
    assert (public.__doc__ or "").strip()
    lacking = []
    for name in dir(public):
        method = getattr(public, name)
        if not name.startswith("_") and callable(method) and not (inspect.getdoc(method) and inspect.signature(method).parameters):
            lacking.append(name)
    assert lacking == []
    if hasattr(public, "send"):
        assert {"topic", "value", "key", "partition", "headers", "timestamp", "on_delivery"} <= set(
            inspect.signature(public.send).parameters
        )
