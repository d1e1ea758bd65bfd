"""Ctrl-C at every single point of a transactional call, one after the other: the producer goes on, and what it says of the struck one is
so."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any, TypeVar

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.producer.errors import ProducerClosed
from fencepost.producer.producer import Producer
from fencepost.producer.wire import Api
from fencepost.txn.errors import CommitOutcomeUnknown, IllegalCall, TransactionCommitted
from fencepost.txn.group_metadata import GroupMetadata
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.recovery.resume import resume
from fencepost.txn.shared.participant import NoParticipation, Participant
from fencepost.txn.shared.participation import BadParticipation, Participation, Written
from fencepost.txn.shared.shared_identity import NotShared
from fencepost.txn.shared.shared_partitions import NotReturned
from fencepost.txn.transaction import Transaction
from tests.drawn import drawn
from tests.strike import MARKS, Struck, at_every_point, draw_point, interrupt, struck
from tests.txn.stub_helpers import SETTINGS, committed
from tests.waiting import until

PATIENCE_S = 20.0
SHARED = [("t", 1)]
GROUP = GroupMetadata("g")
DRAWS = 60
RESUME_POINTS = 3_000
PARTICIPANT: dict[str, Any] = {key: value for key, value in SETTINGS.items() if key != "transactional_id"}

T = TypeVar("T")

pytestmark = [
    *MARKS,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),  # asyncio's own, where that is struck
]


class Site:
    """A stub and a producer; `told`: the values of transactions that are said to be committed, in their order."""

    def __init__(self, stub: BrokerStub, producer: TransactionalProducer) -> None:
        self.stub = stub
        self.producer = producer
        self.told: list[bytes] = []
        self._values = count()

    def value(self) -> bytes:
        return b"%d" % next(self._values)

    def begun(self) -> tuple[Transaction, bytes]:
        """A transaction with a record in it."""
        tx, value = self.producer.begin(PATIENCE_S), self.value()
        tx.send("t", value, partition=0).result(PATIENCE_S)
        return tx, value

    def works(self) -> None:
        """A whole transaction, on another thread: the one that was struck may hold what it should not."""

        def use() -> bytes:
            tx, value = self.begun()
            tx.commit(PATIENCE_S)
            return value

        self.told.append(elsewhere(use))

    def tell(self, tx: Transaction, value: bytes, call: Callable[[float], None]) -> None:
        """End what a call may have ended already, on another thread, by `commit` or `abort`, or where that is refused by what the error
        names: the producer says truthfully how it ended."""
        commits = call == tx.commit
        refusal = ""
        try:
            elsewhere(lambda: call(PATIENCE_S))
        except IllegalCall as illegal:
            commits = not commits
            refusal = str(illegal)
        if "what can be called now" in refusal:
            assert refusal.endswith(f": {'commit' if commits else 'abort'}")
            elsewhere(lambda: (tx.commit if commits else tx.abort)(PATIENCE_S))
        elif refusal:
            assert refusal.endswith(f"the transaction has been {'committed' if commits else 'aborted'}")
        if commits:
            self.told.append(value)


@pytest.fixture
def site() -> Iterator[Site]:
    with BrokerStub() as stub:
        stub.create_topic("t", partitions=2)
        before = threads()
        with TransactionalProducer(SETTINGS, bootstrap_servers=stub.bootstrap) as producer:
            site = Site(stub, producer)
            site.works()
            yield site
            site.works()
        until(lambda: threads() == before, "its thread is gone")
        assert committed(stub, "t") == site.told


def threads() -> set[threading.Thread]:
    """The running threads of the library. CPython keeps a thread in its list for ever if `Thread.start` is interrupted early, and never
    starts it."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("fencepost-") and thread.is_alive()}


def elsewhere(call: Callable[[], T]) -> T:
    """On another thread."""
    came: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            came.append(call())
        except BaseException as error:  # noqa: BLE001 - for the thread that asked
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "nobody answers"
    if failed:
        raise failed[0]
    return came[0]


CONSTRUCTORS: dict[str, Callable[[str], Producer | TransactionalProducer]] = {
    "Producer": lambda bootstrap: Producer(PARTICIPANT, bootstrap_servers=bootstrap),
    "TransactionalProducer": lambda bootstrap: TransactionalProducer(SETTINGS, bootstrap_servers=bootstrap),
    "Participant": lambda bootstrap: Participant(PARTICIPANT, bootstrap_servers=bootstrap),
}


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_construction(name: str) -> None:
    """An interrupted constructor leaves no thread, also while the program still handles the exception, which keeps the constructor's
    frames. CPython's own `Thread.start` may raise although the thread runs."""
    points, spared = count(), 0
    before = threads()
    while spared < 3:  # Python drops an exception in a destructor or a callback of a weak reference.
        try:
            made = struck(lambda: CONSTRUCTORS[name]("localhost:1"), next(points), interrupt)
        except (Struck, RuntimeError) as error:  # CPython's Condition raises RuntimeError where its exit is struck.
            spared = 0
            until(lambda: threads() <= before, f"no thread is left after {error!r}")
        else:
            spared += 1
            made.close()
    assert next(points) > 100


def test_begin(site: Site) -> None:
    """An interrupted `begin` has begun nothing. The next one is accepted, from any thread."""
    for _ in at_every_point(lambda: site.producer.begin().abort()):
        if site.producer._manager.is_open():
            site.producer.abort()  # The abort was struck before it was asked for.
        site.works()


def test_only_begin(site: Site) -> None:
    """An interrupted `begin` leaves no transaction open, so the next one can begin."""
    open_now: list[Transaction] = []

    def begin() -> None:
        open_now.append(site.producer.begin())

    for point in count():
        try:
            struck(begin, point, interrupt)
            break
        except Struck:
            site.works()
    open_now[0].abort()


def test_the_first_begin(site: Site) -> None:
    """While it registers."""
    for point in count():
        with TransactionalProducer({**SETTINGS, "transactional_id": "b"}, bootstrap_servers=site.stub.bootstrap) as producer:
            try:
                struck(producer.begin, point, interrupt)
                break
            except Struck:
                elsewhere(lambda: elsewhere(producer.begin).abort())


@drawn(2, kind=lambda row: row["first"])
@pytest.mark.parametrize("first", ["commit", "abort"])
@pytest.mark.parametrize("second", ["commit", "abort"])
def test_an_interrupted_end_is_reported_by_the_next_call(site: Site, first: str, second: str) -> None:
    """What came of it is told by the next call, and what readers see is that."""
    for point in count():
        tx, value = site.begun()
        try:
            struck(getattr(tx, first), point, interrupt)
            if first == "commit":
                site.told.append(value)
            break
        except Struck:
            site.tell(tx, value, getattr(tx, second))
        site.works()


def test_a_commit_that_was_not_asked_for(site: Site) -> None:
    """Where a commit was struck before the sender heard of it, the transaction is open, and takes records."""
    for point in count():
        tx, value = site.begun()
        try:
            struck(tx.commit, point, interrupt)
            site.told.append(value)
            break
        except Struck:
            pass

        site.producer.flush()  # The sender thread has handled all earlier calls.
        more = site.value() if site.producer._manager.is_open() else None
        if more is not None:
            elsewhere(lambda: tx.send("t", more, partition=0).result(PATIENCE_S))  # noqa: B023
        site.tell(tx, value, tx.commit)
        site.told += [more] if more is not None else []


@pytest.mark.parametrize("name", ["send", "send_many"])
def test_a_send(site: Site, name: str) -> None:
    """An interrupted `send` is over: another thread can end the transaction, and begin the next."""
    for point in count():
        tx = site.producer.begin(PATIENCE_S)
        try:
            struck(lambda: getattr(tx, name)("t", b"x" if name == "send" else [b"x"], partition=1), point, interrupt)  # noqa: B023
            tx.abort()
            break
        except Struck:
            elsewhere(tx.commit)
        site.works()


def test_offsets(site: Site) -> None:
    """Offsets whose call was interrupted can be sent again, and the commit waits for them."""
    for point in count(1):
        tx, value = site.begun()
        given = {("t", 0): point}
        try:
            struck(lambda: tx.send_offsets(given, GROUP), point - 1, interrupt)  # noqa: B023
            tx.abort()
            break
        except Struck:
            elsewhere(lambda: tx.send_offsets(given, GROUP, PATIENCE_S))  # noqa: B023
            site.tell(tx, value, tx.commit)


def test_prepare(site: Site) -> None:
    """After an interrupted `prepare` it can be called again, or its transaction can be ended, and the next one begins."""
    for point in count():
        tx, value = site.begun()
        try:
            struck(tx.prepare, point, interrupt)
            tx.abort()
            break
        except Struck:
            assert elsewhere(lambda: tx.prepare(PATIENCE_S)).wrote  # noqa: B023
            site.tell(tx, value, tx.commit if point % 2 else tx.abort)


def test_share(site: Site) -> None:
    """A participation that the caller never got keeps the transaction from being committed, and says so; an abort ends it."""
    for point in count():
        tx, value = site.begun()
        try:
            struck(lambda: tx.share(SHARED), point, interrupt)  # noqa: B023
            tx.abort()
            break
        except Struck:
            pass
        try:
            elsewhere(lambda: tx.commit(PATIENCE_S))  # noqa: B023
            site.told.append(value)
        except NotReturned:
            elsewhere(lambda: tx.abort(PATIENCE_S))  # noqa: B023


def test_an_interrupted_returned_can_be_repeated(site: Site) -> None:
    """What was noted is not noted again, and what was not can be given back."""
    for point in count():
        tx, value = site.begun()
        accounts = tx.share(SHARED).unused([])
        try:
            struck(lambda: tx.returned(accounts), point, interrupt)  # noqa: B023
            tx.abort()
            break
        except Struck:
            pass
        with suppress(BadParticipation):
            elsewhere(lambda: tx.returned(accounts))  # noqa: B023
        site.tell(tx, value, tx.commit)


@drawn(2, kind=lambda row: row["how"])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("how", ["block", "run"])
def test_an_interrupted_block_has_ended_or_can_be_aborted(site: Site, how: str, fails: bool) -> None:
    """Whether it was struck before, in or after its work, one that is over has said how it ended, and one that is not can be aborted."""
    begun: list[tuple[Transaction, bytes]] = []

    def work(tx: Transaction) -> None:
        value = site.value()
        begun.append((tx, value))
        tx.send("t", value, partition=0)
        if fails:
            raise ArithmeticError

    def block() -> None:
        with site.producer.transaction() as tx:
            work(tx)

    for point in count():
        begun.clear()
        try:
            struck(block if how == "block" else lambda: site.producer.run(work), point, interrupt)
        except Struck:
            for tx, value in begun:
                site.tell(tx, value, tx.abort)
        except ArithmeticError:
            break
        else:
            site.told.append(begun[0][1])
            break
        if site.producer._manager.is_open():  # It was struck on the way into its work, or out of it.
            with pytest.raises(IllegalCall, match=r"what can be called now: .*abort"):
                elsewhere(site.producer.begin)
            elsewhere(site.producer.abort)
        site.works()


def test_resolve(site: Site) -> None:
    """Asking once more what became of a commit: it can be asked again and again."""
    for point in count():
        tx, value = site.begun()
        site.told.append(value)
        held = site.stub.faults.on(Api.END_TXN).reply().hold()
        with pytest.raises(CommitOutcomeUnknown) as unknown:
            tx.commit(0.2)
        held.remove()
        try:
            struck(lambda: unknown.value.resolve(PATIENCE_S), point, interrupt)
            break
        except Struck:
            elsewhere(lambda: unknown.value.resolve(PATIENCE_S))
        site.works()


@drawn(2)
@pytest.mark.parametrize("second", ["commit", "abort"])
def test_resume(site: Site, second: str) -> None:
    """A commit by token is interrupted at many points. The token stays valid, in a thread and in a task."""

    async def inside() -> None:
        resumed.commit(PATIENCE_S)

    for draw in range(DRAWS):
        tx, value = site.begun()
        resumed = resume(tx.prepare(PATIENCE_S), site.stub.bootstrap)
        call = (lambda: resumed.commit(PATIENCE_S)) if draw % 2 else lambda: asyncio.run(inside())  # noqa: B023
        with suppress(Struck):
            struck(call, draw_point(Random(draw), RESUME_POINTS), interrupt)
        try:
            elsewhere(lambda: getattr(resumed, second)(PATIENCE_S))  # noqa: B023
            commits = second == "commit"
        except TransactionCommitted:
            commits = True
        site.tell(tx, value, tx.commit if commits else tx.abort)
        assert site.told[-1:] == [value] or not commits
    until(lambda: not [each for each in threads() if "resume" in each.name], "whoever asked aside is gone")


def test_an_interrupted_close_shows_no_open_records(site: Site) -> None:
    """Close, struck anywhere, has ended or ends when it is called again; nothing that was open is seen."""
    before = threads()
    for point in count():
        producer = TransactionalProducer({**SETTINGS, "transactional_id": "b"}, bootstrap_servers=site.stub.bootstrap)
        tx = producer.begin(PATIENCE_S)
        tx.send("t", b"never", partition=1).result(PATIENCE_S)
        try:
            struck(producer.close, point, interrupt)
            break
        except Struck:
            elsewhere(producer.close)
        until(lambda: threads() == before, "its thread is gone")  # it may still be on its way out
        for call in (producer.begin, tx.commit):
            with pytest.raises((ProducerClosed, IllegalCall)):
                elsewhere(call)
    with TransactionalProducer({**SETTINGS, "transactional_id": "b"}, bootstrap_servers=site.stub.bootstrap) as producer:
        producer.init(PATIENCE_S)
    assert committed(site.stub, "t", 1) == []


class Desk:
    """A participant, and a transaction that shares it what it needs."""

    def __init__(self, site: Site, participant: Participant) -> None:
        self.site = site
        self.participant = participant
        self._values = count()

    def shared(self) -> tuple[Transaction, Participation]:
        tx = self.site.producer.begin(PATIENCE_S)
        return tx, tx.share(SHARED)

    def write(self, participation: Participation) -> list[Written]:
        self.participant.begin(participation, PATIENCE_S)
        self.participant.send("t", b"shared", partition=1)
        return self.participant.finish(PATIENCE_S)

    def works(self) -> None:
        """One participation from its beginning to its end, on another thread."""

        def use() -> None:
            tx, participation = self.shared()
            tx.returned(self.write(participation))
            tx.commit(PATIENCE_S)
            next(self._values)

        elsewhere(use)

    def done(self) -> int:
        """How many were committed."""
        return next(self._values)


@pytest.fixture
def desk(site: Site) -> Iterator[Desk]:
    with Participant(PARTICIPANT, bootstrap_servers=site.stub.bootstrap) as participant:
        desk = Desk(site, participant)
        desk.works()
        yield desk
        desk.works()
    assert committed(site.stub, "t", 1) == [b"shared"] * desk.done()


def test_a_participant_begins(desk: Desk) -> None:
    """Struck, it has taken nothing up, and takes no records; it takes the same participation up again."""
    for point in count():
        tx, participation = desk.shared()
        try:
            struck(lambda: desk.participant.begin(participation), point, interrupt)  # noqa: B023
            desk.participant.abandon()
            tx.abort()
            break
        except Struck:
            with pytest.raises((NoParticipation, NotShared)):
                desk.participant.send("t", b"never", partition=1)
            elsewhere(lambda: desk.participant.begin(participation, PATIENCE_S))  # noqa: B023
            elsewhere(lambda: desk.participant.abandon(PATIENCE_S))
        tx.abort()
        desk.works()


def test_a_participant_finishes(desk: Desk) -> None:
    """Struck, it tells what it wrote when it is called again."""
    for point in count():
        tx, participation = desk.shared()
        desk.participant.begin(participation)
        desk.participant.send("t", b"shared", partition=1)
        try:
            written = struck(desk.participant.finish, point, interrupt)
        except Struck:
            written = elsewhere(lambda: desk.participant.finish(PATIENCE_S))
        else:
            tx.abort()
            break
        tx.returned(written)
        tx.commit()
        desk.done()


@drawn(2)
@pytest.mark.parametrize("call", ["finish", "abandon"])
def test_a_participant_abandons(desk: Desk, call: str) -> None:
    """Struck, it can be called again."""
    for point in count():
        tx, participation = desk.shared()
        desk.participant.begin(participation)
        desk.participant.send("t", b"never", partition=1)
        try:
            struck(getattr(desk.participant, call), point, interrupt)
        except Struck:
            elsewhere(lambda: desk.participant.abandon(PATIENCE_S))
            tx.abort()
            desk.works()
        else:
            tx.abort()
            break


def test_a_participant_closes(site: Site) -> None:
    """Struck, it has ended or ends when it is called again."""
    before = threads()
    for point in count():
        participant = Participant(PARTICIPANT, bootstrap_servers=site.stub.bootstrap)
        tx = site.producer.begin()
        participant.begin(tx.share(SHARED))
        try:
            struck(participant.close, point, interrupt)
            break
        except Struck:
            elsewhere(participant.close)
        finally:
            tx.abort()
        until(lambda: threads() == before, "its thread is gone")
