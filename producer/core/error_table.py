"""What the producer does about an error code, as one table: (api, code) -> Row. docs/errors.md is generated from it.

`ErrorAction` says what to do next. `Landed` says what the response tells about the batch: certainly refused, in the leader's log, or
unknown. A Produce error without a row is final and its effect is unknown, because a newer broker may have done anything.
"""

from __future__ import annotations

import enum
from typing import Final

from msgspec import Struct

from fencepost.producer.core.error_classes import KINDS, RETRIABLE_KINDS
from fencepost.producer.wire.codes import Api, ErrorCode

__all__ = ["TABLE", "UNKNOWN_CODE", "ErrorAction", "Landed", "Row", "judge"]


class ErrorAction(enum.Enum):
    """What to do next."""

    DONE = "done"
    RETRY = "send again after a backoff"
    REFRESH = "refresh metadata, send again after a backoff"
    SPLIT = "split the batch and send the parts; a single record fails"
    HEAL = "find out which batches the log has, then bump the epoch and rewrite the others"
    FAIL = "fail the batch, then bump the epoch"
    FATAL = "fail everything; the producer cannot continue"


class Landed(enum.Enum):
    """What the response tells about the batch that was sent."""

    YES = "in the log of every in-sync replica"
    NO = "not in the log"
    UNKNOWN = "unknown"


class Row(Struct, frozen=True):
    """One line of the table."""

    action: ErrorAction
    landed: Landed
    why: str


def _row(action: ErrorAction, why: str, landed: Landed = Landed.NO) -> Row:
    return Row(action, landed, why)


UNKNOWN_CODE: Final = _row(ErrorAction.FAIL, "this version does not know the error code, so its effect is unknown", Landed.UNKNOWN)

_PRINCIPAL: Final = "this client's principal (sasl_username, or the name in ssl_certfile)"
_WRITABLE: Final = f"grant WRITE on the topic to {_PRINCIPAL}"
_UNGRANTED: Final = (
    f"grant WRITE on its topics (enough from Kafka 3.0 on) or IDEMPOTENT_WRITE on the cluster to {_PRINCIPAL}, "
    "or set enable_idempotence=False"
)

_PRODUCE: Final[dict[ErrorCode, Row]] = {
    ErrorCode.NONE: _row(ErrorAction.DONE, "acknowledged", Landed.YES),
    ErrorCode.UNKNOWN_SERVER_ERROR: _row(ErrorAction.FAIL, "the broker failed unexpectedly: see its log", Landed.UNKNOWN),
    ErrorCode.CORRUPT_MESSAGE: _row(ErrorAction.RETRY, "the checksum did not match on arrival"),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _row(ErrorAction.REFRESH, "this broker does not host the partition, or the topic was deleted"),
    ErrorCode.LEADER_NOT_AVAILABLE: _row(ErrorAction.REFRESH, "an election is under way"),
    ErrorCode.NOT_LEADER_OR_FOLLOWER: _row(
        ErrorAction.REFRESH, "the leader moved, perhaps after it had appended the batch", Landed.UNKNOWN
    ),
    ErrorCode.REQUEST_TIMED_OUT: _row(
        ErrorAction.RETRY, "appended, but the replicas did not confirm in time: the next leader may not have it", Landed.UNKNOWN
    ),
    ErrorCode.MESSAGE_TOO_LARGE: _row(ErrorAction.SPLIT, "the batch exceeds the topic's max.message.bytes"),
    ErrorCode.NETWORK_EXCEPTION: _row(ErrorAction.REFRESH, "the connection was lost before the response", Landed.UNKNOWN),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: _row(ErrorAction.RETRY, "a coordinator is loading its state"),
    ErrorCode.INVALID_TOPIC_EXCEPTION: _row(ErrorAction.FAIL, "the topic's name is illegal or internal"),
    ErrorCode.RECORD_LIST_TOO_LARGE: _row(ErrorAction.FAIL, "the batch exceeds the topic's segment.bytes"),
    ErrorCode.NOT_ENOUGH_REPLICAS: _row(ErrorAction.RETRY, "fewer in-sync replicas than min.insync.replicas; nothing was appended"),
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _row(
        ErrorAction.RETRY, "appended and below the high watermark, but there are too few in-sync replicas now", Landed.YES
    ),
    ErrorCode.INVALID_REQUIRED_ACKS: _row(ErrorAction.FAIL, "the broker does not support the acks setting"),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _row(ErrorAction.FAIL, f"no WRITE permission on the topic: {_WRITABLE}"),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _row(ErrorAction.FATAL, f"no permission to write idempotently: {_UNGRANTED}"),
    ErrorCode.INVALID_TIMESTAMP: _row(ErrorAction.FAIL, "a record's timestamp is outside the topic's limits"),
    ErrorCode.UNSUPPORTED_VERSION: _row(ErrorAction.FATAL, "the broker does not support the version of the request"),
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: _row(ErrorAction.FAIL, "the topic's message format is too old"),
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: _row(
        ErrorAction.HEAL, "the broker expects another sequence: an earlier batch is missing, or the broker forgot this one"
    ),
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: _row(ErrorAction.DONE, "already in the log, its offset is unknown (older brokers)", Landed.YES),
    ErrorCode.INVALID_PRODUCER_EPOCH: _row(ErrorAction.HEAL, "the partition has seen a newer epoch of this producer id"),
    ErrorCode.INVALID_TXN_STATE: _row(ErrorAction.FAIL, "the state of this producer id's transaction does not allow the write"),
    ErrorCode.CONCURRENT_TRANSACTIONS: _row(ErrorAction.RETRY, "the transaction before this one is still being completed"),
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: _row(ErrorAction.FAIL, "the transactional id expired, or belongs to another producer id"),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _row(
        ErrorAction.FATAL, "no permission on the transactional id: grant this client WRITE on it"
    ),
    ErrorCode.KAFKA_STORAGE_ERROR: _row(
        ErrorAction.REFRESH, "the leader's disk failed, perhaps after it had appended the batch", Landed.UNKNOWN
    ),
    ErrorCode.UNKNOWN_PRODUCER_ID: _row(ErrorAction.HEAL, "the broker has forgotten this producer id (older brokers)"),
    ErrorCode.FENCED_LEADER_EPOCH: _row(ErrorAction.REFRESH, "the leader epoch is outdated"),
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: _row(ErrorAction.FAIL, "the broker or topic does not accept this codec"),
    ErrorCode.INVALID_RECORD: _row(ErrorAction.FAIL, "a record breaks a rule of the topic, for example a null key on a compacted one"),
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: _row(ErrorAction.RETRY, "a quota is exhausted"),
    ErrorCode.PRODUCER_FENCED: _row(ErrorAction.FATAL, "a newer producer took over this producer id"),
    ErrorCode.UNKNOWN_TOPIC_ID: _row(ErrorAction.REFRESH, "the topic was deleted, or deleted and created again"),
    ErrorCode.INCONSISTENT_TOPIC_ID: _row(ErrorAction.REFRESH, "the topic was deleted and created again"),
    ErrorCode.TRANSACTION_ABORTABLE: _row(ErrorAction.FAIL, "the transaction must be aborted"),
}

_INIT: Final[dict[ErrorCode, Row]] = {
    ErrorCode.NONE: _row(ErrorAction.DONE, "the producer id was assigned"),
    ErrorCode.REQUEST_TIMED_OUT: _row(ErrorAction.RETRY, "the controller did not answer the broker in time"),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: _row(ErrorAction.RETRY, "the coordinator is loading its state"),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _row(ErrorAction.RETRY, "the broker has no producer ids to assign yet"),
    ErrorCode.NOT_COORDINATOR: _row(ErrorAction.RETRY, "the coordinator moved"),
    ErrorCode.NETWORK_EXCEPTION: _row(ErrorAction.RETRY, "the connection was lost before the response"),
    ErrorCode.CONCURRENT_TRANSACTIONS: _row(ErrorAction.RETRY, "a previous transaction is still being completed"),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _row(
        ErrorAction.FATAL, f"no IDEMPOTENT_WRITE permission and no WRITE on any topic: {_UNGRANTED}"
    ),
    ErrorCode.UNSUPPORTED_VERSION: _row(ErrorAction.FATAL, "the broker cannot assign producer ids"),
}

_METADATA: Final[dict[ErrorCode, Row]] = {
    **{
        ErrorCode(code): _row(ErrorAction.REFRESH, "a failure that passes, as Kafka says of this code")
        for code, kind in KINDS.items()
        if kind in RETRIABLE_KINDS
    },
    ErrorCode.NONE: _row(ErrorAction.DONE, "the topic is known"),
    ErrorCode.UNKNOWN_SERVER_ERROR: _row(ErrorAction.REFRESH, "the broker failed unexpectedly: see its log"),
    ErrorCode.REQUEST_TIMED_OUT: _row(ErrorAction.REFRESH, "the controller did not answer the broker in time"),
    ErrorCode.NETWORK_EXCEPTION: _row(ErrorAction.REFRESH, "the broker lost its connection to the controller"),
    ErrorCode.NOT_CONTROLLER: _row(ErrorAction.REFRESH, "the controller moved"),
    ErrorCode.KAFKA_STORAGE_ERROR: _row(ErrorAction.REFRESH, "a disk of the leader failed"),
    ErrorCode.LISTENER_NOT_FOUND: _row(ErrorAction.REFRESH, "the leader has no listener of the name that this client uses"),
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: _row(ErrorAction.REFRESH, "the quota for creating topics is exhausted"),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _row(ErrorAction.REFRESH, "the topic does not exist, or not yet"),
    ErrorCode.LEADER_NOT_AVAILABLE: _row(ErrorAction.REFRESH, "the topic is being created or a leader is being elected"),
    ErrorCode.UNKNOWN_TOPIC_ID: _row(ErrorAction.REFRESH, "the topic was deleted"),
    ErrorCode.INVALID_TOPIC_EXCEPTION: _row(ErrorAction.FAIL, "the topic's name is illegal"),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _row(
        ErrorAction.FAIL,
        "no DESCRIBE permission on the topic, or no CREATE permission if it does not exist: "
        f"{_WRITABLE}, which implies DESCRIBE, and CREATE if sending should create it",
    ),
}

TABLE: Final[dict[Api, dict[ErrorCode, Row]]] = {
    Api.PRODUCE: _PRODUCE,
    Api.INIT_PRODUCER_ID: _INIT,
    Api.METADATA: _METADATA,
}

_BY_CODE: Final[dict[Api, dict[int, Row]]] = {api: {int(code): row for code, row in rows.items()} for api, rows in TABLE.items()}


OTHERWISE: Final[dict[Api, Row]] = {
    Api.PRODUCE: UNKNOWN_CODE,
    Api.INIT_PRODUCER_ID: _row(ErrorAction.RETRY, "nothing was written yet, so the request is repeated until the delivery deadline"),
    Api.METADATA: _row(ErrorAction.FAIL, "the broker neither describes nor creates the topic"),
}
"""For codes without a row."""


def judge(api: Api, code: int) -> Row:
    """The row for an error code of a response."""
    return _BY_CODE[api].get(code, OTHERWISE[api])
