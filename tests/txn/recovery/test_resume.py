"""Ending a prepared transaction with its token: every answer is true, for every caller, however often it asks, and after every fault.

tests/conformance/test_two_phase_on_kafka.py has the answers of real brokers. Here are the faults that only the stub can produce.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from msgspec.structs import replace

from fencepost.broker_stub import BrokerStub, VirtualClock
from fencepost.producer.errors import ConfigError, Fatal, Fenced
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.messages.end_txn import EndTxnRequest
from fencepost.txn.errors import (
    CommitOutcomeUnknown,
    IllegalCall,
    NotPermitted,
    TransactionAborted,
    TransactionCommitted,
    TransactionOpen,
    TransactionTimeout,
)
from fencepost.txn.group_metadata import GroupMetadata
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.recovery.outcome import Outcome, PreparedStatus
from fencepost.txn.recovery.resume import Resumed, resume, resume_async
from fencepost.txn.recovery.token import BadToken, CoordinatorHint, PreparedTransaction
from fencepost.txn.shared.participant import Participant
from tests.fencepost.cli.altered_responses import lying_relay, numbered_0

WAIT_S = 30.0
ASKED_S = 0.3
"""Enough to ask the coordinator, which does not answer."""
TOPIC = "t"
DAY_MS = 86_400_000
PASSWORD = {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": "secret"}


class Site:
    """A stub that one test has, and producers of one id on it."""

    def __init__(self, stub: BrokerStub, version: int) -> None:
        self.stub = stub
        self.version = version

    def producer(self, **settings: Any) -> TransactionalProducer:
        return TransactionalProducer(bootstrap_servers=self.stub.bootstrap, transactional_id="id", linger_ms=0, **settings)

    def prepare(self, *values: bytes, **settings: Any) -> PreparedTransaction:
        """A token of a producer that is closed."""
        with self.producer(on_open_transaction="abort", **settings) as producer, producer.transaction(WAIT_S) as tx:
            for value in values:
                tx.send(TOPIC, value, partition=0)
            return tx.prepare(WAIT_S)

    def resume(self, token: PreparedTransaction, **settings: Any) -> Resumed:
        """As another process has it: from its text."""
        return resume(str(token), self.stub.bootstrap, **settings)

    def another(self, *values: bytes) -> None:
        """A later transaction of the same id, committed."""
        with self.producer(on_open_transaction="abort") as producer, producer.transaction(WAIT_S) as tx:
            for value in values:
                tx.send(TOPIC, value, partition=0)

    def ends(self) -> list[EndTxnRequest]:
        return [exchange.request for exchange in self.stub.journal.requests(Api.END_TXN) if isinstance(exchange.request, EndTxnRequest)]

    def trim(self, offset: int) -> None:
        """Have the log begin there."""
        admin = AdminClient({"bootstrap.servers": self.stub.bootstrap})
        for done in admin.delete_records([TopicPartition(TOPIC, 0, offset)]).values():
            done.result(WAIT_S)


@pytest.fixture(params=[2, 1], ids=["tv2", "tv1"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    with BrokerStub(transaction_version=request.param, clock=VirtualClock()) as stub:
        stub.create_topic(TOPIC)
        yield Site(stub, request.param)


def test_a_commit_with_nothing_but_the_token(site: Site) -> None:
    """Once, and as often as one likes: it is committed, and each answer says so; an abort is told that it comes too late."""
    resumed = site.resume(site.prepare(b"one", b"two"))
    status = resumed.status(WAIT_S)
    assert status.outcome is Outcome.OPEN
    assert site.ends() == []
    first, second = resumed.commit(WAIT_S), resumed.commit(WAIT_S)
    assert (first.outcome, first.already) == (Outcome.COMMITTED, False)
    assert (second.outcome, second.already) == (Outcome.COMMITTED, True)
    assert [marker.offset for marker in second.markers] == [2]
    with pytest.raises(TransactionCommitted, match="commit marker at offset 2"):
        resumed.abort(WAIT_S)
    assert len(site.ends()) == 1
    (end,) = site.stub.journal.requests(Api.END_TXN)
    assert end.version == (5 if site.version == 2 else 4)


def test_an_open_transaction_is_the_coordinators_to_tell_and_to_end(site: Site) -> None:
    """While the coordinator has the transaction open, no log is needed: status and commit work also when the leaders do not answer."""
    resumed = site.resume(site.prepare(b"one"))
    for api in (Api.LIST_OFFSETS, Api.FETCH):
        site.stub.faults.on(api).forever().drop_reply()
    assert resumed.status(5).outcome is Outcome.OPEN
    assert resumed.commit(WAIT_S).outcome is Outcome.COMMITTED


def test_the_first_broker_may_have_the_number_0(site: Site) -> None:
    """It coordinates and leads as any other does: a commit through it is carried out, and found in its log."""
    token = site.prepare(b"one")
    with lying_relay(int(site.stub.bootstrap.rpartition(":")[2]), numbered_0) as address:
        assert resume(str(token), address).commit(WAIT_S).outcome is Outcome.COMMITTED
        site.another(b"later")
        assert [marker.offset for marker in resume(str(token), address).status(WAIT_S).markers] == [1]


def test_an_abort_with_nothing_but_the_token(site: Site) -> None:
    """The token aborts its transaction, any number of times, and each answer says so. A commit is told that it comes too late."""
    resumed = site.resume(site.prepare(b"one"))
    assert resumed.abort(WAIT_S).outcome is Outcome.ABORTED
    assert resumed.abort(WAIT_S).already
    with pytest.raises(TransactionAborted, match="abort marker at offset 1"):
        resumed.commit(WAIT_S)
    assert resumed.status(WAIT_S).outcome is Outcome.ABORTED


@pytest.mark.parametrize("committed", [True, False])
def test_an_old_token_touches_no_later_transaction(site: Site, committed: bool) -> None:
    """FLINK-8132: while a later transaction of the id is open, the old token still says what became of its own, and sends no EndTxn."""
    token = site.prepare(b"old")
    resumed = site.resume(token)
    if committed:
        resumed.commit(WAIT_S)
    site.another(b"between")  # aborts what is open
    with site.producer() as producer, producer.transaction(WAIT_S) as later:
        later.send(TOPIC, b"later", partition=0).result(WAIT_S)
        before = len(site.ends())
        if committed:
            assert resumed.commit(WAIT_S).already
            with pytest.raises(TransactionCommitted):
                resumed.abort(WAIT_S)
        else:
            assert resumed.abort(WAIT_S).already
            with pytest.raises(TransactionAborted):
                resumed.commit(WAIT_S)
        assert len(site.ends()) == before
        later.abort(WAIT_S)


def test_an_old_token_of_a_producer_that_goes_on(site: Site) -> None:
    """The producer that prepared a transaction commits it and begins another. The old token still tells the outcome of its own, and touches
    no other."""
    with site.producer() as producer:
        with producer.transaction(WAIT_S) as tx:
            tx.send(TOPIC, b"old", partition=0)
            token = tx.prepare(WAIT_S)
            tx.commit(WAIT_S)
        later = producer.begin(WAIT_S)
        later.send(TOPIC, b"later", partition=0).result(WAIT_S)
        assert site.resume(token).commit(WAIT_S).already
        assert site.resume(token).status(WAIT_S).outcome is Outcome.COMMITTED
        later.abort(WAIT_S)


def test_after_its_deadline_it_is_aborted(site: Site) -> None:
    """The coordinator aborts the transaction at its deadline, which the token names. A later commit is told this."""
    token = site.prepare(b"late", transaction_timeout_ms=5_000)
    assert token.started_ms is not None
    assert token.deadline_ms == token.started_ms + 5_000
    site.stub.advance(20_000)
    with pytest.raises(TransactionAborted, match="abort marker at offset 1"):
        site.resume(token).commit(WAIT_S)
    assert site.resume(token).status(WAIT_S).outcome is Outcome.ABORTED


@pytest.mark.parametrize("point", ["before", "after_append"])
def test_replies_that_are_lost(site: Site, point: str) -> None:
    """Whether the coordinator carried the commit out before its connection died or never saw it: it is committed in the end, once."""
    token = site.prepare(b"one")
    lost = getattr(site.stub.faults.on(Api.END_TXN), point)().times(2).disconnect()
    assert site.resume(token, retry_backoff_ms=10).commit(WAIT_S).outcome is Outcome.COMMITTED
    assert lost.hits == (2 if point == "before" else 1)
    assert all(end.committed for end in site.ends())


@pytest.mark.parametrize(
    ("call", "outcome"), [(Resumed.commit, Outcome.COMMITTED), (Resumed.abort, Outcome.ABORTED)], ids=["commit", "abort"]
)
def test_a_coordinator_that_never_answers_again(site: Site, call: Callable[..., object], outcome: Outcome) -> None:
    """The end was asked for, so nothing is known at the deadline but which end it was; asked once more, when it can be, there is an
    answer."""
    token = site.prepare(b"one")
    silent = site.stub.faults.on(Api.END_TXN).after_append().forever().drop_reply()
    with pytest.raises(CommitOutcomeUnknown, match=f"asked to {call.__name__}") as unknown:
        while True:
            with contextlib.suppress(TransactionTimeout):  # it was not even asked in that time
                call(site.resume(token), ASKED_S)
    silent.remove()
    with contextlib.nullcontext() if outcome is Outcome.COMMITTED else pytest.raises(TransactionAborted):
        unknown.value.resolve(WAIT_S)
    assert site.resume(token).status(WAIT_S).outcome is outcome


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("asynchronous", [True, False])
def test_an_abort_whose_outcome_is_unknown_at_first(site: Site, committed: bool, asynchronous: bool) -> None:
    """`resolve` means the same after an `abort` as after a `commit`: it returns None if the transaction is committed, here by another
    process, and raises TransactionAborted if it is aborted."""
    token = site.prepare(b"one")
    rule = site.stub.faults.on(Api.END_TXN)
    silent = (rule.before() if committed else rule.after_append()).forever().drop()
    with pytest.raises(CommitOutcomeUnknown) as unknown:
        while True:
            with contextlib.suppress(TransactionTimeout):  # it was not even asked in that time
                if asynchronous:
                    asyncio.run(resume_async(token, site.stub.bootstrap).abort(ASKED_S))
                else:
                    site.resume(token).abort(ASKED_S)
    silent.remove()
    if committed:
        site.resume(token).commit(WAIT_S)

    async def resolve() -> object:
        return await unknown.value.resolve(WAIT_S)

    with contextlib.nullcontext() if committed else pytest.raises(TransactionAborted):
        assert (asyncio.run(resolve()) if asynchronous else unknown.value.resolve(WAIT_S)) is None


def test_a_commit_without_an_answer_decides_nothing(site: Site) -> None:
    """Nothing was asked of the coordinator, so nothing is decided; the error names the call, which goes through later."""
    token = site.prepare(b"one")
    asked = "nothing was asked of the coordinator"
    for call, why in ((Resumed.commit, asked), (Resumed.abort, asked), (Resumed.status, "the outcome was not found")):
        with pytest.raises(TransactionTimeout, match=f"^{call.__name__}: the time passed, and {why}"):
            call(resume(token, "127.0.0.1:1"), 0.3)
    assert resume(token).commit(WAIT_S).outcome is Outcome.COMMITTED  # by the token's own hint


@pytest.mark.parametrize("api", [Api.FIND_COORDINATOR, Api.DESCRIBE_TRANSACTIONS])
@pytest.mark.parametrize(
    ("code", "repeated"), [(ErrorCode.NOT_CONTROLLER, True), (ErrorCode.CORRUPT_MESSAGE, True), (ErrorCode.INVALID_REQUEST, False)]
)
def test_a_code_that_is_no_matter_of_permissions(site: Site, api: Api, code: ErrorCode, repeated: bool) -> None:
    """A retriable code is repeated, and another one is Fatal, as the coordinators' table says. Nothing is decided, and the call succeeds
    later."""
    token = site.prepare(b"one")
    site.stub.faults.on(api).times(1).error(code)
    if not repeated:
        with pytest.raises(Fatal, match=code.name) as refused:
            site.resume(token).commit(WAIT_S)
        assert not isinstance(refused.value, NotPermitted)
    assert site.resume(token).commit(WAIT_S).outcome is Outcome.COMMITTED


@pytest.mark.parametrize("api", [Api.LIST_OFFSETS, Api.FETCH])
@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID])
def test_a_log_that_cannot_be_read_for_a_moment(site: Site, api: Api, code: ErrorCode) -> None:
    """One answer of a broker that has not heard of the topic or the leader yet does not make an outcome unknown for good."""
    token = site.prepare(b"one")
    site.resume(token).commit(WAIT_S)
    site.another(b"two")
    refused = site.stub.faults.on(api).times(1).error(code)
    assert site.resume(token).commit(WAIT_S).outcome is Outcome.COMMITTED
    assert refused.hits == 1


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING])
def test_a_refusal_is_no_outcome(site: Site, code: ErrorCode) -> None:
    """A commit that is answered as fenced, after it was carried out, is committed: the markers say so, not the code."""
    token = site.prepare(b"one")
    site.stub.faults.on(Api.END_TXN).after_append().times(1).error(code)
    assert site.resume(token).commit(WAIT_S).outcome is Outcome.COMMITTED


def test_the_same_refusals_in_the_producers_own_process(site: Site) -> None:
    """A producer that holds a prepared transaction finds out in the same way what became of it."""
    for committed in (True, False):
        with site.producer() as producer:
            tx = producer.begin(WAIT_S)
            tx.send(TOPIC, b"mine", partition=0)
            token = tx.prepare(WAIT_S)
            elsewhere = site.resume(token)
            elsewhere.commit(WAIT_S) if committed else elsewhere.abort(WAIT_S)
            site.another(b"newer")
            if committed:
                tx.commit(WAIT_S)
            else:
                with pytest.raises(TransactionAborted, match="abort marker"):
                    tx.commit(WAIT_S)
            with pytest.raises(Fenced):
                producer.begin(WAIT_S)


@pytest.mark.parametrize("told", [True, False])
def test_a_shared_transaction_that_a_newer_producer_has_aborted(site: Site, told: bool) -> None:
    """Only a participant wrote, and the owner prepared the transaction, with or without the participant's account. Then a newer producer
    registers, which aborts it. The owner's abort says that the transaction is aborted or that its outcome is unknown, and never that it was
    committed."""
    with site.producer() as producer, Participant(bootstrap_servers=site.stub.bootstrap, linger_ms=0) as participant:
        tx = producer.begin(WAIT_S)
        participant.begin(tx.share([(TOPIC, 0)], WAIT_S), WAIT_S)
        participant.send(TOPIC, b"shared", partition=0)
        written = participant.finish(WAIT_S)
        if told:
            tx.returned(written)
        tx.prepare(WAIT_S)
        with site.producer(on_open_transaction="abort") as newer:
            newer.init(WAIT_S)
        if told or site.version >= 2:
            tx.abort(WAIT_S)
        else:
            with pytest.raises(CommitOutcomeUnknown):
                tx.abort(0.5)


def test_the_marker_of_an_earlier_transaction_is_no_evidence(site: Site) -> None:
    """The earlier transaction committed in the same partition, under the same epoch, because of transaction version 1. The token has no
    first offset there. A newer producer has aborted the token's transaction, and the earlier marker is not taken for its commit."""
    with site.producer() as producer, Participant(bootstrap_servers=site.stub.bootstrap, linger_ms=0) as participant:
        with producer.transaction(WAIT_S) as before:
            before.send(TOPIC, b"before", partition=0)
        tx = producer.begin(WAIT_S)
        participant.begin(tx.share([(TOPIC, 0)], WAIT_S), WAIT_S)
        participant.send(TOPIC, b"shared", partition=0)
        participant.finish(WAIT_S)
        token = tx.prepare(WAIT_S)
        with site.producer(on_open_transaction="abort") as newer:
            newer.init(WAIT_S)
        aborted = site.version >= 2
        assert site.resume(token).status(WAIT_S).outcome is (Outcome.ABORTED if aborted else Outcome.UNKNOWN)
        for call in (site.resume(token).commit, tx.commit):
            with pytest.raises(TransactionAborted if aborted else CommitOutcomeUnknown):
                call(WAIT_S)


@pytest.mark.parametrize("committed", [True, False, None])
def test_offsets_alone_after_an_earlier_transaction_of_the_epoch(site: Site, committed: bool | None) -> None:
    """Each transaction of a consumer's program has offsets in the same partition of the group's log, with version 1 under the same epoch:
    the last of them is the token's, whether it was committed, aborted or (None) fenced."""
    with site.producer() as producer:
        with producer.transaction(WAIT_S) as before:
            before.send_offsets({(TOPIC, 0): 1}, GroupMetadata("g"))
        tx = producer.begin(WAIT_S)
        tx.send_offsets({(TOPIC, 0): 2}, GroupMetadata("g"))
        token = tx.prepare(WAIT_S)
        if committed is not None:
            (site.resume(token).commit if committed else site.resume(token).abort)(WAIT_S)
        site.another(b"later")
        assert site.resume(token).status(WAIT_S).outcome is (Outcome.COMMITTED if committed else Outcome.ABORTED)


def test_a_producer_whose_transaction_was_ended_by_another_goes_on(site: Site) -> None:
    """No producer registered in between, so none is fenced. The producer's own commit or abort reports the outcome, and the next
    transaction begins."""
    with site.producer() as producer:
        for committed, event in ((True, "commit"), (False, "commit"), (True, "abort"), (False, "abort")):
            tx = producer.begin(WAIT_S)
            tx.send(TOPIC, b"mine", partition=0)
            elsewhere = site.resume(tx.prepare(WAIT_S))
            elsewhere.commit(WAIT_S) if committed else elsewhere.abort(WAIT_S)
            call = tx.commit if event == "commit" else tx.abort
            if committed is (event == "commit"):
                call(WAIT_S)
            else:
                with pytest.raises(TransactionAborted if event == "commit" else TransactionCommitted):
                    call(WAIT_S)


@pytest.mark.parametrize("after_own", [False, True])
def test_a_coordinator_that_restarts_after_another_process_ended_it(site: Site, after_own: bool) -> None:
    """A coordinator does not write down the previous epoch. The producer continues all the same, and takes no newer producer for the
    reason."""
    for committed, event in ((True, "commit"), (False, "commit"), (True, "abort"), (False, "abort")):
        with site.producer() as producer:
            tx = producer.begin(WAIT_S)
            tx.send(TOPIC, b"mine", partition=0)
            elsewhere = site.resume(tx.prepare(WAIT_S))
            elsewhere.commit(WAIT_S) if committed else elsewhere.abort(WAIT_S)
            if not after_own:
                site.stub.restart_broker(1)
            call = tx.commit if event == "commit" else tx.abort
            if committed is (event == "commit"):
                call(WAIT_S)
            else:
                with pytest.raises(TransactionAborted if event == "commit" else TransactionCommitted):
                    call(WAIT_S)
            if after_own:
                producer.init(WAIT_S)
                site.stub.restart_broker(1)
            with producer.transaction(WAIT_S) as following:
                following.send(TOPIC, b"next", partition=0)
    assert [record.value for record in site.stub.records(TOPIC, 0)] == [b"mine", b"next", b"next", b"mine", b"next", b"next"]


@pytest.mark.parametrize("committed", [True, False])
def test_a_commit_without_a_token_that_was_fenced_after_a_lost_reply(site: Site, committed: bool) -> None:
    """The transaction was not prepared. The connection of the commit was lost, and the next attempt is answered as fenced. The log shows
    whether the first attempt was carried out: `resolve` finds it there, and so does another commit."""
    faults = site.stub.faults
    lost = faults.on(Api.END_TXN)
    (lost.after_append() if committed else lost.before()).times(1).disconnect()
    faults.on(Api.END_TXN).before().on_call(2).error(ErrorCode.PRODUCER_FENCED)
    with site.producer() as producer:
        tx = producer.begin(WAIT_S)
        tx.send(TOPIC, b"mine", partition=0)
        with pytest.raises(CommitOutcomeUnknown) as unknown:
            tx.commit(WAIT_S)
        if not committed:
            with pytest.raises(CommitOutcomeUnknown, match="has it open"):
                unknown.value.resolve(WAIT_S)
        site.another(b"newer")
        if committed:
            unknown.value.resolve(WAIT_S)
            tx.commit(WAIT_S)
        else:
            for call in (unknown.value.resolve, tx.commit):
                with pytest.raises(Fenced):
                    call(WAIT_S)


def test_a_commit_answered_with_an_error_after_it_was_written(site: Site) -> None:
    """The coordinator has the commit in its log and answers with an unexpected code. The outcome is unknown until the log shows it."""
    site.stub.faults.on(Api.END_TXN).after_append().error(ErrorCode.INVALID_REQUEST)
    with site.producer() as producer:
        tx = producer.begin(WAIT_S)
        tx.send(TOPIC, b"mine", partition=0)
        with pytest.raises(CommitOutcomeUnknown) as unknown:
            tx.commit(WAIT_S)
        site.stub.faults.on(Api.DESCRIBE_TRANSACTIONS).error(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        with pytest.raises(CommitOutcomeUnknown, match="could not be asked"):
            unknown.value.resolve(WAIT_S)
        unknown.value.resolve(WAIT_S)
        with pytest.raises(TransactionCommitted):
            tx.abort(WAIT_S)


@pytest.mark.parametrize("answered", [True, False])
def test_a_token_whose_commit_may_have_been_carried_out(site: Site, answered: bool) -> None:
    """The coordinator was asked. Then the client lost its permission, or got an unexpected code. The error does not say that nothing was
    done, and the next call finds the outcome."""
    faults = site.stub.faults
    token = site.prepare(b"one")
    if answered:
        faults.on(Api.END_TXN).after_append().error(ErrorCode.INVALID_REQUEST)
    else:
        faults.on(Api.END_TXN).after_append().disconnect()
        faults.on(Api.DESCRIBE_TRANSACTIONS).on_call(2).error(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with pytest.raises(CommitOutcomeUnknown, match="may have done so") as unknown:
        site.resume(token).commit(WAIT_S)
    unknown.value.resolve(WAIT_S)
    with pytest.raises(TransactionCommitted):
        site.resume(token).abort(WAIT_S)


def test_a_token_that_may_not_be_used(site: Site) -> None:
    """Refused before anything was done, it says so."""
    token = site.prepare(b"one")
    site.stub.faults.on(Api.END_TXN).before().error(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with pytest.raises(NotPermitted):
        site.resume(token).commit(WAIT_S)
    assert site.resume(token).abort(WAIT_S).outcome is Outcome.ABORTED


def test_an_outcome_that_is_asked_for_after_close(site: Site) -> None:
    """The error leaves the producer's block, which waits for the commit: `resolve` tells what came of it, although that is closed."""
    slow = site.stub.faults.on(Api.END_TXN).reply().hold()
    with pytest.raises(CommitOutcomeUnknown) as unknown, site.producer() as producer:
        tx = producer.begin(WAIT_S)
        tx.send(TOPIC, b"mine", partition=0)
        try:
            tx.commit(0.3)
        finally:
            slow.remove()
    unknown.value.resolve(WAIT_S)
    assert [record.value for record in site.stub.records(TOPIC, 0)] == [b"mine"]


def test_an_outcome_that_is_asked_for_after_close_has_given_up(site: Site) -> None:
    """`close` timed out without an answer. The next call asks the coordinator and reads the log."""
    site.stub.faults.on(Api.END_TXN).after_append().drop().forever()
    producer = site.producer()
    tx = producer.begin(WAIT_S)
    tx.send(TOPIC, b"mine", partition=0)
    with pytest.raises(CommitOutcomeUnknown) as unknown:
        tx.commit(0.3)
    producer.close(0.1)
    unknown.value.resolve(WAIT_S)


def test_an_outcome_that_is_asked_for_in_the_next_transaction(site: Site) -> None:
    """The response arrived while no caller waited, and the next transaction is open. The caller gets the outcome, and the open transaction
    goes on."""
    slow = site.stub.faults.on(Api.END_TXN).reply().hold()
    with site.producer() as producer:
        tx = producer.begin(WAIT_S)
        tx.send(TOPIC, b"one", partition=0)
        with pytest.raises(CommitOutcomeUnknown) as unknown:
            tx.commit(0.3)
        slow.remove()
        tx.commit(WAIT_S)
        following = producer.begin(WAIT_S)
        unknown.value.resolve(WAIT_S)
        following.send(TOPIC, b"two", partition=0)
        following.commit(WAIT_S)
    assert [record.value for record in site.stub.records(TOPIC, 0)] == [b"one", b"two"]


def test_a_log_that_lost_the_marker(site: Site) -> None:
    """Records and marker were deleted, and another producer has the id. The outcome is unknown, and the answer says so."""
    token = site.prepare(b"one")
    site.resume(token).commit(WAIT_S)
    site.another(b"later")
    site.another(b"later")
    site.trim(2)
    resumed = site.resume(token)
    status = resumed.status(WAIT_S)
    assert status.outcome is Outcome.UNKNOWN
    for call in (resumed.commit, resumed.abort):
        with pytest.raises(CommitOutcomeUnknown, match="can no longer be found out"):
            call(WAIT_S)
    site.stub.delete_topic(TOPIC)
    assert "no such partition" in resumed.status(WAIT_S).why


def test_a_marker_that_may_be_of_another_transaction(site: Site) -> None:
    """The log begins after the first record, with an abort of the epoch that a fence brings and the next producer has: with version 1 it
    may be either's, and is not taken for an answer; with version 2 no other transaction ends with it."""
    token = site.prepare(b"one")
    with site.producer(on_open_transaction="abort") as producer:
        producer.init(WAIT_S)  # fences the prepared one and aborts it
        site.trim(1)  # what is left is the marker
        status = site.resume(token).status(WAIT_S)
    assert status.outcome is (Outcome.ABORTED if site.version == 2 else Outcome.UNKNOWN)


def answered_status(resumed: Resumed) -> PreparedStatus:
    """Ask for the status until the brokers answer within a second."""
    while True:
        with contextlib.suppress(TransactionTimeout):
            return resumed.status(1.0)


def test_partitions_that_cannot_be_asked() -> None:
    """Where a broker is away, the coordinator's word is enough, and later one marker; what is missing is named where both are."""
    with BrokerStub(brokers=3, clock=VirtualClock()) as stub:
        stub.create_topic(TOPIC, partitions=3, replication_factor=1)
        Site(stub, 2).another()  # the coordinators' topic comes into being
        away = stub.leader(TOPIC, 0)
        name = next(name for name in map(str, range(100)) if stub.services.transactions.leader_of(name, away) != away)
        with TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id=name, linger_ms=0) as producer:
            tx = producer.begin(WAIT_S)
            tx.send(TOPIC, b"one", partition=0)
            token = tx.prepare(WAIT_S)
            tx.commit(WAIT_S)
        stub.stop_broker(away)
        resumed = resume(token, stub.bootstrap)
        assert resumed.commit(WAIT_S).already
        with TransactionalProducer(bootstrap_servers=stub.bootstrap, transactional_id=name) as producer:
            producer.init(WAIT_S)
        status = answered_status(resumed)
        assert status.outcome is Outcome.UNKNOWN
        assert "t-0: it has no leader at the moment" in status.why


def test_a_quota_that_holds_the_markers_back() -> None:
    """A broker that has been asked for too much answers without the partition: that is no outcome, and said; asked again it is one."""
    with BrokerStub() as stub:
        stub.create_topic(TOPIC)
        site = Site(stub, 2)
        token = site.prepare(b"one")
        site.resume(token).commit(WAIT_S)
        site.another(b"two")  # the coordinator has another transaction to tell of
        resumed = site.resume(token, client_id="greedy")
        stub.quota(client_id="greedy", consumer_byte_rate=1)
        status = answered_status(resumed)
        assert status.outcome is Outcome.UNKNOWN
        assert "t-0 cannot be read at the moment: the broker delays answers for a quota" in status.why
        stub.quota(client_id="greedy", consumer_byte_rate=None)
        assert resumed.status(WAIT_S).outcome is Outcome.COMMITTED


def test_an_id_that_expired(site: Site) -> None:
    """The coordinator has forgotten the id, and the marker is still there: the outcome is known."""
    with BrokerStub(
        transaction_version=site.version, clock=VirtualClock(), config={"transactional.id.expiration.ms": DAY_MS, "log.retention.ms": -1}
    ) as stub:
        stub.create_topic(TOPIC)
        forgetful = Site(stub, site.version)
        token = forgetful.prepare(b"one")
        resumed = forgetful.resume(token)
        resumed.commit(WAIT_S)
        stub.advance(3 * DAY_MS)
        status = resumed.commit(WAIT_S)
        assert (status.outcome, status.already) == (Outcome.COMMITTED, True)


def test_a_coordinator_that_restarts(site: Site) -> None:
    """What it has of the transaction is in its log, to the millisecond: the token is of this very transaction afterwards, too."""
    token = site.prepare(b"one")
    site.stub.restart_broker(1, clean=False)
    assert site.resume(token).status(WAIT_S).outcome is Outcome.OPEN
    assert site.resume(token).commit(WAIT_S).outcome is Outcome.COMMITTED
    assert [marker.offset for marker in site.resume(token).status(WAIT_S).markers] == [1]


def test_another_cluster(site: Site) -> None:
    """A token is of one cluster, and says so where another one is asked."""
    token = site.prepare(b"one")
    with BrokerStub(cluster_id="another") as other, pytest.raises(BadToken, match="bootstrap_servers lead to cluster 'another'"):
        resume(token, other.bootstrap).commit(WAIT_S)


@pytest.mark.parametrize(
    "given",
    [{"security_protocol": "SASL_PLAINTEXT", **PASSWORD}, {"security.protocol": "SASL_SSL", **PASSWORD}, {"security_protocol": "SSL"}],
)
def test_a_forged_token_learns_nothing(site: Site, given: dict[str, Any]) -> None:
    """The author of a token chooses the coordinator that it names. The client does not log in or connect to this address. If a client has
    to authenticate itself or the broker, the caller has to give the cluster's addresses, and only these are asked."""
    token = site.prepare(b"one")
    with socket.create_server(("127.0.0.1", 0)) as thief:
        thief.setblocking(False)
        forged = replace(token, coordinator=CoordinatorHint(1, *thief.getsockname()))
        with pytest.raises(ConfigError, match=r"bootstrap_servers .* is missing, and security_protocol is"):
            resume(str(forged), **given)
        with pytest.raises(ConfigError, match="a token may be forged"):
            resume_async(forged, **given)
        assert resume(forged, site.stub.bootstrap).commit(WAIT_S).outcome is Outcome.COMMITTED
        with pytest.raises(BlockingIOError):
            thief.accept()


def test_an_empty_transaction(site: Site) -> None:
    """FLINK-31363: an empty transaction can be prepared, and its end needs no request."""
    token = site.prepare()
    assert not token.wrote
    resumed = resume(str(token), "127.0.0.1:1")
    for call in (resumed.commit, resumed.abort, resumed.status, resumed.commit):
        assert call(WAIT_S).outcome is Outcome.NOTHING_WRITTEN
    with pytest.raises(BadToken, match="names no coordinator"):
        resume(token)
    assert site.ends() == []


# -- what leaves a prepared transaction alone ----------------------------------------------------------------------------


def test_leaving_the_block_with_an_exception(site: Site) -> None:
    """After `prepare` only the token decides, also where something else goes wrong in the block."""
    with site.producer() as producer:
        with pytest.raises(ZeroDivisionError), producer.transaction(WAIT_S) as tx:
            tx.send(TOPIC, b"one", partition=0)
            token = tx.prepare(WAIT_S)
            raise ZeroDivisionError
        with pytest.raises(IllegalCall, match="in a prepared transaction; what can be called now: commit, abort, prepare"):
            producer.begin(WAIT_S)
        assert producer.prepare(WAIT_S) == token
    assert site.resume(token).status(WAIT_S).outcome is Outcome.OPEN


def test_collection_aborts_nothing(site: Site) -> None:
    """A prepared transaction stays open when the garbage collector removes its producer."""
    producer = site.producer()
    tx = producer.begin(WAIT_S)
    tx.send(TOPIC, b"one", partition=0)
    token = tx.prepare(WAIT_S)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        del producer, tx
        gc.collect()
    assert site.resume(token).commit(WAIT_S).outcome is Outcome.COMMITTED


def test_the_end_of_the_process_aborts_nothing(site: Site) -> None:
    """It exits without closing anything; the token is all that is left."""
    program = (
        "import sys; from fencepost.txn import TransactionalProducer\n"
        "tx = TransactionalProducer(bootstrap_servers=sys.argv[1], transactional_id='id').begin(30)\n"
        f"tx.send({TOPIC!r}, b'one', partition=0); print(tx.prepare(30))"
    )
    command = [sys.executable, "-c", program, site.stub.bootstrap]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert site.resume(PreparedTransaction.loads(ran.stdout)).commit(WAIT_S).outcome is Outcome.COMMITTED


def test_the_same_id_is_not_opened_again_by_the_way(site: Site) -> None:
    """A second producer of the process is refused while the token waits, one that says so aborts it."""
    token = site.prepare(b"one")
    with site.producer() as producer:
        with pytest.raises(TransactionOpen, match="resume"):
            producer.begin(WAIT_S)
        site.resume(token).commit(WAIT_S)
        with producer.transaction(WAIT_S) as tx:
            tx.send(TOPIC, b"two", partition=0)
    second = site.prepare(b"three")
    with site.producer(on_open_transaction="abort") as producer:
        producer.init(WAIT_S)
    assert site.resume(second).status(WAIT_S).outcome is Outcome.ABORTED


@pytest.mark.parametrize(("make", "name"), [(resume, "Resumed"), (resume_async, "AsyncResumed")], ids=["Resumed", "AsyncResumed"])
def test_it_shows_its_transaction(site: Site, make: Callable[..., object], name: str) -> None:
    """The repr names the class, and the transaction as the token's own repr does."""
    token = site.prepare(b"one")
    assert repr(make(token, site.stub.bootstrap)) == f"{name}({token!r})"


def test_on_a_running_loop(site: Site) -> None:
    """The calls wait, and work all the same where a loop is running."""
    token = site.prepare(b"one")

    async def commit() -> Outcome:
        return site.resume(token).commit(WAIT_S).outcome

    assert asyncio.run(commit()) is Outcome.COMMITTED
