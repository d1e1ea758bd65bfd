"""The slots of a pool: which are free, which have a transaction, and what becomes of one when its block ends.

The producer's state decides. It is free between transactions. If a commit or an abort goes on without its caller, the slot settles until
that is over, because its outcome must not be lost. Otherwise the producer is replaced. This module makes no call, and waits for nothing.
The pool's lock is held meanwhile.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from itertools import count
from typing import Any, Final
from weakref import ref

from fencepost.txn.coordinator.state_machine import State
from fencepost.txn.pool.instance_registration import RegistrationWindow
from fencepost.txn.producer_access import state_of, was_committed

BACKOFF_S: Final = 0.1
BACKOFF_MAX_S: Final = 5.0


class Phase(enum.Enum):
    """What a slot does."""

    VACANT = "it has no producer that can be used yet; the next use opens it, or waits for a registration that goes on"
    OPENING = "its producer is being opened"
    FREE = "its producer waits for a transaction"
    IN_USE = "a block has its producer"
    SETTLING = "its last transaction ends, and no caller waits for that"


AFTER: Final = {
    State.READY: Phase.FREE,
    State.RENEWING: Phase.FREE,
    State.FLUSHING: Phase.SETTLING,
    State.COMMITTING: Phase.SETTLING,
    State.ABORTING: Phase.SETTLING,
}
"""The phase of a slot whose block has ended, by its producer's state. In all other states the producer is replaced."""
OPENING: Final = (State.NEW, State.REGISTERING)
"""States of a producer that is not registered yet. It goes on after its caller has left."""
UNENDED: Final = (State.OPEN, State.SPOILED, State.FLUSHING, State.PREPARING)
"""States in which the transaction of a producer that is replaced is aborted first."""


class Holder:
    """A block or a call that takes slots. `is_gone`: it has ended, and puts back nothing any more."""

    is_gone = False


class Slot:
    """One slot. `producer`: None until the slot is being opened. `registration`: the pool's, under which it made the producer. `window`:
    when the producer may register. `in_doubt`: its last transaction raised CommitOutcomeUnknown, whose `resolve` asks this producer, so the
    next transaction gets another one. `not_before`: when it may be opened again after a failure. `since`: when it was taken. `holder`: the
    block or call that took it. `turn`: slots that became free earlier have a lower one."""

    def __init__(self, number: int) -> None:
        self.number: Final = number
        self.producer: Any = None
        self.registration: object = None
        self.window = RegistrationWindow()
        self.phase = Phase.VACANT
        self.transaction: Any = None
        self.in_doubt = False
        self.not_before = 0.0
        self.failures = 0
        self.since = 0.0
        self.holder: Callable[[], Holder | None] = _nobody
        self.turn = 0

    @property
    def state(self) -> State:
        """The producer's."""
        return state_of(self.producer)

    @property
    def is_registering(self) -> bool:
        """Its producer asks the coordinator for an identity, for its caller or without one."""
        producer = self.producer  # Another thread may stop the registration.
        return producer is not None and state_of(producer) in OPENING

    @property
    def is_open(self) -> bool:
        """It has a producer that was registered."""
        return self.producer is not None and not self.is_registering

    @property
    def is_abandoned(self) -> bool:
        """Its block or call is gone without having put it back: Ctrl-C struck it between two steps."""
        return self.phase in (Phase.IN_USE, Phase.OPENING) and is_gone(self.holder())

    def taken_by(self, holder: Holder, phase: Phase, now: float) -> None:
        """The phase comes last: a slot without it is not taken."""
        self.holder, self.since = ref(holder), now
        self.phase = phase

    def committed(self) -> bool | None:
        """Whether its last transaction was committed. None: the producer does not know it."""
        return was_committed(self.producer, self.transaction)

    def rest(self, now: float) -> None:
        """After a failure to open it: wait longer each time."""
        self.phase = Phase.VACANT
        self.not_before = now + min(BACKOFF_MAX_S, BACKOFF_S * 2**self.failures)
        self.failures = min(self.failures + 1, 10)


class Slots:
    """All slots. `registration`: the pool's present one; a producer of an earlier one is not used again."""

    def __init__(self, size: int) -> None:
        self.all: Final = [Slot(number) for number in range(size)]
        self.registration: object = None
        self._turns = count()

    def count(self, *phases: Phase) -> int:
        return sum(slot.phase in phases for slot in self.all)

    def longest_s(self, now: float) -> float:
        """The age of the oldest transaction."""
        return max((now - slot.since for slot in self.all if slot.phase is Phase.IN_USE), default=0.0)

    def take(self, holder: Holder, now: float) -> Slot | None:
        """A slot for a transaction, in use or opening. The one that has been free for longest goes first, because its coordinator has had
        time to write the markers of its last transaction. Before the pool is registered, one caller at a time opens a slot."""
        for slot in sorted((slot for slot in self.all if slot.phase is Phase.FREE), key=lambda slot: slot.turn):
            if slot.registration is self.registration and slot.state in (State.READY, State.RENEWING):
                slot.taken_by(holder, Phase.IN_USE, now)
                return slot
            slot.phase = Phase.VACANT
        if self.registration is None and self.count(Phase.OPENING):
            return None
        for slot in self.all:
            if slot.phase is Phase.VACANT and slot.not_before <= now:
                slot.taken_by(holder, Phase.OPENING, now)
                return slot
        return None

    def take_vacant(self, number: int, holder: Holder) -> Slot | None:
        """This slot, if it has no registered producer."""
        slot = self.all[number]
        if slot.phase is not Phase.VACANT or slot.is_open:
            return None
        slot.taken_by(holder, Phase.OPENING, slot.since)
        return slot

    def was_registered_meanwhile(self, slot: Slot) -> bool:
        """The registration of a slot ended after its caller had left."""
        return (
            slot.phase is Phase.VACANT
            and slot.is_open
            and slot.state is State.READY
            and not slot.in_doubt
            and slot.registration is self.registration
        )

    def put_back(self, slot: Slot) -> Phase:
        """The block has ended, or a settling slot is looked at again. Returns the phase, and forgets the transaction once it is over."""
        phase = AFTER.get(slot.state, Phase.VACANT)
        if phase is Phase.FREE and (slot.in_doubt or slot.registration is not self.registration):
            phase = Phase.VACANT
        if phase is Phase.FREE:
            slot.failures, slot.turn = 0, next(self._turns)
        slot.phase = phase
        return phase

    @property
    def changes_by_itself(self) -> bool:
        """Whether a slot may become free without a call of the pool."""
        return any(
            slot.phase is Phase.SETTLING or (slot.phase is Phase.VACANT and (slot.failures or slot.is_registering)) for slot in self.all
        )


def is_gone(holder: Holder | None) -> bool:
    """Whether it has ended, or the program has dropped it."""
    return holder is None or holder.is_gone


def _nobody() -> None:
    """The holder of a slot that was never taken."""
