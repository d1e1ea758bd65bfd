"""The outcome of this producer's own transaction, after its end was refused although it may have happened already.

Another process with the token may have ended the transaction. A commit whose reply was lost may have been carried out. A newer producer may
have registered since. So `Fenced`, or a coordinator without such a transaction, says nothing about the outcome, and the coordinator's state
and the logs are asked, as with any token.
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
"""The refusals of an end that may have happened already."""

LEAST_S: Final = 0.5
"""The least time for this, even if less of the call's time is left. A refusal usually comes early, and without this question its cause
would stay unknown."""


def to_ask_about(
    token: PreparedTransaction | None, in_question: PreparedTransaction | None, error: FencepostError
) -> PreparedTransaction | None:
    """What to ask about after a refused end; None if the refusal itself is the answer. `token`: that of the transaction, if it was prepared
    and wrote. `in_question`: its token if the coordinator had been asked to commit.

    A process with the token may have ended it, and a newer producer may have registered since; a refusal tells neither. Nor does the error
    that ended the producer, if the coordinator had been asked to commit.
    """
    if token is not None:
        return token if isinstance(error, REFUSED) else None
    return in_question if isinstance(error, (*REFUSED, Fatal, ProducerClosed)) else None


async def find_out(token: PreparedTransaction, error: FencepostError, settings: Settings, left_s: float) -> PreparedStatus:
    """The outcome. `error`: the refusal of its end. Raises CommitOutcomeUnknown if the outcome is not known."""
    try:
        status = await run(token, settings, max(LEAST_S, left_s))
    except FencepostError as second:  # in time, or with these permissions, or of this cluster
        raise CommitOutcomeUnknown(f"{error}; and the transaction's outcome could not be asked for: {second}") from error
    if status.outcome not in (Outcome.COMMITTED, Outcome.ABORTED):
        raise CommitOutcomeUnknown(f"{error}; the transaction's outcome is not known: {status.why}") from error
    return status


def settle(status: PreparedStatus, error: FencepostError, *, committed: bool, prepared: bool) -> None:
    """Return if the transaction has the wanted outcome, and raise the true one otherwise. `committed`: the wanted outcome."""
    if (status.outcome is Outcome.COMMITTED) is committed:
        return
    if not committed:
        raise TransactionCommitted(f"the transaction has been committed: {status.why}") from error
    if not prepared and isinstance(error, REFUSED):
        raise error  # it says that the transaction is not committed, and why the producer cannot continue
    raise TransactionAborted(f"the transaction has been aborted: {status.why}") from error
