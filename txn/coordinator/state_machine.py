"""The state machine of a transactional producer: one table from (state, event) to (next state, action).

`transaction_manager` carries the actions out. If the table lacks a user's call for a state, the call is refused with the calls that the
state has. Any other missing event is a bug of ours. `mermaid()` draws the table.
"""

from __future__ import annotations

import enum
import logging
from typing import Final

from fencepost.txn.errors import IllegalCall

__all__ = ["AT_CLOSE", "CALLS", "TABLE", "Action", "Event", "Machine", "State", "legal_calls", "mermaid"]

log = logging.getLogger("fencepost.txn")


class State(enum.Enum):
    """The producer's state. Error messages show the values."""

    NEW = "not registered yet"
    REGISTERING = "asking the coordinator for an identity"
    READY = "between transactions"
    OPEN = "in a transaction"
    SPOILED = "in a transaction that must be aborted"
    PREPARING = "preparing: its records are in flight, or the coordinator is being asked about them"
    PREPARED = "in a prepared transaction"
    FLUSHING = "committing: its records must be acknowledged first"
    COMMITTING = "committing: the coordinator has been asked to"
    ABORTING = "aborting"
    RENEWING = "asking the coordinator for a new epoch"
    DEAD = "ended"


class Event(enum.Enum):
    """What happened. The first eight are the user's calls."""

    INIT = "init"
    BEGIN = "begin"
    COMMIT = "commit"
    ABORT = "abort"
    SEND_OFFSETS = "send_offsets"
    PREPARE = "prepare"
    SHARE = "share"
    RETURNED = "returned"
    HELD = "a transaction is open that registering must not abort"
    REGISTERED = "the coordinator gave an identity"
    SPOILED = "a part of the transaction failed"
    FLUSHED = "every record is acknowledged, and there was a write"
    EMPTY = "there was no write, and no request is in flight"
    CONFIRMED = "every record is acknowledged, and the coordinator has the transaction open"
    ENDED = "the coordinator ended the transaction"
    ENDED_WORN = "the coordinator ended the transaction, and its epoch cannot be used again"
    DIED = "the producer cannot continue"


class Action(enum.Enum):
    """What the manager does about an event."""

    NOTHING = "nothing"
    WAIT = "the call waits for the outcome"
    ASK_IDENTITY = "InitProducerId"
    ANSWER = "the call is answered at once"
    OPEN = "a transaction begins"
    REFUSE = "the call fails with the cause"
    DROP = "unsent records fail"
    ADD = "AddOffsetsToTxn in transaction version 1, then TxnOffsetCommit; the call waits for the outcome"
    SHARE = "AddPartitionsToTxn in transaction version 1; the call waits for the outcome"
    TAKE_BACK = "the accounts of a participant are taken, and the call is answered at once"
    END = "EndTxn"
    FINISH = "waiting calls are told that the transaction ended"
    FINISH_AND_ASK = "the same, and InitProducerId with the present identity (KIP-360)"
    FAIL = "waiting calls fail with the cause"


CALLS: Final = (
    Event.INIT,
    Event.BEGIN,
    Event.COMMIT,
    Event.ABORT,
    Event.SEND_OFFSETS,
    Event.PREPARE,
    Event.SHARE,
    Event.RETURNED,
)

TABLE: Final[dict[tuple[State, Event], tuple[State, Action]]] = {
    (State.NEW, Event.INIT): (State.REGISTERING, Action.ASK_IDENTITY),
    (State.NEW, Event.BEGIN): (State.REGISTERING, Action.ASK_IDENTITY),
    (State.REGISTERING, Event.INIT): (State.REGISTERING, Action.WAIT),
    (State.REGISTERING, Event.BEGIN): (State.REGISTERING, Action.WAIT),
    (State.REGISTERING, Event.HELD): (State.NEW, Action.FAIL),
    (State.REGISTERING, Event.REGISTERED): (State.READY, Action.FINISH),
    (State.READY, Event.INIT): (State.READY, Action.ANSWER),
    (State.READY, Event.BEGIN): (State.OPEN, Action.OPEN),
    (State.OPEN, Event.COMMIT): (State.FLUSHING, Action.WAIT),
    (State.OPEN, Event.ABORT): (State.ABORTING, Action.DROP),
    (State.OPEN, Event.SEND_OFFSETS): (State.OPEN, Action.ADD),
    (State.OPEN, Event.PREPARE): (State.PREPARING, Action.WAIT),
    (State.OPEN, Event.SHARE): (State.OPEN, Action.SHARE),
    (State.OPEN, Event.RETURNED): (State.OPEN, Action.TAKE_BACK),
    (State.OPEN, Event.SPOILED): (State.SPOILED, Action.FAIL),
    (State.SPOILED, Event.COMMIT): (State.SPOILED, Action.REFUSE),
    (State.SPOILED, Event.PREPARE): (State.SPOILED, Action.REFUSE),
    (State.SPOILED, Event.SHARE): (State.SPOILED, Action.REFUSE),
    (State.SPOILED, Event.RETURNED): (State.SPOILED, Action.REFUSE),
    (State.SPOILED, Event.ABORT): (State.ABORTING, Action.DROP),
    (State.SPOILED, Event.SEND_OFFSETS): (State.SPOILED, Action.REFUSE),
    (State.SPOILED, Event.SPOILED): (State.SPOILED, Action.NOTHING),
    (State.PREPARING, Event.PREPARE): (State.PREPARING, Action.WAIT),
    (State.PREPARING, Event.ABORT): (State.ABORTING, Action.DROP),
    (State.PREPARING, Event.SPOILED): (State.SPOILED, Action.FAIL),
    (State.PREPARING, Event.EMPTY): (State.PREPARED, Action.FINISH),
    (State.PREPARING, Event.CONFIRMED): (State.PREPARED, Action.FINISH),
    (State.PREPARED, Event.PREPARE): (State.PREPARED, Action.ANSWER),
    (State.PREPARED, Event.COMMIT): (State.FLUSHING, Action.WAIT),
    (State.PREPARED, Event.ABORT): (State.ABORTING, Action.DROP),
    (State.FLUSHING, Event.COMMIT): (State.FLUSHING, Action.WAIT),
    (State.FLUSHING, Event.ABORT): (State.ABORTING, Action.DROP),
    (State.FLUSHING, Event.SPOILED): (State.SPOILED, Action.FAIL),
    (State.FLUSHING, Event.EMPTY): (State.READY, Action.FINISH),
    (State.FLUSHING, Event.FLUSHED): (State.COMMITTING, Action.END),
    (State.COMMITTING, Event.COMMIT): (State.COMMITTING, Action.WAIT),
    (State.COMMITTING, Event.SPOILED): (State.SPOILED, Action.FAIL),
    (State.COMMITTING, Event.ENDED): (State.READY, Action.FINISH),
    (State.COMMITTING, Event.ENDED_WORN): (State.RENEWING, Action.FINISH_AND_ASK),
    (State.ABORTING, Event.ABORT): (State.ABORTING, Action.WAIT),
    (State.ABORTING, Event.SPOILED): (State.ABORTING, Action.NOTHING),
    (State.ABORTING, Event.EMPTY): (State.READY, Action.FINISH),
    (State.ABORTING, Event.FLUSHED): (State.ABORTING, Action.END),
    (State.ABORTING, Event.ENDED): (State.READY, Action.FINISH),
    (State.ABORTING, Event.ENDED_WORN): (State.RENEWING, Action.FINISH_AND_ASK),
    (State.RENEWING, Event.INIT): (State.RENEWING, Action.WAIT),
    (State.RENEWING, Event.BEGIN): (State.RENEWING, Action.WAIT),
    (State.RENEWING, Event.REGISTERED): (State.READY, Action.FINISH),
    **{(state, Event.DIED): (State.DEAD, Action.FAIL) for state in State if state is not State.DEAD},
    (State.DEAD, Event.DIED): (State.DEAD, Action.NOTHING),
    **{(State.DEAD, call): (State.DEAD, Action.REFUSE) for call in CALLS},
}
"""No call leads from COMMITTING to an abort, because the coordinator may have committed the transaction. Only a refusal of EndTxn does, if
it excludes that the commit was carried out (`TransactionManager._may_be_committed`)."""


CONCURRENT: Final = "concurrent transactions need a TransactionalPool, or an AsyncTransactionalPool with asyncio"
"""What the refusal of a second transaction adds."""


AT_CLOSE: Final = {
    State.OPEN: Event.ABORT,
    State.SPOILED: Event.ABORT,
    State.PREPARING: Event.ABORT,
    State.PREPARED: Event.ABORT,
    State.ABORTING: Event.ABORT,
    State.FLUSHING: Event.COMMIT,
    State.COMMITTING: Event.COMMIT,
}
"""What `close` does about the transaction: it aborts an open one and waits for a commit under way. It aborts a prepared one only if the
caller never got its token."""


class Machine:
    """The state, and the only way to change it."""

    def __init__(self) -> None:
        self.state = State.NEW

    def step(self, event: Event, why: object = "") -> Action:
        """Apply an event and return the action. Raises IllegalCall for a call that the state does not have."""
        self.refuse(event)
        old, (self.state, action) = self.state, TABLE[self.state, event]
        if old is not self.state:
            log.debug("%s -> %s (%s%s)", old.name, self.state.name, event.name, f": {why}" if why else "")
        return action

    def refuse(self, event: Event) -> None:
        """Raise IllegalCall for a call that the state does not have."""
        state = self.state
        if (state, event) not in TABLE:
            assert event in CALLS, f"{event} in {state}"
            told = f"{event.value}: the producer is {state.value}; what can be called now: {legal_calls(state)}"
            raise IllegalCall(f"{told}; {CONCURRENT}" if event is Event.BEGIN else told)


def legal_calls(state: State) -> str:
    """The calls that a state has, for an error message."""
    return ", ".join(call.value for call in CALLS if (state, call) in TABLE)


def mermaid() -> str:
    """The table as a Mermaid diagram: calls and events that change the state, one arrow for each pair of states."""
    arrows: dict[tuple[State, State], list[str]] = {}
    for (state, event), (target, _) in TABLE.items():
        if state is not target and event is not Event.DIED:
            arrows.setdefault((state, target), []).append(event.name.lower())
    lines = ["stateDiagram-v2", f"    [*] --> {State.NEW.name}"]
    lines += [f"    {state.name} --> {target.name}: {', '.join(events)}" for (state, target), events in arrows.items()]
    return "\n".join([*lines, f"    {State.DEAD.name} --> [*]", f"    note right of {State.DEAD.name}: died, from every state"]) + "\n"
