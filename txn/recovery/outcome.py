"""The outcome of a prepared transaction, concluded from its coordinator's state and from the logs. This module sends no request.

The coordinator knows only the present state of a transactional id. It decides as long as that has the token's identity, or the one that the
transaction's end returned. Later the markers decide. In each partition the transaction ends with a control batch of its producer id. With
transaction version 1 its epoch is the token's epoch e, or e+1 if a fence or a timeout aborted it. With version 2 it is e+1, which ends no
other transaction.
"""

from __future__ import annotations

import enum
from typing import Final

from msgspec import Struct

from fencepost.producer.wire.messages.describe_transactions import TransactionState
from fencepost.txn.recovery.token import PreparedTransaction

__all__ = [
    "ENDED",
    "Evidence",
    "Marker",
    "Outcome",
    "PreparedStatus",
    "Reading",
    "conclude",
    "deadline_of",
    "is_open",
    "next_identity",
    "read_coordinator",
    "read_marker_of",
    "registered_since",
]


class Outcome(enum.Enum):
    """The outcome of a prepared transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    NOTHING_WRITTEN = "nothing was written"
    UNKNOWN = "unknown"


ENDED: Final = {
    "PrepareCommit": Outcome.COMMITTED,
    "CompleteCommit": Outcome.COMMITTED,
    "PrepareAbort": Outcome.ABORTED,
    "CompleteAbort": Outcome.ABORTED,
}
"""The outcome that each of the coordinator's states implies, if any."""


ONGOING: Final = "Ongoing"
COMPLETE: Final = ("CompleteCommit", "CompleteAbort")
NO_DEADLINE_MS: Final = (1 << 31) - 1
"""The timeout that the coordinator keeps for a transaction that never times out (KIP-939)."""


class Marker(Struct, frozen=True):
    """The control batch that ended the transaction in one partition."""

    topic: str
    partition: int
    offset: int
    producer_epoch: int
    committed: bool


class PreparedStatus(Struct, frozen=True):
    """The outcome of a prepared transaction, with its evidence. `why`: in words. `markers`: those that were found. `deadline_left_s`: how
    long it stays open, by this machine's clock and the coordinator's deadline; None if it is not open, or has none. `already`: a commit or
    abort found this outcome, and did nothing."""

    outcome: Outcome
    why: str
    markers: tuple[Marker, ...] = ()
    deadline_left_s: float | None = None
    already: bool = False


class Reading(enum.Enum):
    """What a control batch of the token's producer id says about its transaction."""

    OURS = "it ended the transaction"
    NOT_OURS = "it belongs to something else, and the transaction's own may follow"
    PAST = "the transaction's own should have come before"


class Evidence(Struct, frozen=True):
    """The evidence of one partition's log. `why`: the reason for a missing marker. `lost`: no marker can be found there any more."""

    topic: str
    partition: int
    marker: Marker | None = None
    why: str = "no marker of it yet"
    lost: bool = False


def read_coordinator(token: PreparedTransaction, state: TransactionState) -> Outcome | None:
    """What the coordinator's present state says about the token's transaction; None if it is about a later one."""
    if state.producer_id != token.producer_id:
        return None
    if state.transaction_state == ONGOING:
        return Outcome.OPEN if is_open(token, state) else None
    if state.producer_epoch == token.producer_epoch:
        # When it was prepared, the coordinator reported it as open under this identity, so any end under this identity is its own.
        return ENDED.get(state.transaction_state)
    if token.transaction_version >= 2 and state.producer_epoch == token.producer_epoch + 1:
        # Its own end returned this epoch, and the next end returns the next. With version 1 the epoch may be a later producer's.
        return ENDED.get(state.transaction_state)
    return None


def deadline_of(state: TransactionState) -> int | None:
    """When the coordinator aborts the open transaction, in milliseconds since 1970 by its clock; None: never (KIP-939)."""
    if state.transaction_timeout_ms == NO_DEADLINE_MS:
        return None
    return state.transaction_start_time_ms + state.transaction_timeout_ms


def is_open(token: PreparedTransaction, state: TransactionState) -> bool:
    """Whether this very transaction is open. The coordinator must have its identity and its start time in milliseconds. So a client that
    continues under the same identity (transaction version 1) is not taken for it."""
    ours = (state.producer_id, state.producer_epoch) == token.identity and token.started_ms in (None, state.transaction_start_time_ms)
    return ours and state.transaction_state == ONGOING


def next_identity(token: PreparedTransaction, state: TransactionState) -> tuple[int, int] | None:
    """The identity that the end of the token's transaction gave to its producer; None if the state does not show it.

    With transaction version 2 the end bumps the epoch by one. Until the next registration or transaction, the coordinator keeps the start
    time of the transaction that ended last. If that is the token's, no producer has registered since. A new producer id (after epoch
    32,766) is not recognised.
    """
    if token.transaction_version < 2 or token.started_ms is None or state.transaction_state not in COMPLETE:
        return None
    following = token.producer_id, token.producer_epoch + 1
    found = state.producer_id, state.producer_epoch
    return found if found == following and state.transaction_start_time_ms == token.started_ms else None


def registered_since(identity: tuple[int, int], state: TransactionState, *, version2: bool) -> bool:
    """Whether another producer has registered under the id of a producer whose newest identity is this one.

    The end of the producer's own transaction can show the next epoch: always with transaction version 2, and with version 1 if a timeout
    aborted it. A registration that finds a transaction open aborts it and takes the epoch after that. With version 1 a producer that found
    none open, and aborted its own first transaction, looks like that timeout; so does a registration that is under way.
    """
    if (state.producer_id, state.producer_epoch) == identity:
        return False
    ends = ENDED if version2 else ("PrepareAbort", "CompleteAbort")
    return (state.producer_id, state.producer_epoch - 1) != identity or state.transaction_state not in ends


def read_marker_of(token: PreparedTransaction, *, epoch: int, committed: bool, intact: bool) -> Reading:
    """What a marker after the transaction's first record says. `intact`: that record is still there, so nothing between was deleted.

    With version 1 the next producer has the epoch after the token's, and its transactions end with it too. But the first marker after a
    record ends that record's transaction, and with that epoch it can only be an abort.
    """
    own = token.producer_epoch + (1 if token.transaction_version >= 2 else 0)
    if epoch == own:
        return Reading.OURS
    if epoch < own:
        return Reading.NOT_OURS
    fenced = token.transaction_version < 2 and epoch == token.producer_epoch + 1 and not committed and intact
    return Reading.OURS if fenced else Reading.PAST


def conclude(token: PreparedTransaction, state: TransactionState | None, found: list[Evidence], now_ms: int) -> PreparedStatus:
    """The conclusion from all evidence. `state`: None if the coordinator does not know the transactional id."""
    said = read_coordinator(token, state) if state is not None else None
    markers = tuple(each.marker for each in found if each.marker is not None)
    ends = {Outcome.COMMITTED if marker.committed else Outcome.ABORTED for marker in markers}
    if said is not None and said is not Outcome.OPEN:
        ends.add(said)
    if len(ends) > 1:
        words = "; ".join(_words(marker) for marker in markers)
        return PreparedStatus(Outcome.UNKNOWN, f"the evidence is contradictory: {_present(token, state)}; {words}", markers)
    if said is Outcome.OPEN:
        assert state is not None
        # A token that was not prepared, but made of a commit in doubt, has no deadline.
        ends_ms = deadline_of(state) if token.deadline_ms is None else token.deadline_ms
        left_s = None if ends_ms is None else (ends_ms - now_ms) / 1000.0
        return PreparedStatus(Outcome.OPEN, f"the coordinator has it open{_when(left_s)}", markers, left_s)
    if ends:
        (outcome,) = ends
        reasons = [_words(marker) for marker in markers] or [_present(token, state)]
        return PreparedStatus(outcome, "; ".join(reasons), markers)
    if not found:
        return PreparedStatus(Outcome.UNKNOWN, f"{_present(token, state)}, and the token names no partition with a marker to look for")
    return PreparedStatus(Outcome.UNKNOWN, f"{_present(token, state)}; {'; '.join(map(_missing, found))}")


def _present(token: PreparedTransaction, state: TransactionState | None) -> str:
    if state is None:
        return f"the coordinator does not know transactional id {token.transactional_id!r} (any more)"
    return f"the coordinator has {state.transaction_state} under producer id {state.producer_id}, epoch {state.producer_epoch}"


def _words(marker: Marker) -> str:
    kind = "commit" if marker.committed else "abort"
    return f"{marker.topic}-{marker.partition} has its {kind} marker at offset {marker.offset} (epoch {marker.producer_epoch})"


def _missing(each: Evidence) -> str:
    return f"{each.topic}-{each.partition}: {each.why}"


def _when(left_s: float | None) -> str:
    if left_s is None:
        return ", with no deadline"
    return f", for another {left_s:.1f} s" if left_s > 0 else ", and will abort it any moment: its deadline has passed"
