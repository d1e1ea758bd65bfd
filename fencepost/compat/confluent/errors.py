"""Our errors as confluent-kafka's: `KafkaException(KafkaError(code))` with librdkafka's codes.

A `KafkaError` is C and cannot carry our exception. So its text has our error's text behind librdkafka's, with `persisted`.
"""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from fencepost.producer import (
    AuthenticationFailed,
    BufferFull,
    ConfigError,
    DeliveryError,
    DeliveryFatal,
    DeliveryTimeout,
    Fatal,
    Fenced,
    FencepostError,
    NoUsableBroker,
    Persisted,
    ProducerClosed,
    ProducerForked,
    RecordTooLarge,
    TopicUnavailable,
    UnknownPartition,
)
from fencepost.txn import (
    CommitOutcomeUnknown,
    DeliveryAborted,
    IllegalCall,
    MustAbort,
    NoTransaction,
    TransactionOpen,
    TransactionTimeout,
)

CODES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (DeliveryTimeout, KafkaError._MSG_TIMED_OUT),
    (Fenced, KafkaError._FENCED),
    (DeliveryFatal, KafkaError._FATAL),
    (RecordTooLarge, KafkaError.MSG_SIZE_TOO_LARGE),
    (ConfigError, KafkaError._INVALID_ARG),
    (ProducerClosed, KafkaError._DESTROY),
    (ProducerForked, KafkaError._STATE),
    (AuthenticationFailed, KafkaError._AUTHENTICATION),
    (NoUsableBroker, KafkaError._ALL_BROKERS_DOWN),
    (BufferFull, KafkaError._QUEUE_FULL),
    (UnknownPartition, KafkaError._UNKNOWN_PARTITION),
    (TopicUnavailable, KafkaError._UNKNOWN_TOPIC),
    (NoTransaction, KafkaError._STATE),
    (IllegalCall, KafkaError._STATE),
    (TransactionTimeout, KafkaError._TIMED_OUT),
    (CommitOutcomeUnknown, KafkaError._TIMED_OUT),
    (TransactionOpen, KafkaError.CONCURRENT_TRANSACTIONS),
    (MustAbort, KafkaError._STATE),
    (Fatal, KafkaError._FATAL),
    (DeliveryError, KafkaError._FAIL),
    (ValueError, KafkaError._INVALID_ARG),
)
"""Our error -> librdkafka's code, for an error without a broker's code. The first row that fits counts."""

RETRIABLE: Final = (TransactionTimeout, CommitOutcomeUnknown, TransactionOpen, NoUsableBroker)
"""The same call may be made again: `retriable()` is True."""


def made(code: int, text: str = "", *, fatal: bool = False, retriable: bool = False, abort: bool = False) -> KafkaError:
    """An error with librdkafka's text for the code, and then ours."""
    own = KafkaError(code).str()
    return KafkaError(code, f"{own}: {text}" if text else own, fatal, retriable, abort)


def raised(code: int, text: str = "", **flags: bool) -> KafkaException:
    """The exception for a call that fails."""
    return KafkaException(made(code, text, **flags))


def delivery_error(failure: Exception, purged: bool = False) -> KafkaError:
    """The error of a delivery report. `purged`: the program had called `purge`."""
    if isinstance(failure, DeliveryError) and (purged or isinstance(failure, DeliveryAborted)):
        return made(KafkaError._PURGE_QUEUE if failure.persisted is Persisted.NO else KafkaError._PURGE_INFLIGHT, str(failure))
    return kafka_error(failure)


def kafka_error(error: Exception) -> KafkaError:
    """The error for an exception of our producers."""
    if isinstance(error, MustAbort) and error.cause is not None:
        return made(kafka_error(error.cause).code(), str(error), abort=True)
    code = error.code if isinstance(error, FencepostError) else 0
    if not code or isinstance(error, (DeliveryTimeout, Fenced)):  # librdkafka has a code of its own for both
        code = next((each for kind, each in CODES if isinstance(error, kind)), KafkaError._FAIL)
    return made(
        code,
        str(error),
        fatal=isinstance(error, Fatal),
        retriable=isinstance(error, RETRIABLE) and not isinstance(error, Fatal),
        abort=isinstance(error, MustAbort),
    )


def kafka_exception(error: Exception) -> Any:
    """The same as an exception. The cause is ours."""
    exception = KafkaException(kafka_error(error))
    exception.__cause__ = error
    return exception
