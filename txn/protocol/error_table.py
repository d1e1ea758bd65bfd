"""What the coordinators' answers mean, as one table: (api, code) -> Row. docs/errors.md is generated from it.

A step says what the manager does; if that ends the producer, `kind` is the error for the user. Without a row a code that is retriable by
its class (`producer.core.error_classes`) is retried. Produce has its own table in `producer.core.error_table`: each batch that fails there
spoils the transaction.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from fencepost.producer.core.error_classes import KINDS, Kind
from fencepost.producer.errors import Fatal, Fenced
from fencepost.producer.wire.codes import Api, ErrorCode, api_name, error_name
from fencepost.txn.errors import IdentityLost, NotPermitted

__all__ = ["HOPELESS", "OTHERWISE", "TABLE", "Row", "Step", "judge", "refusal", "worst"]


class Step(enum.Enum):
    """What the manager does about an answer."""

    DONE = "done"
    RETRY = "ask again after a backoff"
    SOON = "ask again after 20 ms, doubled each time"
    LOOKUP = "find the coordinator, then ask again"
    SPOIL = (
        "the transaction must be aborted: MustAbort. Without an open transaction, or during an abort: Fatal. After a commit that may have "
        "been carried out: CommitOutcomeUnknown"
    )
    FATAL = "the producer cannot continue"


class Row(Struct, frozen=True):
    """One row of the table. `kind`: the error's class, if the step is FATAL."""

    step: Step
    why: str
    kind: type[Fatal] = Fatal


_EXPIRED: Final = "the transactional id expired, or belongs to another producer id"
_OVERTAKEN: Final = (
    "a newer producer registered under the transactional id, or the transaction timed out, or another process ended it before the "
    "coordinator restarted"
)
_STALE: Final = "abort, poll, and take the group's metadata again"
_NONE: Final = "GroupMetadata(group_id) is for a consumer that assigns its partitions itself"

_SHARED: Final[dict[ErrorCode, Row]] = {
    ErrorCode.NONE: Row(Step.DONE, "done"),
    ErrorCode.REQUEST_TIMED_OUT: Row(Step.RETRY, "the coordinator's log did not take it in time"),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Row(Step.RETRY, "the coordinator is loading its state"),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Row(Step.LOOKUP, "there is no coordinator at the moment"),
    ErrorCode.NOT_COORDINATOR: Row(Step.LOOKUP, "the coordinator moved"),
    ErrorCode.NETWORK_EXCEPTION: Row(Step.RETRY, "the connection was lost before the response"),
    ErrorCode.CONCURRENT_TRANSACTIONS: Row(Step.SOON, "the previous transaction is still being completed"),
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: Row(Step.RETRY, "a quota is exhausted"),
    # Kafka calls it not retriable, because it does not say what the broker carried out. Each of these requests may be repeated anyway, as
    # after a lost reply.
    ErrorCode.UNKNOWN_SERVER_ERROR: Row(Step.RETRY, "the broker failed unexpectedly: see its log"),
    ErrorCode.PRODUCER_FENCED: Row(Step.FATAL, "a newer producer took the transactional id over, or the transaction timed out", Fenced),
    ErrorCode.INVALID_PRODUCER_EPOCH: Row(
        Step.FATAL, "a newer producer took the transactional id over, or the transaction timed out", Fenced
    ),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Row(Step.FATAL, "grant this client WRITE on the transactional id", NotPermitted),
    ErrorCode.UNSUPPORTED_VERSION: Row(Step.FATAL, "the broker does not support the version of the request", NotPermitted),
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Row(Step.FATAL, _EXPIRED, IdentityLost),
}

_SPOILING: Final[dict[ErrorCode, Row]] = {
    ErrorCode.UNKNOWN_PRODUCER_ID: Row(Step.SPOIL, "the coordinator has forgotten the producer id"),
    ErrorCode.TRANSACTION_ABORTABLE: Row(Step.SPOIL, "the coordinator says that the transaction must be aborted"),
}

# A new registration after the abort, with the present identity, tells which case it is, and fences no producer that has registered since.
_FORGOTTEN: Final[dict[ErrorCode, Row]] = {ErrorCode.INVALID_PRODUCER_ID_MAPPING: Row(Step.SPOIL, _EXPIRED)}

_UNFIT: Final[dict[ErrorCode, Row]] = {
    **_FORGOTTEN,
    ErrorCode.INVALID_TXN_STATE: Row(Step.FATAL, "the transaction is in a state that the request does not fit"),
}

TABLE: Final[dict[Api, dict[ErrorCode, Row]]] = {
    Api.FIND_COORDINATOR: {
        **_SHARED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Row(Step.SPOIL, "grant this client READ on the consumer group"),
        ErrorCode.TRANSACTION_ABORTABLE: _SPOILING[ErrorCode.TRANSACTION_ABORTABLE],
    },
    Api.INIT_PRODUCER_ID: {
        **_SHARED,
        ErrorCode.PRODUCER_FENCED: Row(Step.FATAL, _OVERTAKEN, Fenced),
        ErrorCode.INVALID_PRODUCER_EPOCH: Row(Step.FATAL, _OVERTAKEN, Fenced),
        ErrorCode.INVALID_TRANSACTION_TIMEOUT: Row(
            Step.FATAL, "transaction_timeout_ms exceeds the brokers' transaction.max.timeout.ms", NotPermitted
        ),
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Row(Step.FATAL, "grant this client WRITE on the transactional id", NotPermitted),
    },
    Api.ADD_PARTITIONS_TO_TXN: {
        **_SHARED,
        **_SPOILING,
        **_UNFIT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Row(Step.RETRY, "the partition does not exist, or not yet"),
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: Row(Step.SPOIL, "no WRITE permission on the topic"),
        ErrorCode.OPERATION_NOT_ATTEMPTED: Row(Step.SPOIL, "another partition of the transaction was refused"),
    },
    Api.ADD_OFFSETS_TO_TXN: {
        **_SHARED,
        **_SPOILING,
        **_UNFIT,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Row(Step.SPOIL, "grant this client READ on the consumer group"),
    },
    Api.TXN_OFFSET_COMMIT: {
        **_SHARED,
        **_SPOILING,
        **_FORGOTTEN,
        ErrorCode.REQUEST_TIMED_OUT: Row(Step.LOOKUP, "the group's coordinator could not write the offsets in time"),
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Row(Step.RETRY, "the partition does not exist, or not yet"),
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Row(Step.SPOIL, "grant this client READ on the consumer group"),
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: Row(Step.SPOIL, "grant this client READ on the topic whose offsets are committed"),
        ErrorCode.ILLEGAL_GENERATION: Row(Step.SPOIL, f"the group is in another generation now: {_STALE}; {_NONE}"),
        ErrorCode.UNKNOWN_MEMBER_ID: Row(Step.SPOIL, f"the group has removed this member: {_STALE}; {_NONE}"),
        ErrorCode.FENCED_INSTANCE_ID: Row(Step.SPOIL, "another consumer took the group.instance.id over: close this one"),
        ErrorCode.STALE_MEMBER_EPOCH: Row(Step.SPOIL, f"the member's epoch is another one now: {_STALE}"),
        ErrorCode.OFFSET_METADATA_TOO_LARGE: Row(Step.SPOIL, "an offset's metadata exceeds the brokers' offset.metadata.max.bytes"),
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE: Row(Step.SPOIL, "the offsets of one call exceed what the brokers write at once"),
        # Kafka's own client is fenced here. The cause may be the coordinator's timeout, which the abort heals (KIP-588), as for a Produce.
        ErrorCode.INVALID_PRODUCER_EPOCH: Row(Step.SPOIL, "a newer producer took the transactional id over, or the transaction timed out"),
        ErrorCode.INVALID_TXN_STATE: Row(Step.SPOIL, "the coordinator has aborted the transaction (transaction_timeout_ms)"),
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: Row(
            Step.FATAL, "the brokers keep offsets in a format without transactions", NotPermitted
        ),
    },
    Api.DESCRIBE_TRANSACTIONS: {
        **_SHARED,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: Row(Step.SPOIL, "the coordinator does not know the transactional id: it expired"),
    },
    Api.END_TXN: {
        **_SHARED,
        **_SPOILING,
        ErrorCode.INVALID_TXN_STATE: Row(Step.SPOIL, "the coordinator has no such transaction, or has aborted it (transaction_timeout_ms)"),
    },
}
"""A code that spoils a committing EndTxn is fatal for an aborting one, because no other step is left."""

HOPELESS: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    }
)
"""Codes that would spoil the same transaction again."""

OTHERWISE: Final[dict[Api, Row]] = {
    Api.FIND_COORDINATOR: Row(Step.FATAL, "a code this version does not expect"),
    Api.INIT_PRODUCER_ID: Row(Step.FATAL, "a code this version does not expect"),
    Api.ADD_PARTITIONS_TO_TXN: Row(Step.SPOIL, "a code this version does not expect"),
    Api.ADD_OFFSETS_TO_TXN: Row(Step.FATAL, "a code this version does not expect"),
    Api.TXN_OFFSET_COMMIT: Row(Step.FATAL, "a code this version does not expect"),
    Api.DESCRIBE_TRANSACTIONS: Row(Step.SPOIL, "a code this version does not expect"),
    Api.END_TXN: Row(Step.FATAL, "a code this version does not expect: no promise can be made about its effect"),
}

RETRIABLE: Final[dict[Kind, Row]] = {
    Kind.RETRIABLE: Row(Step.RETRY, "Kafka calls this code retriable"),
    Kind.REFRESH_RETRIABLE: Row(Step.RETRY, "Kafka calls this code retriable"),
    Kind.COORDINATOR_RETRIABLE: Row(Step.LOOKUP, "Kafka calls this code retriable, after the coordinator is looked up again"),
}

PARTIAL: Final = Row(Step.RETRY, "the answer leaves partitions out")

AGAIN: Final = (Step.RETRY, Step.SOON, Step.LOOKUP)
SEVERITY: Final = (Step.DONE, Step.RETRY, Step.SOON, Step.LOOKUP, Step.SPOIL, Step.FATAL)
"""From mildest to worst. Of the answers about several partitions, the worst decides."""

_BY_CODE: Final[dict[Api, dict[int, Row]]] = {api: {int(code): row for code, row in rows.items()} for api, rows in TABLE.items()}


def judge(api: Api, code: int) -> Row:
    """The row for an answer."""
    row = _BY_CODE[api].get(code)
    if row is None:
        row = RETRIABLE.get(KINDS.get(code, Kind.PLAIN))
    return OTHERWISE[api] if row is None else row


def worst(api: Api, codes: Iterable[int]) -> tuple[int, Row]:
    """The answer that decides, of those about several partitions."""
    judged = [(code, judge(api, code)) for code in codes]
    return max(judged, key=lambda pair: SEVERITY.index(pair[1].step), default=(0, judge(api, 0)))


def refusal(api: Api, code: int, row: Row) -> str:
    """A description of the failure, for an error message."""
    return f"{api_name(api)} was refused with {error_name(code)}: {row.why}"
