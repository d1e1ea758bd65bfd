"""The transactional producer as callers hold it, as far as no coordinator is needed; the rest is tried on a real Kafka (conformance)."""

from __future__ import annotations

import contextlib
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fencepost import build_info
from fencepost.broker_stub import BrokerStub
from fencepost.producer.errors import (
    ConfigError,
    DeliveryTimeout,
    FencepostError,
    Misuse,
    Persisted,
    ProducerClosed,
    RecordRefused,
    TopicUnavailable,
)
from fencepost.producer.wire import Api, ErrorCode
from fencepost.txn.config.settings import read_transaction_settings
from fencepost.txn.coordinator.inner_producer import NoTransaction
from fencepost.txn.coordinator.rerun_policy import worth_another
from fencepost.txn.coordinator.send_admission import NO_TRANSACTION
from fencepost.txn.coordinator.state_machine import Event, State
from fencepost.txn.errors import CommitOutcomeUnknown, IllegalCall, MustAbort, TransactionTimeout
from fencepost.txn.foundations.call_outcome import CallOutcome
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.transaction import Transaction
from tests.later import Jump, jump
from tests.txn.stub_helpers import ends
from tests.waiting import until

__all__ = ["jump"]

NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "transactional_id is missing"),
        ({"transactional_id": ""}, "transactional_id='': must be a non-empty text"),
        ({"transactional.id": 7}, "transactional_id=7: must be a non-empty text"),
        ({"transactional_id": "\u00e9" * 16_384}, "transactional_id='\u00e9+: Kafka's protocol takes at most 32767 bytes"),
        ({"transactional.id": "a", "transactional_id": "b"}, "transactional_id is set twice"),
        ({"transactional_id": "a", "transaction_timeout_ms": 0}, "transaction_timeout_ms=0: a whole number of milliseconds from 1"),
        ({"transactional_id": "a", "transaction.timeout.ms": 1.5}, "transaction_timeout_ms=1.5"),
        (
            {"transactional_id": "a", "on_open_transaction": "keep"},
            "on_open_transaction='keep': one of 'abort_unprepared', 'abort', 'refuse'",
        ),
        ({"transactional_id": "a", "prepared": 7}, "prepared: tokens of prepared transactions"),
        ({"transactional_id": "a\ud800"}, "transactional_id='a.ud800' cannot be encoded as UTF-8: surrogates not allowed"),
        ({"transactional_id": "a", "existing_topics": "t"}, r"existing_topics='t': a single name: write \[name\]"),
        ({"transactional_id": "a", "existing_topics": 5}, "existing_topics=5: a list of topics' names"),
        ({"transactional_id": "a", "existing_topics": [5]}, r"existing_topics=\[5\]: a list of topics' names"),
        ({"transactional_id": "a", "existing_topics": b"t"}, "existing_topics=b't': a list of topics' names"),
        ({"transactional_id": "a", "prepared": "{}"}, "prepared: .* a JSON object with a field"),
        (
            {"transactional_id": "a", "transaction.two.phase.commit.enable": "yes"},
            "transaction_two_phase_commit_enable='yes': True or False",
        ),
        ({"transactional_id": "a", "acks": 1}, "a transaction needs acks=all"),
        ({"transactional_id": "a", "lingerms": 1}, "unknown setting 'lingerms'"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], words: str) -> None:
    """Each is refused with its name, its value and what it may be, in either spelling."""
    with pytest.raises(ConfigError, match=words):
        TransactionalProducer(settings, bootstrap_servers=NOWHERE)


def test_the_longest_transactional_id() -> None:
    """The producer takes every id that Kafka's protocol takes: bytes count, not characters."""
    name = "\u00e9" * 16_383 + "a"
    with TransactionalProducer(bootstrap_servers=NOWHERE, transactional_id=name) as producer:
        assert producer.transactional_id == name


def test_nothing_is_sent_outside_a_transaction() -> None:
    """A record without a transaction is refused at once, before there is any connection; so are its ends."""
    with TransactionalProducer(bootstrap_servers=NOWHERE, transactional_id="a") as producer:
        with pytest.raises(NoTransaction):
            producer.send("t", b"row")
        with pytest.raises(NoTransaction):
            producer.transaction().send("t", b"row")
        for call in (producer.commit, producer.abort):
            with pytest.raises(IllegalCall, match="what can be called now: init, begin"):
                call(5)


def test_a_closed_producer_says_so() -> None:
    """A record after `close` is refused with ProducerClosed. NoTransaction would ask the caller to begin a transaction."""
    producer = TransactionalProducer(bootstrap_servers=NOWHERE, transactional_id="a")
    producer.close(5)
    with pytest.raises(ProducerClosed):
        producer.send("t", b"row")


@pytest.mark.parametrize(
    ("error", "left", "before", "accepts"),
    [
        (None, False, NO_TRANSACTION, True),
        (ValueError(), False, NO_TRANSACTION, False),
        (None, True, NO_TRANSACTION, False),
        (None, False, ProducerClosed("closed"), False),
    ],
)
def test_records_are_accepted_once_a_transaction_has_begun(
    error: Exception | None, left: bool, before: FencepostError, accepts: bool
) -> None:
    """A producer refuses records if `begin` failed, if its caller left it, or if the producer was closed meanwhile."""
    with TransactionalProducer(bootstrap_servers=NOWHERE, transactional_id="a") as producer:
        accumulator, call = producer._inner._accumulator, producer._inner.admission.call(Event.BEGIN, 30)
        accumulator.refusal = before
        if left:
            call.outcome.cancel()
        call.finish(error)
        assert accumulator.refusal is (None if accepts else before)


def test_a_call_ends_at_its_deadline_and_can_be_made_again() -> None:
    """Without a broker init and begin end in time, say why, and a broker that comes later is found."""
    with TransactionalProducer(bootstrap_servers=NOWHERE, transactional_id="a") as producer:
        for call in (producer.init, producer.begin):
            with pytest.raises(TransactionTimeout, match="asking the coordinator for an identity"):
                call(0.05)


def test_a_transaction_with_nothing_in_it() -> None:
    """It begins and ends without an EndTxn, as often as one likes; the next can be begun from another thread."""
    with BrokerStub() as stub, TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a") as producer:
        producer.init(30)
        for _ in range(3):
            with producer.transaction(30):
                pass
        with pytest.raises(KeyError), producer.transaction(30):
            raise KeyError
        begun: list[object] = []
        thread = threading.Thread(target=lambda: begun.append(producer.begin(30)))
        thread.start()
        thread.join(30)
        assert begun
        producer.abort(30)
        assert stub.journal.requests(Api.END_TXN) == []


@pytest.mark.parametrize("error", [None, ZeroDivisionError()], ids=["", "error"])
@pytest.mark.parametrize(
    ("call", "ended"),
    [(Transaction.commit, [True]), (Transaction.abort, [False]), (Transaction.prepare, []), (TransactionalProducer.prepare, [])],
    ids=lambda given: getattr(given, "__qualname__", ""),
)
def test_a_transaction_that_is_ended_or_prepared_in_its_block(
    caplog: pytest.LogCaptureFixture, call: Callable[..., object], ended: list[bool], error: Exception | None
) -> None:
    """What the caller decided in the block stands when the block is left, also by an exception; the end of the block asks for nothing more,
    and complains of nothing."""
    with BrokerStub() as stub, TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a") as producer:
        with contextlib.nullcontext() if error is None else pytest.raises(type(error)), producer.transaction(30) as tx:
            tx.send("t", b"row").result(30)
            call(producer if call is TransactionalProducer.prepare else tx, 30)
            if error is not None:
                raise error
        assert ends(stub) == ended
        if not ended:
            producer.abort(30)
        assert ends(stub) == (ended or [False])
    assert not caplog.records


def test_a_transaction_object_is_of_one_transaction() -> None:
    """What was kept of an old transaction sends nothing into the next one, and ends it neither."""
    with BrokerStub() as stub, TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a") as producer:
        old = producer.begin(30)
        old.commit(30)
        producer.begin(30)
        with pytest.raises(NoTransaction):
            old.send("t", b"row")
        with pytest.raises(IllegalCall):
            old.abort(30)
        with pytest.raises(IllegalCall, match=r"begin: the producer is in a transaction; what can be called now: commit, abort"):
            producer.begin(30)
        producer.abort(30)


def test_an_end_where_no_transaction_is_open() -> None:
    """The producer's own calls end only the open transaction. If none is open, a caller that commits an aborted one is not told that it is
    committed, for all outcomes of earlier transactions."""
    with BrokerStub() as stub, TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a") as producer:
        for end in (producer.commit, producer.abort):
            producer.begin(30).send("t", b"row")
            end(30)
            for call in (producer.commit, producer.abort, producer.prepare):
                with pytest.raises(IllegalCall, match="the producer is between transactions"):
                    call(30)


def test_an_end_of_a_transaction_that_is_over_leaves_the_open_one_alone() -> None:
    """Every call that ends a transaction, made again through the object of an earlier one, is told what became of that, and the transaction
    that is open takes records as before."""
    with BrokerStub() as stub, TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a") as producer:
        old = producer.begin(30)
        old.send("t", b"old")
        old.commit(30)
        tx = producer.begin(30)
        for call in (old.abort, old.prepare):
            with pytest.raises(IllegalCall, match="the transaction has been committed"):
                call(30)
            tx.send("t", b"row")
        old.commit(30)
        tx.send("t", b"row")
        tx.commit(30)
        assert [record.value for record in stub.records("t", 0)] == [b"old", *[b"row"] * 3]


def test_a_send_of_one_transaction_never_goes_on_in_the_next() -> None:
    """A commit is not waited for any more and ends by itself, while a `send_many` of that transaction is still at it: the next transaction
    begins when it is out."""
    release, inside, told = threading.Event(), threading.Event(), []

    def rows() -> Iterator[bytes]:
        inside.set()
        release.wait(30)
        yield b"late"

    def bulk(tx: Transaction) -> None:
        with pytest.raises(NoTransaction):
            tx.send_many("t", rows())
        told.append("refused")

    with BrokerStub() as stub, TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a", linger_ms=0) as producer:
        first = producer.begin(30)
        first.send("t", b"one").result(30)
        thread = threading.Thread(target=bulk, args=(first,))
        thread.start()
        assert inside.wait(30)
        slow = stub.faults.on(Api.END_TXN).reply().hold()
        with pytest.raises(CommitOutcomeUnknown):
            producer.commit(0.1)
        slow.remove()
        until(lambda: producer._manager.machine.state is State.READY, "the commit is answered")
        with pytest.raises(TransactionTimeout, match="has not returned"):
            producer.begin(0.1)
        release.set()
        thread.join(30)
        assert told == ["refused"]
        with producer.transaction(30) as second:
            second.send("t", b"two")
        assert [record.value for record in stub.records("t", 0)] == [b"one", b"two"]


@pytest.mark.parametrize("call", ["commit", "abort", "prepare"])
def test_a_call_ends_in_time_while_a_callback_blocks_the_sender(call: str) -> None:
    """The sender thread cannot answer before the callback returns. The caller gets an error that says so two seconds after its timeout,
    nothing is decided, and the transaction can be ended afterwards."""
    release = threading.Event()
    with BrokerStub() as stub, TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a", linger_ms=0) as producer:
        try:
            tx = producer.begin(30)
            tx.send("t", b"row", on_delivery=lambda *_: release.wait(60)).result(30)
            began = time.monotonic()
            with pytest.raises(TransactionTimeout, match=f"^{call}: .* a delivery callback has not returned"):
                getattr(tx, call)(0.1)
            assert time.monotonic() - began < 20
        finally:
            release.set()
        tx.abort(30)
        assert producer.begin(30) is not tx


def test_a_call_of_a_process_that_stood_still(jump: Jump, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call's time passes while no thread runs. The caller still hears why nothing was decided, and not that a callback has not
    returned."""
    release, waits, stood_still = threading.Event(), threading.Event(), threading.Event()
    wait = CallOutcome.wait

    def goes_on(outcome: CallOutcome[object], limit_s: float) -> bool:
        if stood_still.is_set() and not release.is_set():
            release.set()
            limit_s += 60.0
        waits.set()
        return wait(outcome, limit_s)

    with BrokerStub() as stub, TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a", linger_ms=0) as producer:
        tx = producer.begin(30)
        tx.send("t", b"row", on_delivery=lambda *_: release.wait(60)).result(30)
        monkeypatch.setattr(CallOutcome, "wait", goes_on)
        with ThreadPoolExecutor(1) as pool:
            calling = pool.submit(tx.abort, 30.0)
            assert waits.wait(60)
            stood_still.set()
            jump(40_000)
            error = calling.exception(60)
        assert isinstance(error, TransactionTimeout)
        assert "has not returned" not in str(error), error
        tx.abort(30)


@pytest.mark.skipif(build_info().compiled, reason="a compiled method cannot be replaced: the uncompiled run does it")
@pytest.mark.parametrize("answered", [True, False])
def test_a_block_whose_commit_was_asked_for_as_its_time_passed(monkeypatch: pytest.MonkeyPatch, answered: bool) -> None:
    """The time of the block's commit passes while records are on their way, and before the abort the last of them arrives and the
    coordinator is asked to commit: the block ends as that does, and never says that it was too late where it is committed."""
    with BrokerStub() as stub, TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a", linger_ms=0) as producer:
        slow = stub.faults.on(Api.PRODUCE).reply().hold()
        unheard = None if answered else stub.faults.on(Api.END_TXN).reply().hold()

        def time_to_leave(error: BaseException | None) -> float | None:
            slow.remove()
            asked = State.READY if answered else State.COMMITTING
            until(lambda: producer._manager.machine.state is asked, "the coordinator is asked to commit")
            return 30

        producer.init(30)
        producer.partitions_for("t", 30)
        monkeypatch.setattr(producer._inner, "time_to_leave", time_to_leave)
        if unheard is None:
            with producer.transaction(0.2) as tx:
                tx.send("t", b"row")
        else:
            with pytest.raises(CommitOutcomeUnknown) as unknown, producer.transaction(0.2) as tx:
                tx.send("t", b"row")
            until(lambda: unheard.hits == 1, "the answer is held")
            unheard.release()
            unknown.value.resolve(30)
        monkeypatch.undo()
        assert [record.value for record in stub.records("t", 0)] == [b"row"]


def test_work_that_has_committed_is_not_done_again() -> None:
    """`run` repeats what was aborted: work that committed by itself, and then heard of a failure elsewhere, is done."""
    done = 0

    def work(tx: Transaction) -> None:
        nonlocal done
        done += 1
        tx.send("t", b"%d" % done)
        tx.commit(30)
        raise DeliveryTimeout("another producer's record", topic="u", partition=0, persisted=Persisted.MAYBE)

    with BrokerStub() as stub, TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a") as producer:
        with pytest.raises(DeliveryTimeout):
            producer.run(work, timeout=30)
        assert [record.value for record in stub.records("t", 0)] == [b"1"]


def test_work_of_which_nothing_has_run_is_not_committed() -> None:
    """A coroutine function and a generator function only make what would do the work: Misuse, not a commit without it."""

    async def coroutine(tx: Transaction) -> None:
        tx.send("t", b"row")

    def generator(tx: Transaction) -> Iterator[int]:
        tx.send("t", b"row")
        yield 1

    with BrokerStub() as stub, TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a") as producer:
        for work in (coroutine, generator):
            with pytest.raises(Misuse, match=r"function, so its body has not run"):
                producer.run(work, timeout=30)
        assert list(producer.run(lambda tx: (each for each in [tx.send("t", b"lazy").result(30).offset]), timeout=30)) == [0]


def test_a_timeout_that_is_no_number() -> None:
    """A wait of NaN seconds would never end, so each call refuses it at once."""
    with TransactionalProducer(bootstrap_servers=NOWHERE, transactional_id="a") as producer:
        for call in (producer.init, producer.begin, producer.commit, producer.abort, producer.prepare):
            with pytest.raises(ValueError, match="timeout=nan"):
                call(float("nan"))


def test_a_closed_producer() -> None:
    """Every call says that it is closed; closing again does nothing, and an open transaction was given up."""
    with BrokerStub() as stub:
        producer = TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a")
        tx = producer.begin(30)
        producer.close(30)
        producer.close()
        for call in (producer.begin, producer.commit, producer.init):
            with pytest.raises(ProducerClosed):
                call(1)
        with pytest.raises((ProducerClosed, NoTransaction)):
            tx.send("t", b"row")


def test_one_commit_among_threads() -> None:
    """Many threads commit one transaction: none hangs, each hears of the commit or that the transaction is over."""
    with BrokerStub() as stub, TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a") as producer:
        tx = producer.begin(30)
        heard: list[BaseException | None] = []

        def commit() -> None:
            try:
                tx.commit(30)
                heard.append(None)
            except IllegalCall as error:
                heard.append(error)

        threads = [threading.Thread(target=commit) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(heard) == 8
        assert None in heard


def test_an_abort_that_fails_hides_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """What left the block is what the caller gets, also where the producer cannot abort any more; that is logged."""
    with BrokerStub() as stub, TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a") as producer:
        with pytest.raises(ZeroDivisionError), producer.transaction(30):
            producer._inner._sender.stop(ProducerClosed("gone"))
            raise ZeroDivisionError
        assert "not aborted after ZeroDivisionError()" in caplog.text


def refused(code: int) -> RecordRefused:
    return RecordRefused("no", topic="t", partition=0, persisted=Persisted.NO, code=code)


def test_what_is_worth_another_attempt() -> None:
    """What the broker says of the record itself will be said again; everything else may pass."""
    late = DeliveryTimeout("late", topic="t", partition=0, persisted=Persisted.NO)
    assert worth_another(MustAbort("x"))
    assert worth_another(MustAbort("x", late))
    assert worth_another(late)
    assert worth_another(refused(ErrorCode.TRANSACTION_ABORTABLE))
    assert not worth_another(MustAbort("x", refused(ErrorCode.MESSAGE_TOO_LARGE)))


def test_errors_travel() -> None:
    """Pickled and unpickled they say the same; an outcome that is unknown stays so in a process that cannot ask."""
    late = refused(ErrorCode.INVALID_RECORD)
    copied = pickle.loads(pickle.dumps(MustAbort("why", late)))
    assert (copied.reason, str(copied.cause)) == ("why", str(late))
    unknown = pickle.loads(pickle.dumps(CommitOutcomeUnknown("what")))
    with pytest.raises(CommitOutcomeUnknown, match="what"):
        unknown.resolve(time.monotonic())


@pytest.mark.parametrize("given", [{"t": 1}.keys(), (name for name in ["t"]), deque(["t"]), {"t"}])
def test_existing_topics_in_any_iterable(given: Any) -> None:
    """What the keyword's type promises is taken."""
    ours, _ = read_transaction_settings({"transactional_id": "a", "existing_topics": given})
    assert ours.existing_topics == ("t",)


def test_a_topic_that_is_not_to_be_created() -> None:
    """`existing_topics` are not created when they are sent to, where others are."""
    settings: dict[str, Any] = {"transactional_id": "a", "existing_topics": ["kept"], "max_block_ms": 2_000}
    with BrokerStub() as stub, TransactionalProducer(bootstrap_servers=stub.bootstrap, **settings) as producer:
        producer.init(20)
        with producer.transaction(20) as tx:
            tx.send("made", b"x").result(20)
            with pytest.raises(TopicUnavailable, match="kept"):
                tx.send("kept", b"x")
        stub.create_topic("kept")
        with producer.transaction(20) as tx:
            tx.send("kept", b"x").result(20)


def test_the_cause_of_must_abort() -> None:
    """The delivery that failed is the error's `cause` and its `__cause__`, so a traceback shows it; also after a pickle."""
    with BrokerStub() as stub, TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id="a") as producer:
        producer.begin(20)
        stub.faults.on(Api.PRODUCE).before().error(ErrorCode.INVALID_RECORD)
        failed = producer.send("t", b"x").exception(20)
        with pytest.raises(MustAbort) as raised:
            producer.commit(20)
        producer.abort(20)
    assert failed is not None
    for error in (raised.value, pickle.loads(pickle.dumps(raised.value))):
        assert isinstance(error.__cause__, RecordRefused)
        assert error.__cause__ is error.cause
        assert str(error.__cause__) == str(failed)
