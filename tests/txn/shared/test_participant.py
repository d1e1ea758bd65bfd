"""Sharing as callers see it, on the stub: what several participants write is one transaction, and a process without the right to
write is refused."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.broker_stub.faults.rules import Fault
from fencepost.producer.accumulator.batch import RecordFuture
from fencepost.producer.errors import ConfigError, Fenced, FencepostError, Misuse, ProducerClosed, RecordTooLarge
from fencepost.producer.wire import Api, ErrorCode
from fencepost.producer.wire.messages.add_to_txn import AddPartitionsToTxnRequest
from fencepost.txn.errors import DeliveryAborted, MustAbort, TransactionTimeout
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.shared.participant import NoParticipation, Participant, ParticipationEnded
from fencepost.txn.shared.participation import BadParticipation, Participation, Written
from fencepost.txn.shared.shared_identity import NotShared
from fencepost.txn.shared.shared_partitions import NotReturned, NotShareable
from fencepost.txn.transaction import Transaction
from tests.later import Jump, jump
from tests.producer.stub_helpers import QUICK
from tests.reading import read_values
from tests.txn.stub_helpers import LIMIT_S, ends
from tests.waiting import until

__all__ = ["jump"]

PARTITIONS = 4
TPS = [("t", partition) for partition in range(PARTITIONS)]
EARLY = Written("t", 0, 1, 0, 0, 1)
"""What the owner is told of a participant that wrote one record and did not finish."""


class Site:
    """A stub of three brokers, one transactional producer, and any number of participants, which end with the block."""

    def __init__(self, version: int, stack: ExitStack) -> None:
        self.version = version
        self.stub = stack.enter_context(BrokerStub(brokers=3, transaction_version=version))
        self.stub.create_topic("t", partitions=PARTITIONS, replication_factor=3)
        self.producer = stack.enter_context(TransactionalProducer(bootstrap_servers=self.stub.bootstrap, transactional_id="a", **QUICK))
        self._stack = stack

    def participant(self, **settings: Any) -> Participant:
        return self._stack.enter_context(Participant(bootstrap_servers=self.stub.bootstrap, **{**QUICK, "batch_size": 0, **settings}))

    def begin(self) -> Transaction:
        return self.producer.begin(LIMIT_S)

    def committed(self, count: int) -> list[bytes]:
        """What a reader finds, once there is so much."""
        bootstrap = self.stub.bootstrap
        return until(
            lambda: sorted(read_values(bootstrap, "t", range(PARTITIONS))), "what was committed", good=lambda found: len(found) >= count
        )


@pytest.fixture(params=[1, 2])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(int(request.param), stack)


def write(participant: Participant, participation: Participation, *values: bytes) -> list[Written]:
    """Write these values to every partition of a participation."""
    participant.begin(participation, LIMIT_S)
    for topic, partition in participation.partitions:
        participant.send_many(topic, list(values), partition=partition)
    return participant.finish(LIMIT_S)


def test_several_participants_and_their_owner(site: Site) -> None:
    """One transaction of all of them: seen together or not at all; each says what it wrote, and its connections stay for the next
    participation."""
    participants = [site.participant() for _ in range(2)]
    for turn in range(4):
        tx = site.begin()
        participation = tx.share(TPS[1:])
        written = [
            account
            for participant, part in zip(participants, (TPS[1:3], TPS[3:]), strict=True)
            for account in write(participant, participation.part(part), b"a", b"b", b"c")
        ]
        assert [(each.partition, each.records, each.next_sequence) for each in written] == [(1, 3, 3), (2, 3, 3), (3, 3, 3)]
        assert all(each.last_offset - each.first_offset == 2 for each in written)
        tx.returned(written)
        tx.send("t", b"own", partition=0)
        (tx.abort if turn % 2 else tx.commit)(LIMIT_S)
    assert site.committed(20) == sorted([b"own", *[b"a", b"b", b"c"] * 3] * 2)
    assert ends(site.stub) == [True, False, True, False]
    added = [exchange.request for exchange in site.stub.journal.requests(Api.ADD_PARTITIONS_TO_TXN)]
    named = [
        sorted(index for topic in request.v3_and_below_topics for index in topic.partitions)
        for request in added
        if isinstance(request, AddPartitionsToTxnRequest)
    ]
    assert named == ([[1, 2, 3], [0]] * 4 if site.version == 1 else [])


def test_one_after_the_other_in_the_same_transaction(site: Site) -> None:
    """Another participant, and the first again, go on with the sequences: not one record is taken for a repeat of another."""
    first, second = site.participant(), site.participant()
    with site.producer.transaction(LIMIT_S) as tx:
        for number, participant in enumerate((first, second, first)):
            participation = tx.share(TPS)
            assert {each[2] for each in participation.sequences} == {number * 2}
            tx.returned(write(participant, Participation.loads(participation.dumps()), b"%d" % number, b"%d" % number))
    assert site.committed(24) == sorted([b"0", b"1", b"2"] * 2 * PARTITIONS)


def test_behind_what_its_owner_wrote_before(site: Site) -> None:
    """An earlier transaction of the owner wrote batches of the same size to the same partitions, under the same epoch with version 1:
    what the participant is told to be written is in the log, and no repeat."""
    with site.producer.transaction(LIMIT_S) as tx:
        for topic, partition in TPS:
            tx.send(topic, b"owner", partition=partition)
    with site.producer.transaction(LIMIT_S) as tx:
        tx.returned(write(site.participant(), tx.share(TPS), b"shared"))
    assert site.committed(2 * PARTITIONS) == sorted([b"owner", b"shared"] * PARTITIONS)


@pytest.mark.parametrize("point", ["before", "after_append"])
def test_replies_that_are_lost(site: Site, point: str) -> None:
    """Connections that break before and after the append, in the middle of a participation: each record is there once."""
    participant = site.participant()
    with site.producer.transaction(LIMIT_S) as tx:
        lost = getattr(site.stub.faults.on(Api.PRODUCE), point)().times(5).disconnect()
        written = write(participant, tx.share(TPS), *[b"%d" % number for number in range(20)])
        tx.returned(written)
    assert lost.hits == 5
    assert [each.records for each in written] == [20] * PARTITIONS
    assert site.committed(20 * PARTITIONS) == sorted([b"%d" % number for number in range(20)] * PARTITIONS)


def test_leaders_that_move(site: Site) -> None:
    """Between two batches of a participation: the next ones go to the new leader, with the sequences that follow."""
    participant = site.participant()
    with site.producer.transaction(LIMIT_S) as tx:
        participant.begin(tx.share(TPS[:1]), LIMIT_S)
        for number in range(6):
            participant.send("t", b"%d" % number, partition=0).result(LIMIT_S)
            site.stub.move_leader("t", 0)
        (written,) = participant.finish(LIMIT_S)
        tx.returned([written])
    assert (written.records, written.first_offset, written.last_offset, written.next_sequence) == (6, 0, 5, 6)
    assert site.committed(6) == [b"%d" % number for number in range(6)]


def test_connections_that_brokers_close(site: Site) -> None:
    """Between two participations, as idle ones are: the next participation connects anew."""
    participant = site.participant()
    for _ in range(2):
        with site.producer.transaction(LIMIT_S) as tx:
            tx.returned(write(participant, tx.share(TPS), b"row"))
        for node in (1, 2, 3):
            site.stub.stop_broker(node)
            site.stub.restart_broker(node)
    assert site.committed(2 * PARTITIONS) == [b"row"] * 2 * PARTITIONS


@pytest.mark.parametrize("end", ["abort", "commit"])
def test_a_zombie(site: Site, end: str) -> None:
    """A participant that goes on when its transaction has been ended and another one is open: refused, and nothing of it is seen."""
    zombie, successor = site.participant(), site.participant()
    tx = site.begin()
    zombie.begin(tx.share(TPS[:1]), LIMIT_S)
    zombie.send("t", b"early", partition=0).result(LIMIT_S)
    if end == "commit":
        tx.returned([EARLY])
    getattr(tx, end)(LIMIT_S)
    tx = site.begin()
    written = write(successor, tx.share(TPS[:1]), b"successor")
    late = zombie.send("t", b"late", partition=0)
    with pytest.raises(ParticipationEnded, match="t-0: the participation in transactional id 'a' has ended") as over:
        zombie.finish(LIMIT_S)
    assert over.value.code in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
    assert pickle.loads(pickle.dumps(over.value)).code == over.value.code
    assert late.exception(LIMIT_S) is not None
    with pytest.raises(ParticipationEnded):
        zombie.send("t", b"later", partition=0)
    zombie.abandon(LIMIT_S)
    tx.returned(written)
    tx.returned(write(zombie, tx.share(TPS[1:2]), b"reformed"))
    tx.commit(LIMIT_S)
    expected = [b"reformed", b"successor"] if end == "abort" else [b"early", b"reformed", b"successor"]
    assert site.committed(len(expected)) == expected


def test_a_second_owner(site: Site) -> None:
    """A producer that takes the transactional id over ends the participations of the first."""
    participant = site.participant()
    tx = site.begin()
    participant.begin(tx.share(TPS[:1]), LIMIT_S)
    participant.send("t", b"row", partition=0).result(LIMIT_S)
    tx.returned([EARLY])
    with TransactionalProducer(bootstrap_servers=site.stub.bootstrap, transactional_id="a", **QUICK) as other:
        other.init(LIMIT_S)
    participant.send("t", b"late", partition=0)
    with pytest.raises(ParticipationEnded):
        participant.finish(LIMIT_S)
    participant.abandon(LIMIT_S)
    with pytest.raises(Fenced):
        site.producer.commit(LIMIT_S)


def test_a_produce_that_is_fenced(site: Site) -> None:
    """The participant ends. Every later call names the partition, also a send after close. The owner is not asked, and aborts."""
    participant = site.participant()
    tx = site.begin()
    participation = tx.share(TPS)
    participant.begin(participation, LIMIT_S)
    site.stub.faults.on(Api.PRODUCE).where(partition=2).before().error(ErrorCode.PRODUCER_FENCED)
    assert "t-2" in str(participant.send("t", b"row", partition=2).exception(LIMIT_S))
    words = "Produce to t-2 was refused with PRODUCER_FENCED: a newer producer took over this producer id"
    with pytest.raises(Fenced, match=words):
        participant.send("t", b"row", partition=0)
    with pytest.raises(Fenced, match=words):
        participant.finish(LIMIT_S)
    participant.abandon(LIMIT_S)
    assert not participant.usable
    for call in (lambda: participant.send("t", b"row", partition=0), lambda: participant.begin(participation, LIMIT_S)):
        with pytest.raises(Fenced, match=words):
            call()
    participant.close(LIMIT_S)
    with pytest.raises(Fenced, match=words):
        participant.send("t", b"row", partition=0)
    tx.abort(LIMIT_S)


def test_a_begin_while_the_participant_is_closed(site: Site) -> None:
    """Another thread has begun to close it, and its sender hears of the participation after that: no record is accepted that would never
    be sent."""
    participant = site.participant()
    participant._refuse_records()  # what `close` does first
    participant.begin(site.begin().share(TPS), LIMIT_S)
    with pytest.raises(ProducerClosed):
        participant.send("t", b"row", partition=0)


def test_a_commit_before_everything_came_back(site: Site) -> None:
    """It is refused, and the transaction goes on: its own records are taken, the rest is returned, and then it is committed. A block that
    is left so is aborted."""
    participant = site.participant()
    tx = site.begin()
    participation = tx.share(TPS[1:])
    written = write(participant, participation.part(TPS[1:2]), b"shared")
    tx.returned(written)
    with pytest.raises(NotReturned, match="2 of the 3 partitions of participation 1 \\(t-2, t-3\\) not returned"):
        tx.commit(LIMIT_S)
    tx.send("t", b"own", partition=0)
    tx.returned(participation.unused(written))
    tx.commit(LIMIT_S)
    with pytest.raises(NotReturned), site.producer.transaction(LIMIT_S) as tx:
        write(participant, tx.share(TPS), b"never seen")
    assert tx.over
    assert site.committed(2) == [b"own", b"shared"]


def test_only_what_was_shared(site: Site) -> None:
    """A partition that is not in the participation is refused with its name: at once where it is named, by `finish` where it was chosen."""
    participant = site.participant()
    tx = site.begin()
    participant.begin(tx.share(TPS[:2]), LIMIT_S)
    for send in (participant.send, participant.try_send):
        with pytest.raises(NotShared, match="t-3 is not part of the participation in transactional id 'a' \\(2 partitions\\)"):
            send("t", b"stray", partition=3)
    with pytest.raises(NotShared, match="t-2 is not part"):
        participant.send_many("t", [b"stray"], partition=2)
    with pytest.raises(NotShared, match="no partition of topic 'u'"):
        participant.send("u", b"stray")
    participant.send_many("t", [(None, b"row", None, None, 0), (None, b"stray", None, None, 3)])
    with pytest.raises(NotShared, match="t-3 is not part"):
        participant.finish(LIMIT_S)
    participant.abandon(LIMIT_S)
    tx.abort(LIMIT_S)


def test_one_writer_at_a_time(site: Site) -> None:
    """What is out is not shared again, nor written by its owner; a record of its own there spoils the transaction."""
    participant = site.participant()
    tx = site.begin()
    participation = tx.share(TPS[:1])
    with pytest.raises(NotShareable, match="t-0 was shared in this transaction and not returned"):
        tx.share(TPS)
    with pytest.raises(BadParticipation, match="t-1 is not shared"):
        tx.returned([Written("t", 1, 1, 0, 0, 1)])
    tx.returned(write(participant, participation, b"row"))
    tx.returned(tx.share(TPS[:1]).unused([]))
    tx.send("t", b"own", partition=0)
    with pytest.raises(MustAbort, match="t-0 was shared, so its owner cannot write to it"):
        tx.commit(LIMIT_S)
    tx.abort(LIMIT_S)
    assert site.committed(0) == []


def test_calls_that_do_not_fit() -> None:
    """Each is refused in words, before anything is sent."""
    participation = Participation(transactional_id="a", producer_id=1, producer_epoch=0, transaction_version=2, sequences=(("t", 0, 0),))
    with pytest.raises(ConfigError, match="transactional_id='a': a participant has no such setting"):
        Participant({"bootstrap_servers": "127.0.0.1:1", "transactional_id": "a"})
    with pytest.raises(ConfigError, match="acks=all"):
        Participant(bootstrap_servers="127.0.0.1:1", acks=1)
    with BrokerStub() as stub, Participant(bootstrap_servers=stub.bootstrap, **QUICK) as participant:
        stub.create_topic("t")
        with pytest.raises(NoParticipation):
            participant.finish(LIMIT_S)
        participant.abandon(LIMIT_S)
        with pytest.raises(BadParticipation):
            participant.begin("{}")
        with pytest.raises(Misuse, match="participants=0: the smallest number is 1"):
            participant.begin(participation, participants=0)
        participant.begin(participation.dumps(), LIMIT_S)
        with pytest.raises(Misuse, match="the previous participation is neither finished nor abandoned"):
            participant.begin(participation, LIMIT_S)
        with pytest.raises(RecordTooLarge, match="max_request_size"):
            participant.send("t", b"x" * 2_000_000, partition=0)
        assert participant.finish(LIMIT_S) == []
        with pytest.raises(NoParticipation):
            participant.send("t", b"row", partition=0)
        usable = [participant.usable]
    usable.append(participant.usable)
    assert usable == [True, False]
    for call in (
        lambda: participant.begin(participation),
        lambda: participant.send("t", b"row"),
        lambda: participant.try_send("t", b"row"),
    ):
        with pytest.raises(ProducerClosed):
            call()


def with_a_held_record(site: Site) -> tuple[Participant, Transaction, Fault, list[RecordFuture]]:
    """A participant that has sent three records; the stub holds the request with the first one."""
    participant = site.participant()
    tx = site.begin()
    held = site.stub.faults.on(Api.PRODUCE).before().times(1).hold()
    participant.begin(tx.share(TPS[:1]), LIMIT_S)
    futures = [participant.send("t", b"row", partition=0) for _ in range(3)]
    assert held.wait(1, LIMIT_S)
    return participant, tx, held, futures


def test_a_finish_that_takes_too_long(site: Site) -> None:
    """TransactionTimeout, and nothing is decided: it can be called again, or the participation given up; what was on its way is waited
    for."""
    participant, tx, held, futures = with_a_held_record(site)
    with pytest.raises(TransactionTimeout, match="finish: 3 records have no outcome"):
        participant.finish(0.01)
    taken = []
    for _ in range(3):
        began = time.monotonic()
        with pytest.raises(TransactionTimeout, match="abandon: the time of"):
            participant.abandon(0.01)
        taken.append(time.monotonic() - began)
    assert min(taken) < 0.9  # one of them may be slow on a busy machine
    held.release()
    participant.abandon(LIMIT_S)
    assert futures[0].exception(LIMIT_S) is None
    assert all(isinstance(future.exception(LIMIT_S), DeliveryAborted) for future in futures[1:])
    tx.abort(LIMIT_S)
    assert participant.usable


@pytest.mark.parametrize("leave", [Participant.abandon, Participant.close, Participant.finish], ids=["abandon", "close", "finish"])
def test_a_finish_while_another_thread_leaves(site: Site, leave: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    """The records that the other thread gave up are not in the log: the finish that waited for them raises, and does not return the
    accounts of the others as if all were acknowledged. Of two that finish, one gets the accounts."""
    participant, tx, held, futures = with_a_held_record(site)
    drain = participant._drain
    waits, has_left = threading.Event(), threading.Event()
    finisher = ThreadPoolExecutor(1)

    def drained(timeout_s: float) -> None:
        monkeypatch.setattr(participant, "_drain", drain)
        waits.set()
        drain(timeout_s)
        assert has_left.wait(LIMIT_S)

    monkeypatch.setattr(participant, "_drain", drained)
    finishing = finisher.submit(participant.finish, LIMIT_S)
    assert waits.wait(LIMIT_S)
    if leave is Participant.finish:
        held.release()
        assert [each.records for each in participant.finish(LIMIT_S)] == [3]
    else:
        leaving = ThreadPoolExecutor(1)
        left = leaving.submit(leave, participant, LIMIT_S)
        until(lambda: participant._shared_identity._leaving or left.done(), "the other thread leaves")
        held.release()
        left.result(LIMIT_S)
        leaving.shutdown()
        assert all(isinstance(future.exception(LIMIT_S), DeliveryAborted) for future in futures[1:])
    has_left.set()
    with pytest.raises(NoParticipation, match="finish: another thread has left this participation meanwhile"):
        finishing.result(LIMIT_S)
    finisher.shutdown()
    tx.abort(LIMIT_S)


def test_close_in_a_participation_sends_nothing_more(site: Site) -> None:
    """What had not left fails, and is not in the log: the owner will not hear of it, and has to abort."""
    participant = site.participant(linger_ms=60_000, batch_size=1_000)
    tx = site.begin()
    participant.begin(tx.share(TPS[:1]), LIMIT_S)
    future = participant.send("t", b"row", partition=0)
    participant.close(LIMIT_S)
    assert isinstance(future.exception(LIMIT_S), DeliveryAborted)
    assert site.stub.records("t", 0) == []
    tx.abort(LIMIT_S)


def test_arrow(site: Site) -> None:
    """Rows of a table, each to the partition that it names."""
    pyarrow = pytest.importorskip("pyarrow")
    rows = pyarrow.table({"value": [b"%d" % n for n in range(100)], "partition": [n % PARTITIONS for n in range(100)]})
    participant = site.participant()
    with site.producer.transaction(LIMIT_S) as tx:
        participant.begin(tx.share(TPS), LIMIT_S)
        participant.send_arrow("t", rows, partition="partition")
        written = participant.finish(LIMIT_S)
        tx.returned(written)
    assert [(each.partition, each.records) for each in written] == [(partition, 25) for partition in range(PARTITIONS)]
    assert site.committed(100) == sorted(b"%d" % n for n in range(100))


def test_a_topic_that_was_shared_and_deleted(jump: Jump, site: Site) -> None:
    """A participant has none created in its place."""
    participation = site.begin().share(TPS)
    participant = site.participant(max_block_ms=1_000, request_timeout_ms=4_000, delivery_timeout_ms=8_000)
    participant.begin(participation)
    participant.partitions_for("t", LIMIT_S)
    participant.send("t", b"x", partition=0).result(LIMIT_S)
    site.stub.delete_topic("t")
    with pytest.raises(FencepostError):
        late = participant.send("t", b"x", partition=0)
        jump(8_000, participant)
        late.exception(LIMIT_S)
        participant.finish(LIMIT_S)
    participant.abandon(LIMIT_S)
    with pytest.raises(KeyError, match="no topic"):
        site.stub.leader("t", 0)
    site.producer.abort(LIMIT_S)
