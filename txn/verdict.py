"""What the coordinators' answers mean, as one table: (api, code) -> Row. docs/errors.md is generated from it.

A step says what the manager does; where that ends a transaction or the producer, `kind` is what the user is told. Produce has its own table
in `producer.core.verdict`: each batch that fails there spoils the transaction.
"""

from __future__ import annotations

import enum
from typing import Final

from msgspec import Struct

from producer.core.errors import Fatal, Fenced
from producer.wire.codes import Api, ErrorCode, api_name, error_name
from txn.errors import IdentityLost, NotPermitted

__all__ = ["OTHERWISE", "TABLE", "Row", "Step", "judge", "refusal"]


class Step(enum.Enum):
    """What the manager does about an answer."""

    DONE = "done"
    RETRY = "ask again after a backoff"
    SOON = "ask again after 20 ms, doubled each time"
    LOOKUP = "find the coordinator, then ask again"
    SPOIL = "the transaction must be aborted"
    FATAL = "the producer cannot go on"


class Row(Struct, frozen=True):
    """One line of the table. `kind`: of the error, where the step is FATAL."""

    step: Step
    why: str
    kind: type[Fatal] = Fatal


_SHARED: Final[dict[ErrorCode, Row]] = {
    ErrorCode.NONE: Row(Step.DONE, "done"),
    ErrorCode.REQUEST_TIMED_OUT: Row(Step.RETRY, "the coordinator's log did not take it in time"),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Row(Step.RETRY, "the coordinator is loading its state"),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Row(Step.LOOKUP, "there is no coordinator at the moment"),
    ErrorCode.NOT_COORDINATOR: Row(Step.LOOKUP, "the coordinator moved"),
    ErrorCode.NETWORK_EXCEPTION: Row(Step.RETRY, "the connection died before the answer"),
    ErrorCode.CONCURRENT_TRANSACTIONS: Row(Step.SOON, "the transaction before is still being completed"),
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: Row(Step.RETRY, "a quota is exhausted"),
    ErrorCode.PRODUCER_FENCED: Row(Step.FATAL, "a newer producer took the transactional id over, or the transaction timed out", Fenced),
    ErrorCode.INVALID_PRODUCER_EPOCH: Row(
        Step.FATAL, "a newer producer took the transactional id over, or the transaction timed out", Fenced
    ),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Row(Step.FATAL, "grant this client WRITE on the transactional id", NotPermitted),
    ErrorCode.UNSUPPORTED_VERSION: Row(Step.FATAL, "the broker does not speak the version that was sent", NotPermitted),
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Row(Step.FATAL, "the transactional id expired, or belongs to another producer id", IdentityLost),
}

_SPOILING: Final[dict[ErrorCode, Row]] = {
    ErrorCode.UNKNOWN_PRODUCER_ID: Row(Step.SPOIL, "the coordinator has forgotten the producer id"),
    ErrorCode.TRANSACTION_ABORTABLE: Row(Step.SPOIL, "the coordinator says that the transaction must be aborted"),
}

TABLE: Final[dict[Api, dict[ErrorCode, Row]]] = {
    Api.FIND_COORDINATOR: _SHARED,
    Api.INIT_PRODUCER_ID: {
        **_SHARED,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT: Row(
            Step.FATAL, "transaction_timeout_ms exceeds the brokers' transaction.max.timeout.ms", NotPermitted
        ),
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Row(Step.FATAL, "grant this client WRITE on the transactional id", NotPermitted),
    },
    Api.ADD_PARTITIONS_TO_TXN: {
        **_SHARED,
        **_SPOILING,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Row(Step.RETRY, "the partition does not exist, or not yet"),
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: Row(Step.SPOIL, "no WRITE permission on the topic"),
        ErrorCode.OPERATION_NOT_ATTEMPTED: Row(Step.SPOIL, "another partition of the transaction was refused"),
        ErrorCode.INVALID_TXN_STATE: Row(Step.FATAL, "the transaction is in a state that the request does not fit"),
    },
    Api.END_TXN: {
        **_SHARED,
        **_SPOILING,
        ErrorCode.INVALID_TXN_STATE: Row(Step.SPOIL, "the coordinator has no such transaction, or has aborted it (transaction_timeout_ms)"),
    },
}
"""An EndTxn that aborts is fatal where one that commits spoils: there is nothing else that could be done about it."""

OTHERWISE: Final[dict[Api, Row]] = {
    Api.FIND_COORDINATOR: Row(Step.FATAL, "a code this version does not expect"),
    Api.INIT_PRODUCER_ID: Row(Step.FATAL, "a code this version does not expect"),
    Api.ADD_PARTITIONS_TO_TXN: Row(Step.SPOIL, "a code this version does not expect"),
    Api.END_TXN: Row(Step.FATAL, "a code this version does not expect: no promise can be made about its effect"),
}

_BY_CODE: Final[dict[Api, dict[int, Row]]] = {api: {int(code): row for code, row in rows.items()} for api, rows in TABLE.items()}


def judge(api: Api, code: int) -> Row:
    """The row for an answer."""
    return _BY_CODE[api].get(code, OTHERWISE[api])


def refusal(api: Api, code: int, row: Row) -> str:
    """What happened, for a message."""
    return f"{api_name(api)} was refused with {error_name(code)}: {row.why}"
