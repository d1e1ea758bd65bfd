"""The errors that aiokafka's producer raises, by their names there, for programs in an environment without aiokafka.

The numbers are the error codes of Kafka's protocol. A code without a class of its own is an `UnknownError`, as with aiokafka.
"""

from __future__ import annotations

from typing import ClassVar

from fencepost.producer.wire.codes import error_name


class KafkaError(RuntimeError):
    """The base class. `retriable`: the same call may succeed later. `invalid_metadata`: the client's picture of the cluster was stale."""

    retriable: ClassVar[bool] = False
    invalid_metadata: ClassVar[bool] = False

    def __str__(self) -> str:
        text = super().__str__()
        return f"{type(self).__name__}: {text}" if text else type(self).__name__


class IllegalStateError(KafkaError):
    """The producer's state does not allow the call."""


class IllegalOperation(Exception):
    """The producer's settings or its transaction do not allow the call."""


class KafkaTimeoutError(KafkaError):
    """The time of the call passed."""


class KafkaConnectionError(KafkaError):
    """No broker can be reached."""

    retriable = True
    invalid_metadata = True


class AuthenticationFailedError(KafkaError):
    """The brokers do not accept the client's login."""


class ProducerClosed(KafkaError):
    """The producer is closed."""


class ProducerFenced(KafkaError):
    """A newer producer has the transactional id, or the coordinator has aborted the transaction."""


class BrokerResponseError(KafkaError):
    """An error code of a broker. `errno`: the code. `message`: its name."""

    errno: ClassVar[int]
    message: ClassVar[str]

    def __init_subclass__(cls, *, errno: int | None = None, retriable: bool = False, stale: bool = False) -> None:
        if errno is not None:
            cls.errno = errno
            cls.message = error_name(errno)
            cls.retriable = retriable
            cls.invalid_metadata = stale

    def __str__(self) -> str:
        return f"[Error {self.errno}] {super().__str__()}"


class UnknownError(BrokerResponseError, errno=-1):
    """A code that has no class here."""


class CorruptRecordException(BrokerResponseError, errno=2):
    """The checksum of the batch is wrong."""


class UnknownTopicOrPartitionError(BrokerResponseError, errno=3, retriable=True, stale=True):
    """The cluster does not have the topic or the partition."""


class LeaderNotAvailableError(BrokerResponseError, errno=5, retriable=True, stale=True):
    """The partition has no leader at the moment."""


class NotLeaderForPartitionError(BrokerResponseError, errno=6, retriable=True, stale=True):
    """Another broker leads the partition."""


class RequestTimedOutError(BrokerResponseError, errno=7, retriable=True):
    """The replicas did not have the batch in time."""


class MessageSizeTooLargeError(BrokerResponseError, errno=10):
    """The record is larger than a limit of the producer or of the topic."""


class GroupLoadInProgressError(BrokerResponseError, errno=14, retriable=True):
    """The coordinator is starting."""


CoordinatorLoadInProgressError = GroupLoadInProgressError


class GroupCoordinatorNotAvailableError(BrokerResponseError, errno=15, retriable=True):
    """There is no coordinator at the moment."""


CoordinatorNotAvailableError = GroupCoordinatorNotAvailableError


class NotCoordinatorForGroupError(BrokerResponseError, errno=16, retriable=True):
    """Another broker is the coordinator."""


NotCoordinatorError = NotCoordinatorForGroupError


class InvalidTopicError(BrokerResponseError, errno=17):
    """The topic cannot be written to."""


class RecordListTooLargeError(BrokerResponseError, errno=18):
    """The batch is larger than a segment."""


class NotEnoughReplicasError(BrokerResponseError, errno=19, retriable=True):
    """Fewer replicas are in sync than min.insync.replicas."""


class NotEnoughReplicasAfterAppendError(BrokerResponseError, errno=20, retriable=True):
    """The same, after the leader had appended the batch."""


class InvalidRequiredAcksError(BrokerResponseError, errno=21):
    """The broker does not know this number of acknowledgements."""


class IllegalGenerationError(BrokerResponseError, errno=22):
    """The consumer group has a newer generation."""


class UnknownMemberIdError(BrokerResponseError, errno=25):
    """The consumer is no member of the group."""


class RebalanceInProgressError(BrokerResponseError, errno=27):
    """The consumer group is being rebalanced."""


class TopicAuthorizationFailedError(BrokerResponseError, errno=29):
    """The client may not write to the topic."""


class GroupAuthorizationFailedError(BrokerResponseError, errno=30):
    """The client may not use the group."""


class ClusterAuthorizationFailedError(BrokerResponseError, errno=31):
    """The client may not do this in the cluster."""


class InvalidTimestampError(BrokerResponseError, errno=32):
    """The record's timestamp is out of the topic's range."""


class UnsupportedVersionError(BrokerResponseError, errno=35):
    """The broker does not know this version of a request."""


class InvalidRequestError(BrokerResponseError, errno=42):
    """The broker does not understand the request."""


class UnsupportedForMessageFormatError(BrokerResponseError, errno=43):
    """The topic's message format does not allow this."""


class PolicyViolationError(BrokerResponseError, errno=44):
    """A policy of the broker forbids it."""


class OutOfOrderSequenceNumber(BrokerResponseError, errno=45):
    """A batch before this one is missing in the log."""


class DuplicateSequenceNumber(BrokerResponseError, errno=46):
    """The log has this batch already."""


class InvalidProducerEpoch(BrokerResponseError, errno=47):
    """The producer's epoch is old."""


class InvalidTxnState(BrokerResponseError, errno=48):
    """The coordinator's state of the transaction does not allow the request."""


class InvalidProducerIdMapping(BrokerResponseError, errno=49):
    """The coordinator no longer knows the producer id of this transactional id."""


class InvalidTransactionTimeout(BrokerResponseError, errno=50):
    """The timeout is longer than the brokers' transaction.max.timeout.ms."""


class ConcurrentTransactions(BrokerResponseError, errno=51):
    """The coordinator is still ending the transaction before."""


class TransactionCoordinatorFenced(BrokerResponseError, errno=52):
    """Another broker has become the coordinator."""


class TransactionalIdAuthorizationFailed(BrokerResponseError, errno=53):
    """The client may not use the transactional id."""


class OperationNotAttempted(BrokerResponseError, errno=55):
    """Another part of the request failed first."""


class KafkaStorageError(BrokerResponseError, errno=56, retriable=True, stale=True):
    """The broker's disk failed."""


class SaslAuthenticationFailed(BrokerResponseError, errno=58):
    """The broker rejects the login."""


class UnknownProducerId(BrokerResponseError, errno=59):
    """The broker has forgotten the producer id."""


def _by_code() -> dict[int, type[BrokerResponseError]]:
    return {cls.errno: cls for cls in BrokerResponseError.__subclasses__()}


def for_code(error_code: int) -> type[BrokerResponseError]:
    """The class of an error code."""
    return _by_code().get(error_code, UnknownError)
