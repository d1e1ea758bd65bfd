"""An open transaction whose program closes its producer, exits, is collected or forks.

It is never committed. It is aborted at once where possible, so that readers need not wait for its timeout.
"""

from __future__ import annotations

import gc
import threading
from contextlib import suppress

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.accumulator.batch import COMPILED
from fencepost.producer.core.core import Core
from fencepost.producer.errors import DeliveryError, FencepostError
from fencepost.producer.network.connection import Connection
from fencepost.producer.wire import Api, ErrorCode
from fencepost.txn.coordinator.exit_and_fork import GIVEN_UP
from fencepost.txn.coordinator.transaction_manager import FORGOTTEN, IN_BLOCK
from fencepost.txn.errors import TransactionTimeout
from fencepost.txn.producer import TransactionalProducer
from tests.producer.child_programs import run
from tests.producer.stub_helpers import drop
from tests.txn.stub_helpers import LIMIT_S, SETTINGS, committed, ends
from tests.waiting import until

OPEN = """
    from fencepost.txn import *
    producer = TransactionalProducer(bootstrap_servers=bootstrap, transactional_id="a", exit_flush_ms={patience_ms}, **quick)
    tx = producer.begin(30)
    tx.send("t", b"row").result(30)
"""


def test_close_aborts_what_is_open(caplog: pytest.LogCaptureFixture) -> None:
    """Within its deadline: what was sent is not seen, what was not sent fails, and the coordinator need not wait for its timeout. The log
    says so, because the program may have forgotten to commit."""
    with BrokerStub() as stub:
        producer = TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap, batch_size=0, max_in_flight=1)
        tx = producer.begin(LIMIT_S)
        tx.send("t", b"row").result(LIMIT_S)
        producer.close(LIMIT_S)
        assert ends(stub) == [False]
        assert committed(stub, "t") == []
        assert caplog.messages.count(GIVEN_UP % (producer.transactional_id, FORGOTTEN)) == 1


def test_close_after_an_abort_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Nor after a commit, nor in a transaction that failed: its program was told."""
    with BrokerStub() as stub:
        with TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap) as producer:
            with producer.transaction() as tx:
                tx.send("t", b"row")
            producer.begin(LIMIT_S).abort(LIMIT_S)
            refused = stub.faults.on(Api.PRODUCE).error(ErrorCode.INVALID_RECORD)
            with pytest.raises(DeliveryError):
                producer.begin(LIMIT_S).send("t", b"row").result(LIMIT_S)
            assert refused.hits == 1
        assert ends(stub) == [True, False]
    assert not [each for each in caplog.messages if "close() aborted" in each]


def test_close_in_a_block(caplog: pytest.LogCaptureFixture) -> None:
    """The program has not forgotten to commit: the block would. The log says what is wrong instead."""
    with BrokerStub() as stub:
        producer = TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap)
        with suppress(FencepostError), producer.transaction() as tx:
            tx.send("t", b"row").result(LIMIT_S)
            producer.close(LIMIT_S)
        assert ends(stub) == [False]
        assert caplog.messages.count(GIVEN_UP % (producer.transactional_id, IN_BLOCK)) == 1


def test_close_waits_for_a_commit_that_is_under_way() -> None:
    """A commit whose caller gave up waiting is not turned into an abort."""
    with BrokerStub() as stub:
        producer = TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap)
        tx = producer.begin(LIMIT_S)
        tx.send("t", b"row").result(LIMIT_S)
        held = stub.faults.on(Api.END_TXN).before().hold()
        with pytest.raises(Exception, match="commit"):
            tx.commit(0.01)
        held.release()
        held.remove()
        producer.close(LIMIT_S)
        assert set(ends(stub)) == {True}
        assert committed(stub, "t") == [b"row"]


def test_close_waits_for_a_commit_whose_records_are_on_their_way() -> None:
    """The caller of `commit` gave up waiting before the coordinator was asked. `close` still waits for it, and the records are
    committed."""
    with BrokerStub() as stub:
        producer = TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap)
        tx = producer.begin(LIMIT_S)
        held = stub.faults.on(Api.PRODUCE).after_append().hold()
        tx.send("t", b"row")
        held.wait(1, LIMIT_S)
        with pytest.raises(TransactionTimeout, match="records are still on their way"):
            tx.commit(0.01)
        closing = threading.Thread(target=producer.close, args=(LIMIT_S,))
        closing.start()
        until(lambda: len(producer._manager._waiting.deadlines_ms()) > 0, "the close waits for the commit", timeout_s=LIMIT_S)
        held.release()
        closing.join(LIMIT_S)
        assert ends(stub) == [True]
        assert committed(stub, "t") == [b"row"]


@pytest.mark.parametrize("ending", ["tx.send('t', b'another')", "1 / 0"])
def test_a_program_that_ends_in_a_transaction(ending: str) -> None:
    """The transaction is aborted at exit, for every way in which the program ends, and the log says so."""
    with BrokerStub() as stub:
        ended = run(OPEN.format(patience_ms=30_000) + "    " + ending, stub.bootstrap)
        assert ended.code == (1 if ending == "1 / 0" else 0)
        assert "exit without close(): abort() ended the open transaction" in ended.complaints
        assert ends(stub) == [False]
        assert committed(stub, "t") == []


def test_a_program_that_ends_and_no_coordinator_answers() -> None:
    """It ends within `exit_flush_ms` all the same, and says that the transaction may be open."""
    with BrokerStub() as stub:
        stub.faults.on(Api.END_TXN).before().forever().drop()
        ended = run(OPEN.format(patience_ms=300), stub.bootstrap)
        assert ended.code == 0
        assert "abort() has not ended the open transaction" in ended.complaints
        assert ended.seconds < 30
        stub.faults.clear()


def test_a_program_that_ends_between_transactions() -> None:
    """There is nothing to do, and nothing is said."""
    with BrokerStub() as stub:
        ended = run(OPEN.format(patience_ms=30_000) + "    tx.commit(30)", stub.bootstrap)
        assert (ended.code, ended.complaints) == (0, "")
        assert ends(stub) == [True]


def test_collection_without_close_aborts() -> None:
    """The producer and its transaction have no references any more. The producer warns and sends the abort, then its thread ends."""
    with BrokerStub() as stub:
        producer = TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap)
        tx = producer.begin(LIMIT_S)
        future = tx.send("t", b"row")
        future.result(LIMIT_S)
        held = [producer, tx]
        del producer, tx
        with pytest.warns(ResourceWarning, match="its transaction is not committed"):
            drop(held)
        until(lambda: ends(stub) == [False], "the transaction is aborted", timeout_s=LIMIT_S)
        until(lambda: stub.stats()["open"] == 0, "the connections are down", timeout_s=LIMIT_S)


def test_a_collection_in_a_step_of_the_sender_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an object is made in the middle of that step, Python may collect the producer. The abort comes after the step."""
    with BrokerStub() as stub:
        producer = TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap)
        tx = producer.begin(LIMIT_S)
        tx.send("t", b"row").result(LIMIT_S)
        shared, sender = producer._inner._shared, producer._inner._sender
        if not COMPILED:  # As compiled: a step does not enter the region again.
            monkeypatch.setattr(shared, "region", shared.held)
            monkeypatch.setattr(shared, "inside", lambda: shared.held.holder == threading.get_ident())
        held = [producer, tx]
        del producer, tx
        heard: list[str] = []

        def step() -> None:
            with shared.region:
                drop(held)
            heard.append("stepped")

        sender.soon(step)
        del sender
        with pytest.warns(ResourceWarning, match="its transaction is not committed"):
            until(lambda: heard and ends(stub) == [False], "the transaction is aborted", timeout_s=LIMIT_S)
        until(lambda: stub.stats()["open"] == 0, "the connections are down", timeout_s=LIMIT_S)


REFUSED = [
    "tx.send('t', b'x')",
    "tx.send_many('t', [b'x'])",
    "tx.send_offsets({('t', 0): 1}, GroupMetadata('g'))",
    "tx.commit()",
    "tx.abort()",
    "producer.init()",
    "producer.begin()",
    "producer.commit()",
    "producer.flush()",
    "producer.close()",
    "producer.run(lambda tx: None)",
]


def test_a_forked_child_is_refused_every_call() -> None:
    """At once, and the parent's transaction goes on untouched; the child's exit ends nothing of it."""
    with BrokerStub() as stub:
        ended = run(
            OPEN.format(patience_ms=30_000)
            + f"""
    child = os.fork()
    if child == 0:
        began = time.monotonic()
        for call in {REFUSED!r}:
            print(call, attempt(lambda: eval(call)))
        print(time.monotonic() - began < 10)
        sys.exit(0)
    print("child", os.waitpid(child, 0)[1])
    tx.send("t", b"more")
    tx.commit(30)
    producer.close(30)
    """,
            stub.bootstrap,
        )
        assert ended.lines == [*(f"{call} ProducerForked" for call in REFUSED), "True", "child 0"]
        assert ended.complaints == ""
        assert ends(stub) == [True]
        assert committed(stub, "t") == [b"row", b"more"]


def test_a_closed_producer_is_let_go() -> None:
    """A closed producer without references leaves nothing in memory. Otherwise a program with one producer for each job would grow by half
    a megabyte each time."""

    def alive() -> int:
        gc.collect()
        return sum(isinstance(each, Core | Connection) for each in gc.get_objects())

    before = alive()
    with BrokerStub() as stub:
        for _ in range(2):
            with TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap) as producer, producer.transaction(LIMIT_S) as tx:
                tx.send("t", b"row")
            del producer, tx
        until(alive, "no producer is left", good=lambda count: count <= before)  # the thread may just be ending
