"""What the services' errors mean to their clients: 503 only if nothing was committed."""

from __future__ import annotations

import runpy

import pytest

from fencepost import (
    CommitOutcomeUnknown,
    DeliveryTimeout,
    Fenced,
    FencepostError,
    MustAbort,
    NotPermitted,
    Persisted,
    PoolTakenOver,
    PoolTimeout,
    RecordRefused,
    RecordTooLarge,
    TransactionAborted,
    TransactionTimeout,
)
from fencepost.producer.wire import ErrorCode
from tests.services.serving import EXAMPLES

FILE = EXAMPLES / "http_status.py"


def refused(code: int) -> RecordRefused:
    return RecordRefused("no", topic="t", partition=0, persisted=Persisted.NO, code=code)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (PoolTimeout("x"), 503),
        (TransactionTimeout("x"), 503),
        (MustAbort("x"), 503),
        (Fenced("x"), 503),
        (PoolTakenOver("x"), 503),
        (TransactionAborted("x"), 503),
        (DeliveryTimeout("x", topic="t", partition=0, attempts=1, persisted=Persisted.NO), 503),
        (RecordTooLarge("x"), 422),
        (refused(ErrorCode.INVALID_RECORD), 422),
        (MustAbort("x", refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)), 422),
        (refused(ErrorCode.INVALID_TXN_STATE), 503),
        (MustAbort("x", refused(ErrorCode.INVALID_PRODUCER_EPOCH)), 503),
        (CommitOutcomeUnknown("x"), 500),
        (NotPermitted("x"), 500),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_status_of_an_error(error: FencepostError, status: int) -> None:
    """As the table of docs/services.md has it. TransactionAborted comes from `resolve`: the commit did not arrive. A record that was
    refused because its transaction had ended has nothing to change."""
    assert runpy.run_path(str(FILE))["status_of"](error) == status
