"""The error table of the coordinators: one row for each code and request, and KIP-1050's class for the others."""

from __future__ import annotations

import pytest

from fencepost.producer.core.error_classes import KINDS, Kind
from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.txn.protocol.error_table import OTHERWISE, TABLE, Step, judge, worst

AGAIN = {Step.RETRY, Step.SOON, Step.LOOKUP}
ALLOWED = {
    Kind.RETRIABLE: AGAIN,
    Kind.REFRESH_RETRIABLE: AGAIN,
    Kind.COORDINATOR_RETRIABLE: {Step.LOOKUP},
    Kind.ABORTABLE: {Step.SPOIL, Step.FATAL},
    Kind.APPLICATION_RECOVERABLE: {Step.SPOIL, Step.FATAL},
    Kind.INVALID_CONFIGURATION: {Step.SPOIL, Step.FATAL},
    Kind.PLAIN: {Step.SPOIL, Step.FATAL},
}


@pytest.mark.parametrize("api", TABLE, ids=lambda api: api.name)
def test_every_code_is_treated_as_its_class_says(api: Api) -> None:
    """The producer retries what Kafka calls retriable, and UNKNOWN_SERVER_ERROR, and nothing else, for every coordinator."""
    others = {code: judge(api, code).step for code, kind in KINDS.items() if judge(api, code).step not in ALLOWED[kind]}
    assert others == {ErrorCode.UNKNOWN_SERVER_ERROR: Step.RETRY}


def test_an_unknown_code() -> None:
    """A newer broker's code says nothing that could be relied on."""
    assert {api for api in TABLE if judge(api, 999) is not OTHERWISE[api]} == set()


def test_of_several_answers_the_worst_decides() -> None:
    """A partition that ends the transaction is not hidden by one that may be asked again."""
    codes = [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.ILLEGAL_GENERATION, ErrorCode.NOT_COORDINATOR]
    assert worst(Api.TXN_OFFSET_COMMIT, codes)[0] == ErrorCode.ILLEGAL_GENERATION
    assert worst(Api.TXN_OFFSET_COMMIT, [])[1].step is Step.DONE
