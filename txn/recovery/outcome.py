"""What became of a prepared transaction, concluded from what its coordinator and the logs say. Nothing here asks anybody, or guesses.

The coordinator knows only the present of a transactional id. As long as that is still the identity of the token, or the one that its end
brought, it decides. Later the markers do: the transaction ends in each partition with a control batch of its producer id, of the token's
epoch e with transaction version 1 (a fence or a timeout aborts with e+1), and of e+1 with version 2, which no other transaction ends with.
"""

from __future__ import annotations

import enum
from typing import Final

from msgspec import Struct

from fencepost.producer.wire.messages.describe_transactions import TransactionState
from fencepost.txn.recovery.prepare import ONGOING
from fencepost.txn.recovery.token import PreparedTransaction

__all__ = [
    "ENDED",
    "Evidence",
    "Marker",
    "Outcome",
    "PreparedStatus",
    "Reading",
    "conclude",
    "is_open",
    "read_coordinator",
    "read_marker_of",
]


class Outcome(enum.Enum):
    """What a prepared transaction has come to."""

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
"""What is decided in each state of the coordinator's in which anything is."""


class Marker(Struct, frozen=True):
    """The control batch that ended the transaction in one partition."""

    topic: str
    partition: int
    offset: int
    producer_epoch: int
    committed: bool


class PreparedStatus(Struct, frozen=True):
    """What became of a prepared transaction, and how that is known. `why`: in words. `markers`: those that were found. `deadline_left_s`:
    how long it stays open, by this machine's clock and the coordinator's deadline; None where it is not open, or has none. `already`: a
    commit or an abort found it so, and had nothing to do."""

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
    """What one partition's log told. `why`: there is no marker. `lost`: nothing can come to light there any more."""

    topic: str
    partition: int
    marker: Marker | None = None
    why: str = "no marker of it yet"
    lost: bool = False


def read_coordinator(token: PreparedTransaction, state: TransactionState) -> Outcome | None:
    """What the coordinator's present state says about the token's transaction; None for nothing, as it is about a later one."""
    if state.producer_id != token.producer_id:
        return None
    if state.transaction_state == ONGOING:
        return Outcome.OPEN if is_open(token, state) else None
    if state.producer_epoch == token.producer_epoch:
        # When it was prepared, the coordinator said that it is open under this identity, so any end under it is this one's.
        return ENDED.get(state.transaction_state)
    if token.transaction_version >= 2 and state.producer_epoch == token.producer_epoch + 1:
        # Its own end brought this epoch, and the next one's will bring the next. With version 1 the epoch may be a later producer's.
        return ENDED.get(state.transaction_state)
    return None


def is_open(token: PreparedTransaction, state: TransactionState) -> bool:
    """Whether this very transaction is open: its identity, and its beginning, which the coordinator keeps to the millisecond, so that not
    even a client that goes on under the same identity (transaction version 1) can be taken for it."""
    ours = (state.producer_id, state.producer_epoch) == token.identity and token.started_ms in (None, state.transaction_start_time_ms)
    return ours and state.transaction_state == ONGOING


def read_marker_of(token: PreparedTransaction, *, epoch: int, committed: bool, intact: bool) -> Reading:
    """What a marker after the transaction's first record says. `intact`: that record is still there, so nothing between has been deleted.

    With version 1 the epoch after the token's is also that of the next producer, whose transactions end with it as well; but the first
    marker after a record ends that record's transaction, and such a one can only have been an abort.
    """
    own = token.producer_epoch + (1 if token.transaction_version >= 2 else 0)
    if epoch == own:
        return Reading.OURS
    if epoch < own:
        return Reading.NOT_OURS
    fenced = token.transaction_version < 2 and epoch == token.producer_epoch + 1 and not committed and intact
    return Reading.OURS if fenced else Reading.PAST


def conclude(token: PreparedTransaction, state: TransactionState | None, found: list[Evidence], now_ms: int) -> PreparedStatus:
    """Everything together. `state`: None where the coordinator does not know the transactional id (any more)."""
    said = read_coordinator(token, state) if state is not None else None
    markers = tuple(each.marker for each in found if each.marker is not None)
    ends = {Outcome.COMMITTED if marker.committed else Outcome.ABORTED for marker in markers}
    if said is not None and said is not Outcome.OPEN:
        ends.add(said)
    if len(ends) > 1:
        words = "; ".join(_words(marker) for marker in markers)
        return PreparedStatus(Outcome.UNKNOWN, f"there is contradictory evidence: {_present(token, state)}; {words}", markers)
    if said is Outcome.OPEN:
        left_s = None if token.deadline_ms is None else (token.deadline_ms - now_ms) / 1000.0
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
