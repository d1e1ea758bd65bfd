"""What became of this producer's own transaction, where its end was refused and may have happened already.

Whoever has the token of a prepared transaction may have ended it, a commit whose reply was lost may have been carried out, and a newer
producer of the same id may have come since: `Fenced`, or a coordinator that has no such transaction, then says nothing about the outcome.
So the coordinator's state and the logs are asked, as with a token anywhere else.
"""

from __future__ import annotations

from typing import Final

from fencepost.producer.config.settings import Settings
from fencepost.producer.errors import Fatal, Fenced, FencepostError, ProducerClosed
from fencepost.txn.errors import CommitOutcomeUnknown, IdentityLost, MustAbort, TransactionAborted, TransactionCommitted
from fencepost.txn.recovery.finish import run
from fencepost.txn.recovery.outcome import Outcome, PreparedStatus
from fencepost.txn.recovery.token import PreparedTransaction

REFUSED: Final = (Fenced, IdentityLost, MustAbort)
"""How an end is refused that may have happened already."""

LEAST_S: Final = 0.5
"""However little of the call's time is left: a refusal comes in time as a rule, and without a look it would stay a riddle."""


def to_ask_about(
    token: PreparedTransaction | None, in_question: PreparedTransaction | None, error: FencepostError
) -> PreparedTransaction | None:
    """What to ask about after the end was refused; None where the refusal says it all. `token`: of the transaction, where it was prepared
    and wrote; `in_question`: where the coordinator had been asked to commit.

    The owner of a token may have ended it, and a newer producer may have registered since: a refusal says neither. Nor does what ended the
    producer, where the coordinator had been asked to commit.
    """
    if token is not None:
        return token if isinstance(error, REFUSED) else None
    return in_question if isinstance(error, (*REFUSED, Fatal, ProducerClosed)) else None


async def find_out(token: PreparedTransaction, error: FencepostError, settings: Settings, left_s: float) -> PreparedStatus:
    """How it ended. `error`: how its end was refused. Raises CommitOutcomeUnknown where that cannot be told."""
    try:
        status = await run(token, settings, max(LEAST_S, left_s))
    except FencepostError as second:  # in time, or with these permissions, or of this cluster
        raise CommitOutcomeUnknown(f"{error}; and what became of the transaction could not be asked: {second}") from error
    if status.outcome not in (Outcome.COMMITTED, Outcome.ABORTED):
        raise CommitOutcomeUnknown(f"{error}; what became of the transaction is not known: {status.why}") from error
    return status


def settle(status: PreparedStatus, error: FencepostError, *, committed: bool, prepared: bool) -> None:
    """Return where the transaction has the outcome that was wanted, and raise what is true otherwise. `committed`: what was wanted."""
    if (status.outcome is Outcome.COMMITTED) is committed:
        return
    if not committed:
        raise TransactionCommitted(f"the transaction has been committed: {status.why}") from error
    if not prepared and isinstance(error, REFUSED):
        raise error  # which says that it is not committed, and why the producer cannot go on
    raise TransactionAborted(f"the transaction has been aborted: {status.why}") from error
