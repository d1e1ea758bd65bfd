"""What a failure of a batch means for the writer: stop, give up, find out, or write the batch again. The caller does it."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession

from fencepost.producer.errors import ConfigError, DeliveryError, Fenced, FencepostError, Misuse, NoUsableBroker, TopicUnavailable
from fencepost.txn.errors import CommitOutcomeUnknown, IdentityLost, MustAbort, NotPermitted
from fencepost.txn.keyed_topic.errors import LedgerError
from fencepost.txn.spark.connection.spark_context import context_of
from fencepost.txn.spark.errors import BadRows, BatchUnknown, GuardUnavailable, QueryStopped, SinkTakenOver, TransactionTooLong
from fencepost.txn.spark.sink.permanent_errors import DENIED, NEVER

INTERRUPTED: Final = (
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
    "java.util.concurrent.CancellationException",
    "Job group",
)

CANCELED: Final = "[OPERATION_CANCELED]"
"""Spark Connect's error for a job that was interrupted."""


class Course(enum.Enum):
    """What to do."""

    STOP = "the query is being stopped: abort, and leave"
    GIVE_UP = "it would fail again: abort, and say why"
    FIND_OUT = "it may be committed: find out"
    FENCED = "the identity is refused: this driver's transaction timed out, or another driver registered"
    LOST = "the coordinator does not know the identity: the id expired, or another driver registered since"
    AGAIN = "abort, and write the batch again"


_COURSES: Final[tuple[tuple[tuple[type[BaseException], ...], Course], ...]] = (
    ((KeyboardInterrupt, SystemExit, GeneratorExit), Course.STOP),
    ((CommitOutcomeUnknown,), Course.FIND_OUT),
    ((Fenced,), Course.FENCED),
    ((IdentityLost,), Course.LOST),
    (
        (
            BadRows,
            BatchUnknown,
            GuardUnavailable,
            QueryStopped,
            SinkTakenOver,
            TransactionTooLong,
            LedgerError,
            ConfigError,
            Misuse,
            NoUsableBroker,
            NotPermitted,
            TopicUnavailable,
        ),
        Course.GIVE_UP,
    ),
    ((AnalysisException, ParseException, TypeError, ValueError, AttributeError, KeyError, AssertionError), Course.GIVE_UP),
)


def course_of(error: BaseException) -> Course:
    """What to do about a failure while a batch is written or committed."""
    if is_stop(error):
        return Course.STOP
    course = next((course for kinds, course in _COURSES if isinstance(error, kinds)), Course.AGAIN)
    refused = isinstance(error, MustAbort | DeliveryError) and error.code in (*DENIED, *NEVER)
    return Course.GIVE_UP if refused and course is Course.AGAIN else course


def is_stop(error: BaseException) -> bool:
    """Whether Spark has interrupted the thread: by `query.stop()`, or by cancelling its job."""
    if isinstance(error, FencepostError):
        return False
    return _thrown(error, INTERRUPTED) or (isinstance(error, PySparkException) and CANCELED in str(error))


def refuse_stopped(spark: SparkSession) -> None:
    """Raises QueryStopped if Spark has interrupted the thread that called foreachBatch. A thread that runs no Spark job would not notice
    otherwise."""
    context = context_of(spark)
    if context is not None and context._jvm.java.lang.Thread.currentThread().isInterrupted():
        raise QueryStopped


@contextmanager
def interrupts() -> Iterator[None]:
    """An error that leaves the block because the query is being stopped becomes QueryStopped."""
    try:
        yield
    except Exception as error:
        if is_stop(error):
            raise QueryStopped from None
        raise


def _thrown(error: BaseException, names: Sequence[str]) -> bool:
    return any(name in text for text in _java_classes(error) for name in names)


def _java_classes(error: BaseException) -> Iterator[str]:
    """The names of the Java exception and of its causes."""
    thrown: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(10):
        if thrown is None:
            return
        try:
            yield str(thrown.getClass().getName())
            thrown = thrown.getCause()
        except (Py4JError, AttributeError, OSError):
            return
