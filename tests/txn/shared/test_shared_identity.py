"""A shared identity, one answer at a time: which sequences leave, how soon they are sent again, and that nothing is healed."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.producer.core.events import Called
from fencepost.producer.wire import Api, ErrorCode
from fencepost.txn.errors import DeliveryAborted
from fencepost.txn.shared.participation import Participation
from fencepost.txn.shared.shared_identity import COLLISION_ATTEMPTS, COLLISIONS, NotShared, ParticipantCall, SharedIdentity
from tests.producer.core.harness import PID, TOPIC, VERSIONS, CoreHarness

BOTH = pytest.mark.parametrize("version", [1, 2])


class Stall(CoreHarness):
    """A participant's core. It has no coordinator."""

    def __init__(self, *, partitions: int = 1, **settings: Any) -> None:
        self.shared_identity = SharedIdentity()
        super().__init__(partitions=partitions, transactions=self.shared_identity, **settings)
        self.auto = {Api.METADATA}

    def take_up(self, *sequences: tuple[int, int], epoch: int = 0, version: int = 2, participants: int = 1) -> Stall:
        """A participation of (partition, next sequence) pairs."""
        if TOPIC not in self.accumulator.topics:
            self.learn()
        shared = tuple((TOPIC, partition, sequence) for partition, sequence in sequences or ((0, 0),))
        participation = Participation(
            transactional_id="tx", producer_id=PID, producer_epoch=epoch, transaction_version=version, sequences=shared
        )
        turn = ParticipantCall(participation, participants=participants)
        self.happen(Called(turn))
        turn.outcome.result(0)
        return self

    def give_up(self) -> ParticipantCall:
        turn = ParticipantCall(None)
        self.happen(Called(turn))
        return turn

    def ack_all(self) -> None:
        while self.produces():
            self.ack(self.produces()[0])


@BOTH
def test_everything_is_the_participations(version: int) -> None:
    """Producer id, epoch, first sequence, transactional id and the version of Produce come from the participation, without a request."""
    stall = Stall().take_up((0, 41), epoch=3, version=version)
    stall.send(b"row")
    (flight,) = stall.produces()
    assert flight.stamp == (PID, 3, 41)
    assert flight.header.is_transactional
    assert flight.message.transactional_id == "tx"
    assert flight.command.version == {1: 11, 2: 13}[version]
    assert {each.api for each in (*stall.open, *stall.answered)} <= {Api.METADATA, Api.PRODUCE}


def test_one_batch_until_the_first_is_acknowledged() -> None:
    """In every participation anew, also under the same identity: a second batch could overtake a first one that collided."""
    stall = Stall()
    for begin in (0, 3, 10):
        stall.take_up((0, begin))
        stall.send(b"a", b"b", b"c")
        assert [flight.stamp[2] for flight in stall.produces()] == [begin]
        stall.ack(stall.produces()[0])
        assert [flight.stamp[2] for flight in stall.produces()] == [begin + 1, begin + 2]
        stall.ack_all()


@pytest.mark.parametrize("code", sorted(COLLISIONS))
def test_a_collision_is_soon_over(code: ErrorCode) -> None:
    """The first batch is sent again with the same sequence, after a time between 1 ms and a bound that grows a little; once one was
    acknowledged, a batch that is refused so waits as long as usual."""
    stall = Stall(retry_backoff_ms=1_000.0, retry_backoff_max_ms=1_000.0).take_up((0, 5))
    stall.send(b"row")
    for wait_ms in (10.5, 30.5, 90.5, 90.5):
        stall.refuse(stall.produces()[0], code)
        stall.advance(wait_ms - 0.1)
        assert stall.produces() == []
        stall.advance(0.2)
        assert stall.produces()[0].stamp == (PID, 0, 5)
    stall.ack(stall.produces()[0])
    stall.send(b"next")
    stall.refuse(stall.produces()[0], code)
    stall.advance(900)
    assert stall.produces() == []
    stall.advance(200)
    assert stall.produces()[0].stamp == (PID, 0, 6)


def test_the_more_participants_the_longer_the_pauses() -> None:
    """From 1 ms to so many for each participant that all can come one after the other; few wait as long as one alone."""
    for participants, waits_ms in ((2, (10.5, 30.5, 90.5)), (64, (96.5, 144.5, 192.5, 192.5))):
        stall = Stall().take_up((0, 5), participants=participants)
        stall.send(b"row")
        for wait_ms in waits_ms:
            stall.refuse(stall.produces()[0], ErrorCode.NOT_ENOUGH_REPLICAS)
            stall.advance(wait_ms - 0.1)
            assert stall.produces() == []
            stall.advance(0.2)
            assert stall.produces()[0].stamp == (PID, 0, 5)


def test_what_is_no_collision_waits_as_long_as_usual() -> None:
    """Another code; and a broker that goes on refusing, because replicas are missing, is not asked a hundred times a second for ever."""
    stall = Stall(retry_backoff_ms=1_000.0, retry_backoff_max_ms=1_000.0).take_up()
    stall.send(b"row")
    stall.refuse(stall.produces()[0], ErrorCode.NOT_LEADER_OR_FOLLOWER)
    stall.advance(900)
    assert stall.produces() == []
    identity = stall.shared_identity
    assert identity.pause_ms(ErrorCode.NOT_ENOUGH_REPLICAS, introduced=False, attempts=COLLISION_ATTEMPTS) is not None
    assert identity.pause_ms(ErrorCode.NOT_ENOUGH_REPLICAS, introduced=False, attempts=COLLISION_ATTEMPTS + 1) is None


def test_a_leader_that_moves_and_a_reply_that_is_lost() -> None:
    """Batches go to the new leader, and again after a lost reply, with the sequences that they had. Each record counts once."""
    stall = Stall().take_up((0, 2))
    stall.send(b"row")
    stall.leaders[0] = (2, 1)
    stall.refuse(stall.produces()[0], ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=(2, 1))
    stall.advance(50)
    assert (stall.produces()[0].node, stall.produces()[0].stamp) == (2, (PID, 0, 2))
    stall.lose(2)
    stall.advance(500)
    assert stall.produces()[0].stamp == (PID, 0, 2)
    stall.ack(stall.produces()[0], offset=9)
    tally = stall.shared_identity.tallies[TOPIC, 0]
    assert (tally.records, tally.first_offset, tally.last_offset) == (1, 9, 9)


@pytest.mark.parametrize(
    ("told", "offsets"),
    [((7, 20), (7, 21)), ((0,), (0, 1)), ((None,), (-1, -1)), ((None, 20), (-1, 21)), ((7, None), (7, -1))],
)
def test_unknown_offsets_are_minus_one(told: tuple[int | None, ...], offsets: tuple[int, int]) -> None:
    """An older broker that has a batch already does not say where (None): its records count, and -1 stands for an offset at that end."""
    stall = Stall(batch_size=4_096, linger_ms=5.0).take_up()
    for offset in told:
        stall.send(b"two", b"rows")
        stall.advance(5)
        if offset is None:
            stall.refuse(stall.produces()[0], ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
        else:
            stall.ack(stall.produces()[0], offset=offset)
    tally = stall.shared_identity.tallies[TOPIC, 0]
    assert (tally.records, (tally.first_offset, tally.last_offset)) == (2 * len(told), offsets)


@pytest.mark.parametrize(
    "code",
    [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_RECORD],
)
def test_nothing_heals_itself(code: ErrorCode) -> None:
    """What another producer would heal with the next epoch fails, and so does what waits; nothing leaves under another identity, also from
    other partitions."""
    stall = Stall(partitions=2).take_up((0, 0), (1, 0))
    first = stall.send(b"bad", b"behind it")
    stall.refuse(stall.produces()[0], code)
    second = stall.send(b"elsewhere", partition=1)
    stall.advance(1_000)
    assert all(future.done() for future in (*first, *second))
    assert first[0].exception(0).code == code  # type: ignore[union-attr]
    assert isinstance(second[0].exception(0), DeliveryAborted)
    assert stall.produces() == []
    assert not any(each.api is Api.INIT_PRODUCER_ID for each in (*stall.open, *stall.answered))
    failure = stall.shared_identity.failure
    assert getattr(failure, "code", 0) == code
    assert stall.give_up().outcome.result(0) is None
    stall.take_up((0, 0), epoch=1)
    stall.send(b"good")
    assert stall.produces()[0].stamp == (PID, 1, 0)


def test_what_was_not_shared_does_not_leave() -> None:
    """The first such record spoils the participation, with the partition's name."""
    stall = Stall(partitions=2).take_up((0, 0))
    (future,) = stall.send(b"stray", partition=1)
    stall.advance(0)
    assert stall.produces() == []
    assert isinstance(future.exception(0), DeliveryAborted)
    assert isinstance(stall.shared_identity.failure, NotShared)
    assert "t-1 is not part of the participation in transactional id 'tx'" in str(stall.shared_identity.failure)
    stall.give_up()
    stall.take_up((0, 0), epoch=1)
    (good,) = stall.send(b"good")
    stall.ack_all()
    assert good.exception(0) is None
    assert stall.shared_identity.failure is None, "the next participation is none the worse for it"


def test_abandoned_in_the_middle() -> None:
    """What was not sent fails; what is on its way is waited for, and no other participation is taken up before."""
    stall = Stall().take_up()
    flying, queued = stall.send(b"on its way", b"queued")
    turn = stall.give_up()
    assert not turn.outcome.done()
    early = ParticipantCall(
        Participation(transactional_id="tx", producer_id=PID, producer_epoch=1, transaction_version=2, sequences=((TOPIC, 0, 0),))
    )
    stall.happen(Called(early))
    assert "still in flight" in str(early.outcome.exception(0))
    stall.ack(stall.produces()[0])
    assert turn.outcome.done()
    assert flying.exception(0) is None
    assert isinstance(queued.exception(0), DeliveryAborted)
    assert stall.produces() == []


def test_a_broker_that_lacks_the_versions() -> None:
    """Transaction version 2 takes Produce 12 or later: a broker without it ends the participant, and is told which versions it lacks."""
    stall = Stall()
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(VERSIONS, Api.PRODUCE, (3, 11))
        stall.take_up()
        stall.send(b"row")
    assert stall.dead is not None
    assert "offers versions 3 to 11 of Produce, and the transaction's version needs 12 to 13" in str(stall.dead.error)
