"""The error table against Kafka's own: what an idempotent producer does about each code of Produce."""

from __future__ import annotations

import pytest

from fencepost.producer.core.error_table import TABLE, ErrorAction, Landed, judge
from fencepost.producer.wire import Api, ErrorCode

RETRIED = {2, 7, 14, 19, 20, 51, 89}
REFRESHED = {3, 5, 6, 13, 56, 74, 100, 103}
FAILED = {-1, 17, 18, 21, 29, 32, 43, 48, 49, 76, 87, 120}
HEALED = {45, 47, 59}
FATAL = {31, 35, 53, 90}


@pytest.mark.parametrize(
    ("action", "codes"),
    [
        (ErrorAction.RETRY, RETRIED),
        (ErrorAction.REFRESH, REFRESHED),
        (ErrorAction.FAIL, FAILED),
        (ErrorAction.HEAL, HEALED),
        (ErrorAction.FATAL, FATAL),
        (ErrorAction.SPLIT, {10}),
        (ErrorAction.DONE, {0, 46}),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorAction) else "",
)
def test_every_code_of_the_digest_has_its_verdict(action: ErrorAction, codes: set[int]) -> None:
    """Each code has the action of Kafka's clients for an idempotent producer. No other code is retried or fatal."""
    assert {code for code in codes if judge(Api.PRODUCE, code).action is action} == codes
    named = {int(code) for code, row in TABLE[Api.PRODUCE].items() if row.action is action}
    assert named == codes


def test_codes_that_say_that_the_batch_was_appended() -> None:
    """Only success, a duplicate, and a loss of replicas after all of them had the batch say that it is in the log to stay."""
    yes = {code for code, row in TABLE[Api.PRODUCE].items() if row.landed is Landed.YES}
    assert yes == {
        ErrorCode.NONE,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }


def test_codes_that_say_nothing_about_the_batch() -> None:
    """An unexpected failure of the broker, a storage error, a lost connection, replicas that do not confirm in time, a leader that moved
    and every unknown code leave the batch's fate open."""
    open_ends = {code for code, row in TABLE[Api.PRODUCE].items() if row.landed is Landed.UNKNOWN}
    assert open_ends == {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
    for code in (134, 999, -2, 32767):
        row = judge(Api.PRODUCE, code)
        assert (row.action, row.landed) == (ErrorAction.FAIL, Landed.UNKNOWN)


@pytest.mark.parametrize("api", TABLE, ids=lambda api: api.name)
def test_every_row_says_why(api: Api) -> None:
    """Every row has a reason that can stand in a message to the user and in the documentation."""
    for code, row in TABLE[api].items():
        assert len(row.why) > 10, code
        assert row.why[0].islower()
        assert not row.why.endswith(".")
