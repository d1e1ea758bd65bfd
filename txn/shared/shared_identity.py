"""The shared identity, as the sender thread uses it: hooks that let records for shared partitions pass, and the identity of the
participation.

It never asks a broker for an identity, bumps no epoch and ends no transaction. A failure that an ordinary producer heals with a new epoch
fails here, and the records that wait behind it fail too. Only the owner decides about the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from fencepost.producer.config.settings import Settings
from fencepost.producer.core.cluster.cluster_connection_states import PRODUCE_VERSIONS, ClusterConnectionStates, Request
from fencepost.producer.core.cluster.view import ClusterView
from fencepost.producer.core.events import NEVER, Command, Die, Return, Settle
from fencepost.producer.errors import DeliveryError, Fatal, FencepostError, Misuse, NoUsableBroker
from fencepost.producer.foundations.counted import counted
from fencepost.producer.wire.codes import ErrorCode
from fencepost.txn.errors import DeliveryAborted
from fencepost.txn.foundations.call_outcome import CallOutcome
from fencepost.txn.protocol.requests import LEAVES
from fencepost.txn.shared.participation import TP, Participation, name

COLLISIONS: Final = frozenset({ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NETWORK_EXCEPTION, ErrorCode.CONCURRENT_TRANSACTIONS})
"""The error codes of a partition's first batch of a transaction if its leader could not ask the coordinator about the transaction
(KIP-890). A leader keeps one such question for each transactional id."""

COLLISION_PAUSES_MS: Final = ((20.0, 3.0), (60.0, 4.5), (180.0, 6.0))
"""The pause before each repeat, from the first on; the last pair is for all further ones. A pause is drawn evenly from 1 ms to the first
number of ms, or to the second number times the participants if that is longer. So colliding participants follow each other. With shorter
pauses a broker that has just started gets ten times more requests than it can answer (tests/bench/participants.py). With the usual backoff
the last participants would wait for seconds."""

COLLISION_ATTEMPTS: Final = 100
"""After so many refusals the cause is not a collision, and the sender waits for the usual backoff."""


class NotShared(Misuse, ValueError):
    """The partition is not part of the participation, so the participant may not write to it."""


class ParticipantCall:
    """A call of the participant to its sender thread: begin with `participation`, or, if that is None, drop what is not sent and wait for
    the rest. `participants`: how many participants write the same transaction."""

    def __init__(self, participation: Participation | None, then: Callable[[], None] | None = None, *, participants: int = 1) -> None:
        self.participation: Final = participation
        self.participants: Final = participants
        self.outcome: CallOutcome[None] = CallOutcome()
        self._then = then

    def finish(self, error: Exception | None) -> None:
        """The call has ended, with this error or successfully; after a success `then` runs first."""
        if not self.outcome.claim():
            return
        if error is not None:
            self.outcome.set_error(error)
            return
        if self._then is not None:
            self._then()
        self.outcome.set_result(None)


class Tally:
    """What the broker acknowledged of one partition. Offsets are -1 if the broker did not tell them."""

    def __init__(self) -> None:
        self.records = 0
        self.first_offset = -1
        self.last_offset = -1

    def add(self, count: int, base_offset: int) -> None:
        """A batch was acknowledged; batches are acknowledged in the order of their sequences."""
        if not self.records:
            self.first_offset = base_offset
        self.records += count
        self.last_offset = base_offset + count - 1 if base_offset >= 0 else -1


class SharedIdentity:
    """See the module. `failure`: the first failure under this participation. `death`: the error that ended the sender. Any thread may read
    both."""

    def __init__(self) -> None:
        self.transactional_id: str | None = ""
        self.produce_versions = PRODUCE_VERSIONS
        self.drop_reason: tuple[type[DeliveryError], str] | None = None
        self.trouble = "there was no participation"
        self.failure: FencepostError | None = None
        self.death: FencepostError | None = None
        self.tallies: dict[TP, Tally] = {}
        self._participation: Participation | None = None
        self._fresh: dict[TP, int] = {}
        self._pauses_ms: list[float] = []
        self._stray: TP | None = None
        self._leaving: list[ParticipantCall] = []
        self._out: list[Command] = []
        self._quiet = True
        self._look_again = False

    # -- the hooks ---------------------------------------------------------------------------------------------------

    def may_create(self, topic: str) -> bool:
        return False  # shared partitions exist; if a topic was deleted and created again, its partitions were not shared

    def admit(self, topic: str, partition: int) -> bool:
        if self._participation is None or self.drop_reason is not None:
            return False
        if (topic, partition) in self.tallies:
            return True
        self._stray = self._stray or (topic, partition)
        return False

    def wrote(self, topic: str, partition: int) -> None:
        return None

    def unanswered(self) -> None:
        return None  # with transaction version 1 the owner renews its epoch after each shared transaction anyway

    def takes_over(self, topic: str, partition: int) -> int | None:
        return self._fresh.pop((topic, partition), None)

    def pause_ms(self, code: int, *, introduced: bool, attempts: int) -> tuple[float, float] | None:
        collided = code in COLLISIONS and not introduced and attempts <= COLLISION_ATTEMPTS
        return (1.0, self._pauses_ms[min(attempts, len(self._pauses_ms)) - 1]) if collided else None

    def looked(self, commands: Sequence[Command], *, quiet: bool) -> None:
        self._quiet = quiet
        self._look_again = False
        for command in commands:
            if isinstance(command, Settle):
                self._count(command)
        if self._stray is not None and self.failure is None:
            self.failure = self.not_shared(self._stray)
        if self.failure is not None and self.drop_reason is None:
            self.drop_reason = (DeliveryAborted, f"the participation has failed: {self.failure}")
            self._look_again = True

    def not_shared(self, tp: TP) -> NotShared:
        """The error for a partition that is not part of the participation."""
        named = f"transactional id {self.transactional_id!r} ({counted(len(self.tallies), 'partition')})"
        return NotShared(f"{name(tp)} is not part of the participation in {named}: the participant may not write to it")

    # -- the source of the producer id -------------------------------------------------------------------------------

    def identity_after(self, spent_pid: int | None) -> tuple[int, int] | None:
        return self._participation.identity if self._participation is not None else None

    def forget(self) -> None:
        self._out.append(Die(Fatal("bootstrap_servers lead to another cluster now, which does not have the shared transaction")))

    def advance(self, now_ms: float) -> list[Command]:
        commands, self._out = self._out, []
        if self._quiet and self._leaving:
            commands += [Return(call) for call in self._leaving]
            self._leaving = []
            self._participation = None
        return commands

    def answered(self, request: Request, answer: Any, now_ms: float) -> list[Command]:
        raise AssertionError(f"an answer to no request of ours: {type(answer).__name__}")

    def lost(self, request: Request, now_ms: float) -> None:
        return None

    def next_deadline(self, now_ms: float) -> float:
        return now_ms if self._look_again else NEVER

    # -- turns -------------------------------------------------------------------------------------------------------

    def attach(self, settings: Settings, *, nodes: ClusterConnectionStates, view: ClusterView, draw: Callable[[], float]) -> None:
        return None

    def called(self, call: ParticipantCall, now_ms: float) -> list[Command]:
        if call.outcome.done():
            return []  # the caller has stopped waiting
        if call.participation is None:
            self.drop_reason = self.drop_reason or (DeliveryAborted, "the participation was abandoned")
            self._leaving.append(call)
            return []
        if not self._quiet:
            return [Return(call, Misuse("records of the previous participation are still in flight: abandon it first"))]
        self._begin(call.participation, call.participants)
        return [Return(call)]

    def no_usable_broker(self, failure: NoUsableBroker) -> list[Command]:
        return []

    def abandon(self, error: FencepostError) -> list[Command]:
        self.death = self.death or error
        leaving, self._leaving = self._leaving, []
        return [Return(call) for call in leaving]

    def _begin(self, participation: Participation, participants: int) -> None:
        """Begin with a participation, without anything of the previous one."""
        self._participation = participation
        self._pauses_ms = [max(alone, each * participants) for alone, each in COLLISION_PAUSES_MS]
        self.transactional_id = participation.transactional_id
        self.produce_versions = LEAVES[participation.transaction_version == 2]
        self.tallies = {tp: Tally() for tp in participation.partitions}
        self._fresh = {(topic, partition): sequence for topic, partition, sequence in participation.sequences}
        self.drop_reason = self.failure = self._stray = None

    def _count(self, settled: Settle) -> None:
        if settled.failure is not None:
            self.failure = self.failure or settled.failure
            return
        tally = self.tallies.get((settled.batch.topic, int(settled.batch.partition)))
        if tally is not None:
            tally.add(int(settled.batch.count), settled.base_offset)
