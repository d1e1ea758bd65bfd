"""Which HTTP status tells a client what an error of a transaction means. 503: nothing was committed, so the client may send it again."""

from __future__ import annotations

from fencepost import (
    CommitOutcomeUnknown,
    DeliveryError,
    Fenced,
    FencepostError,
    MustAbort,
    RecordRefused,
    RecordTooLarge,
    Retriable,
    TransactionAborted,
)


def status_of(error: FencepostError) -> int:
    cause = error.cause if isinstance(error, MustAbort) else error
    if isinstance(cause, RecordTooLarge) or (isinstance(cause, RecordRefused) and cause.permanent):
        return 422  # the record itself: the same request fails again
    if isinstance(error, CommitOutcomeUnknown):
        return 500  # it may be committed: the client must not send it again
    if isinstance(error, Retriable | MustAbort | DeliveryError | Fenced | TransactionAborted):
        return 503  # aborted, or never begun
    return 500
