"""A borrowed identity, as the sender sees it: hooks that let through what was lent, and a source of ids that asks no broker.

It is read-only. No epoch is bumped here, no identity asked for, no transaction ended; what an ordinary producer would heal that way fails
here, and dooms what waits behind it. It decides nothing about the transaction: whoever lent it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from fencepost.producer.config.settings import Settings
from fencepost.producer.core.cluster.broker_connections import PRODUCE_VERSIONS, Nodes, Request
from fencepost.producer.core.cluster.view import ClusterView
from fencepost.producer.core.events import NEVER, Command, Die, Return, Settle
from fencepost.producer.errors import DeliveryError, Fatal, FencepostError, Misuse, NoUsableBroker
from fencepost.producer.wire.codes import ErrorCode
from fencepost.txn.call_outcome import CallOutcome
from fencepost.txn.errors import DeliveryAborted
from fencepost.txn.protocol.requests import LEAVES
from fencepost.txn.shared.loan import TP, Loan, name

COLLISIONS: Final = frozenset({ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NETWORK_EXCEPTION, ErrorCode.CONCURRENT_TRANSACTIONS})
"""What a partition's first batch of a transaction is answered where the leader could not ask the coordinator about it (KIP-890), because it
was just asking about another one: it keeps one question for each transactional id."""

COLLISION_PAUSES_MS: Final = ((20.0, 3.0), (60.0, 4.5), (180.0, 6.0))
"""From the first attempt on, the last one for all further ones: up to so many ms, or up to so many for each borrower that there is, if that
is more; drawn evenly. Whoever collides comes one after the other then, which takes as long as there are borrowers. Shorter pauses ask a
broker that is slow, because it has just started, ten times as often as it can answer (tests/bench/loans.py); with those of a backoff the
last ones would wait for seconds."""

COLLISION_ATTEMPTS: Final = 100
"""Whoever is refused so often has another trouble than a collision, and waits as long as usual from there on."""


class NotLent(Misuse, ValueError):
    """The partition is not part of the loan: nothing may be written there."""


class Turn:
    """What the borrower wants of its sender: `loan` taken up, or where that is None, what was not sent dropped and the rest waited for.
    `borrowers`: how many take up parts of the same transaction."""

    def __init__(self, loan: Loan | None, then: Callable[[], None] | None = None, *, borrowers: int = 1) -> None:
        self.loan: Final = loan
        self.borrowers: Final = borrowers
        self.outcome: CallOutcome[None] = CallOutcome()
        self._then = then

    def finish(self, error: Exception | None) -> None:
        """This came of it. `then` runs right before, where it went well."""
        if not self.outcome.claim():
            return
        if error is not None:
            self.outcome.set_error(error)
            return
        if self._then is not None:
            self._then()
        self.outcome.set_result(None)


class Tally:
    """What was acknowledged of one partition; offsets are -1 where nobody told."""

    def __init__(self) -> None:
        self.records = 0
        self.first_offset = -1
        self.last_offset = -1

    def add(self, count: int, base_offset: int) -> None:
        """A batch; they come in the order of their sequences."""
        if not self.records:
            self.first_offset = base_offset
        self.records += count
        self.last_offset = base_offset + count - 1 if base_offset >= 0 else -1


class Borrowed:
    """See the module. `failure`: the first thing that went wrong under this loan; `death`: what ended the sender; any thread may look."""

    def __init__(self) -> None:
        self.transactional_id: str | None = ""
        self.produce_versions = PRODUCE_VERSIONS
        self.doom: tuple[type[DeliveryError], str] | None = None
        self.trouble = "no loan was taken up"
        self.failure: FencepostError | None = None
        self.death: FencepostError | None = None
        self.tallies: dict[TP, Tally] = {}
        self._loan: Loan | None = None
        self._fresh: dict[TP, int] = {}
        self._pauses_ms: list[float] = []
        self._trespassed: TP | None = None
        self._leaving: list[Turn] = []
        self._out: list[Command] = []
        self._quiet = True
        self._look_again = False

    # -- the hooks ---------------------------------------------------------------------------------------------------

    def may_create(self, topic: str) -> bool:
        return False  # what was lent is there, and what has taken the place of a deleted topic was not lent

    def may_leave(self, topic: str, partition: int) -> bool:
        if self._loan is None or self.doom is not None:
            return False
        if (topic, partition) in self.tallies:
            return True
        self._trespassed = self._trespassed or (topic, partition)
        return False

    def wrote(self, topic: str, partition: int) -> None:
        return None

    def unanswered(self) -> None:
        return None  # with transaction version 1 the owner renews its epoch after a loan as it is

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
        if self._trespassed is not None and self.failure is None:
            self.failure = self.not_lent(self._trespassed)
        if self.failure is not None and self.doom is None:
            self.doom = (DeliveryAborted, f"the loan is spoilt: {self.failure}")
            self._look_again = True

    def not_lent(self, tp: TP) -> NotLent:
        """What is said of a partition that is not part of the loan."""
        whose = f"transactional id {self.transactional_id!r}"
        return NotLent(
            f"{name(tp)} is not part of the loan of {whose}, which is for {len(self.tallies)} partitions: nothing may be written there"
        )

    # -- the office --------------------------------------------------------------------------------------------------

    def identity_after(self, spent_pid: int | None) -> tuple[int, int] | None:
        return self._loan.identity if self._loan is not None else None

    def forget(self) -> None:
        self._out.append(Die(Fatal("bootstrap_servers lead to another cluster now, which knows nothing of the transaction that was lent")))

    def advance(self, now_ms: float) -> list[Command]:
        commands, self._out = self._out, []
        if self._quiet and self._leaving:
            commands += [Return(turn) for turn in self._leaving]
            self._leaving = []
            self._loan = None
        return commands

    def answered(self, request: Request, answer: Any, now_ms: float) -> list[Command]:
        raise AssertionError(f"an answer to no request of ours: {type(answer).__name__}")

    def lost(self, request: Request, now_ms: float) -> None:
        return None

    def next_deadline(self, now_ms: float) -> float:
        return now_ms if self._look_again else NEVER

    # -- turns -------------------------------------------------------------------------------------------------------

    def attach(self, settings: Settings, *, nodes: Nodes, view: ClusterView, draw: Callable[[], float]) -> None:
        return None

    def called(self, turn: Turn, now_ms: float) -> list[Command]:
        if turn.outcome.done():
            return []  # whoever asked has left
        if turn.loan is None:
            self.doom = self.doom or (DeliveryAborted, "the loan was abandoned")
            self._leaving.append(turn)
            return []
        if not self._quiet:
            return [Return(turn, Misuse("records of the loan before are still on their way: abandon it first"))]
        self._take_up(turn.loan, turn.borrowers)
        return [Return(turn)]

    def despair(self, failure: NoUsableBroker) -> list[Command]:
        return []

    def abandon(self, error: FencepostError) -> list[Command]:
        self.death = self.death or error
        leaving, self._leaving = self._leaving, []
        return [Return(turn) for turn in leaving]

    def _take_up(self, loan: Loan, borrowers: int) -> None:
        """Nothing of a loan before is left."""
        self._loan = loan
        self._pauses_ms = [max(alone, each * borrowers) for alone, each in COLLISION_PAUSES_MS]
        self.transactional_id = loan.transactional_id
        self.produce_versions = LEAVES[loan.transaction_version == 2]
        self.tallies = {tp: Tally() for tp in loan.partitions}
        self._fresh = {(topic, partition): sequence for topic, partition, sequence in loan.sequences}
        self.doom = self.failure = self._trespassed = None

    def _count(self, settled: Settle) -> None:
        if settled.failure is not None:
            self.failure = self.failure or settled.failure
            return
        tally = self.tallies.get((settled.batch.topic, int(settled.batch.partition)))
        if tally is not None:
            tally.add(int(settled.batch.count), settled.base_offset)
