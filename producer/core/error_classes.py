"""Kafka's error codes by what a client should do about them (KIP-1050), each one of Kafka 4.3, with its class.

It decides about codes without a row in the coordinators' table (`txn.protocol.error_table`), and about Metadata's in `error_table`: a
retriable code is retried. The rows of these tables hold what Kafka's own client does for one API.
"""

from __future__ import annotations

import enum
from typing import Final

from fencepost.producer.wire.codes import ErrorCode

E = ErrorCode


class Kind(enum.Enum):
    """KIP-1050's classes. A value is what the user reads if no row says otherwise."""

    RETRIABLE = "nothing: the request is repeated until the deadline, then TransactionTimeout"
    REFRESH_RETRIABLE = "the same, after the partition's leader is looked up"
    COORDINATOR_RETRIABLE = "the same, after the coordinator is looked up"
    ABORTABLE = "MustAbort"
    APPLICATION_RECOVERABLE = "Fenced or IdentityLost: make a new producer; MustAbort if the same one continues after the abort"
    INVALID_CONFIGURATION = "NotPermitted, or MustAbort if it is about one topic or group"
    PLAIN = "Fatal"


RETRIABLE_KINDS: Final = (Kind.RETRIABLE, Kind.REFRESH_RETRIABLE, Kind.COORDINATOR_RETRIABLE)

_CODES: Final[dict[Kind, tuple[ErrorCode, ...]]] = {
    Kind.RETRIABLE: (
        E.CORRUPT_MESSAGE,
        E.REQUEST_TIMED_OUT,
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.NOT_ENOUGH_REPLICAS,
        E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        E.NOT_CONTROLLER,
        E.CONCURRENT_TRANSACTIONS,
        E.FETCH_SESSION_ID_NOT_FOUND,
        E.INVALID_FETCH_SESSION_EPOCH,
        E.UNKNOWN_LEADER_EPOCH,
        E.OFFSET_NOT_AVAILABLE,
        E.UNSTABLE_OFFSET_COMMIT,
        E.THROTTLING_QUOTA_EXCEEDED,
        E.FETCH_SESSION_TOPIC_ID_ERROR,
        E.SHARE_SESSION_NOT_FOUND,
        E.INVALID_SHARE_SESSION_EPOCH,
        E.SHARE_SESSION_LIMIT_REACHED,
    ),
    Kind.REFRESH_RETRIABLE: (
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.LEADER_NOT_AVAILABLE,
        E.NOT_LEADER_OR_FOLLOWER,
        E.REPLICA_NOT_AVAILABLE,
        E.NETWORK_EXCEPTION,
        E.KAFKA_STORAGE_ERROR,
        E.LISTENER_NOT_FOUND,
        E.FENCED_LEADER_EPOCH,
        E.PREFERRED_LEADER_NOT_AVAILABLE,
        E.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        E.ELECTION_NOT_NEEDED,
        E.UNKNOWN_TOPIC_ID,
        E.INCONSISTENT_TOPIC_ID,
    ),
    Kind.COORDINATOR_RETRIABLE: (E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR),
    Kind.ABORTABLE: (E.TRANSACTION_ABORTABLE,),
    Kind.APPLICATION_RECOVERABLE: (
        E.ILLEGAL_GENERATION,
        E.UNKNOWN_MEMBER_ID,
        E.INVALID_PRODUCER_EPOCH,
        E.INVALID_PRODUCER_ID_MAPPING,
        E.FENCED_INSTANCE_ID,
        E.PRODUCER_FENCED,
    ),
    Kind.INVALID_CONFIGURATION: (
        E.INVALID_TOPIC_EXCEPTION,
        E.RECORD_LIST_TOO_LARGE,
        E.INVALID_REQUIRED_ACKS,
        E.TOPIC_AUTHORIZATION_FAILED,
        E.GROUP_AUTHORIZATION_FAILED,
        E.CLUSTER_AUTHORIZATION_FAILED,
        E.UNSUPPORTED_SASL_MECHANISM,
        E.ILLEGAL_SASL_STATE,
        E.UNSUPPORTED_VERSION,
        E.INVALID_REPLICATION_FACTOR,
        E.INVALID_CONFIG,
        E.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        E.SASL_AUTHENTICATION_FAILED,
        E.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        E.INVALID_RECORD,
    ),
}

KINDS: Final[dict[int, Kind]] = {
    **{int(code): Kind.PLAIN for code in ErrorCode if code is not ErrorCode.NONE},
    **{int(code): kind for kind, codes in _CODES.items() for code in codes},
}
"""The class of each code. A code that is missing here is newer than Kafka 4.3, and counts as PLAIN."""
