"""Whether a transaction that had to be aborted is worth another attempt, for `run`. It makes none itself."""

from __future__ import annotations

from typing import Final

from producer.core.errors import DeliveryError, RecordRefused
from producer.wire.codes import ErrorCode
from txn.errors import MustAbort
from txn.verdict import HOPELESS

WORTH_ANOTHER: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""Refusals of a record that say nothing about the record."""


def worth_another(error: MustAbort | DeliveryError) -> bool:
    """Whether the same records and offsets may fare better in another transaction."""
    if isinstance(error, MustAbort) and error.cause is None:
        return error.code not in HOPELESS
    cause = error.cause if isinstance(error, MustAbort) else error
    return not isinstance(cause, RecordRefused) or cause.code in WORTH_ANOTHER
