"""Kafka's error codes by what a client should do about them (KIP-1050), every one that Kafka 4.3 has, and what each comes to here.

It decides about a code that `verdict` has no row for: one that is retriable is retried whatever answered it. What Kafka's own client does
in a particular place is `verdict`'s.
"""

from __future__ import annotations

import enum
from typing import Final

from fencepost.producer.wire.codes import ErrorCode

E = ErrorCode


class Kind(enum.Enum):
    """KIP-1050's classes. The values are what a user of ours is told, where no row says otherwise."""

    RETRIABLE = "nothing: it is asked again until the deadline, then TransactionTimeout"
    REFRESH_RETRIABLE = "the same, after a look at who leads the partition"
    COORDINATOR_RETRIABLE = "the same, after a look at who coordinates"
    ABORTABLE = "MustAbort"
    APPLICATION_RECOVERABLE = "Fenced or IdentityLost, and a new producer goes on; MustAbort where the same one does after it"
    INVALID_CONFIGURATION = "NotPermitted, or MustAbort where it is about one topic or group"
    PLAIN = "Fatal"


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
"""Of each code. One that is not here is newer than Kafka 4.3, and as good as PLAIN."""
