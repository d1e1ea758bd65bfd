"""What a user of transactions can be told, beside what `producer.core.errors` has, and which of it an error code means.

The classes say what to do next, as KIP-1050 sorts Kafka's: `Retriable` (the same call again), `MustAbort` (abort, then the same
transaction again), `Fatal` (a new producer, or another configuration), and `CommitOutcomeUnknown`, which is none of these. The table is
about the coordinator's answers; Produce has its own in `producer.core.verdict`, where each failed batch spoils the transaction.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from producer.core.errors import DeliveryError, Fatal, Fenced, FencepostError, Retriable
from producer.wire.codes import Api, ErrorCode, api_name, error_name

__all__ = [
    "TABLE",
    "CommitOutcomeUnknown",
    "DeliveryAborted",
    "IdentityLost",
    "MustAbort",
    "NotPermitted",
    "Row",
    "Step",
    "TransactionTimeout",
    "judge",
    "refusal",
]


class TransactionTimeout(Retriable, TimeoutError):
    """The call's time passed before its outcome was known. Nothing is decided: the same call may be made again, and goes on where this one
    stopped."""


class MustAbort(FencepostError):
    """The transaction cannot be committed: abort it, and write it again in a new one (KIP-1050's TransactionAbortableException).

    `cause`: the delivery that failed first, where it was one.
    """

    def __init__(self, reason: str, cause: DeliveryError | None = None) -> None:
        self.reason: Final = reason
        self.cause: Final = cause
        super().__init__(reason)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.reason, self.cause)

    def again(self) -> MustAbort:
        """A fresh instance with the same content."""
        return type(self)(self.reason, self.cause)


class DeliveryAborted(DeliveryError):
    """The record was not sent, or not acknowledged, when its transaction was aborted or could only be aborted any more."""


class IdentityLost(Fatal):
    """The coordinator does not know this producer's identity any more (INVALID_PRODUCER_ID_MAPPING): a new producer gets a new one."""


class NotPermitted(Fatal):
    """The coordinator refuses, and will until permissions or settings are others (KIP-1050's InvalidConfigurationException)."""


class CommitOutcomeUnknown(FencepostError):
    """The coordinator was asked to commit, and whether it did is not known. Neither writing the transaction again nor leaving it is safe.

    `resolve(timeout)` goes on asking: it returns when the transaction turns out to be committed, raises MustAbort when it turns out not to
    be, and this error when the time passed again, or when nobody can tell any more. Until then the producer begins no other transaction.
    """

    def __init__(self, reason: str) -> None:
        self.reason: Final = reason
        self.resolver: Callable[[float | None], None] | None = None
        super().__init__(reason)

    def resolve(self, timeout: float | None = None) -> None:
        """Find out, within `timeout` seconds (None: max_block_ms)."""
        if self.resolver is None:
            raise type(self)(self.reason)
        self.resolver(timeout)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.reason,)


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
