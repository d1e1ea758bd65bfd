"""Which of aiokafka's errors stands for which of fencepost's."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Final

from fencepost.compat.aiokafka import errors as theirs
from fencepost.producer.errors import (
    AuthenticationFailed,
    BufferFull,
    ConfigError,
    DeliveryTimeout,
    Fenced,
    FencepostError,
    Misuse,
    NoUsableBroker,
    ProducerClosed,
    RecordTooLarge,
    TopicUnavailable,
    UnknownPartition,
)
from fencepost.producer.wire.codes import ErrorCode
from fencepost.txn.coordinator.send_admission import NoTransaction
from fencepost.txn.errors import IdentityLost, IllegalCall, TransactionTimeout

Make = Callable[[str], Exception]

FENCED: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
"""The codes that aiokafka reports as ProducerFenced."""

CLASSES: Final[tuple[tuple[type[FencepostError], Make], ...]] = (
    (ProducerClosed, theirs.ProducerClosed),
    (BufferFull, theirs.KafkaTimeoutError),
    (UnknownPartition, theirs.UnrecognizedPartition),
    (TopicUnavailable, theirs.UnknownTopicOrPartitionError),
    (RecordTooLarge, theirs.MessageSizeTooLargeError),
    (AuthenticationFailed, theirs.AuthenticationFailedError),
    (NoUsableBroker, theirs.KafkaConnectionError),
    (Fenced, theirs.ProducerFenced),
    (IdentityLost, theirs.InvalidProducerIdMapping),
    (DeliveryTimeout, theirs.KafkaTimeoutError),
    (TransactionTimeout, theirs.KafkaTimeoutError),
    (NoTransaction, theirs.IllegalOperation),
    (IllegalCall, theirs.WrongTransactionState),
    (Misuse, theirs.IllegalStateError),
    (FencepostError, theirs.KafkaError),
)
"""The first row of which an error is an instance decides, unless the error has a broker's code."""


def translated(error: FencepostError) -> Exception:
    """The error to raise instead, with this one as its `underlying` and its cause. A ConfigError stays as it is: aiokafka raises
    ValueError, and it is one."""
    if isinstance(error, ConfigError):
        return error
    make = _of_code(error.code) if error.code else next(make for kind, make in CLASSES if isinstance(error, kind))
    return with_underlying(make(str(error)), error)


def with_underlying(made: Exception, error: Exception) -> Exception:
    """`made`, with `error` as its `underlying` and its cause."""
    made.underlying = error  # type: ignore[attr-defined]  # aiokafka's classes do not declare it
    made.__cause__ = error
    return made


def _of_code(code: int) -> Make:
    return theirs.ProducerFenced if code in FENCED else theirs.for_code(code)


class Translating:
    """A block that raises aiokafka's error in place of one of fencepost's."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, FencepostError):
            raise translated(error) from error


translating: Final = Translating()
