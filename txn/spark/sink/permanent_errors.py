"""Permanent errors of an executor, on their way to the driver: retrying the task cannot help.

Of a failed task Spark tells the driver only a text with a stack trace. So the task marks its error text, and the driver finds the mark. It
looks in the error that Spark raises and, if a later attempt failed for another reason, in Spark's status store. A retry may help against an
unmarked error.
"""

from __future__ import annotations

import re
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import dropwhile
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from fencepost.producer.errors import (
    AuthenticationFailed,
    ConfigError,
    DeliveryError,
    FencepostError,
    Misuse,
    NoUsableBroker,
    ProducerClosed,
    ProducerForked,
)
from fencepost.producer.wire.codes import ErrorCode
from fencepost.txn.errors import NotPermitted
from fencepost.txn.spark.connection.spark_context import ANY_PYTHON, PYTHON
from fencepost.txn.spark.errors import AttemptConflict, BadRows, DriverUnreachable

KINDS: Final[dict[str, type[FencepostError]]] = {
    kind.__name__: kind for kind in (AuthenticationFailed, NoUsableBroker, ConfigError, NotPermitted, Misuse, BadRows, DriverUnreachable)
}
"""The errors that are marked. A subclass is marked with the name of its first base class here."""
PASSING: Final = (ProducerClosed, ProducerForked)
"""Not these: the next task has another producer."""
DENIED: Final = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
)
"""Delivery errors with one of these codes are marked as NotPermitted."""
NEVER: Final = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.INVALID_RECORD,
)
"""Delivery errors with one of these codes are marked as BadRows, because the same rows would be refused again."""

_BEGIN: Final = "[fencepost: no attempt would go better: "
_END: Final = " :fencepost]"
_MARKS: Final = re.compile(re.escape(_BEGIN) + r"(\w+)\] (.*?)(?:" + re.escape(_END) + "|$)", re.DOTALL)
_ABSENT: Final = re.compile(
    r"(?:ModuleNotFoundError|ImportError): (?:No module named|cannot import name .* from(?: partially initialized module)?)"
    r" '(?:fencepost|msgspec|librt|mypy_extensions|tenacity|cramjam|fastcrc|lz4|pyarrow)(?:\.[\w.]+)?'.*"
    r"|AttributeError: Can't get attribute '\w+' on <module 'fencepost\b.*"
    r"|\[(?:PYTHON_VERSION_MISMATCH|PACKAGE_NOT_INSTALLED|UNSUPPORTED_PACKAGE_VERSION)\].*"
    r'|Cannot run program "[^"\n]*[Pp]ython[^"\n]*".*'
)
"""Errors of a Python worker without fencepost, with an incomplete or much older one, with another Python, or without Python. Such a worker
cannot mark an error."""
STORE_WAIT_S: Final = 1.0
"""How long the status store may be behind."""
STORE_STEP_S: Final = 0.02
STORE_TASKS: Final = 1000
TRACEBACK: Final = "Traceback (most recent call last)"
PY4J: Final = "An error occurred while calling "
"""The beginning of the JVM's own errors."""
CAUSE_CHARS: Final = 1000
"""The length of a cause that is told in one line."""


class _LastWords(FencepostError):
    """Raised on an executor. The driver gets only its text."""


@contextmanager
def last_words() -> Iterator[None]:
    """In a task: mark a permanent error that leaves the block."""
    try:
        yield
    except FencepostError as error:
        kind = _kind_of(error)
        if kind is None:
            raise
        raise _marked(kind, never(error) if kind == BadRows.__name__ else str(error)) from error


@contextmanager
def of_rows() -> Iterator[None]:
    """Only our own code runs in the block, on rows that exist, so the next attempt would meet the same error."""
    try:
        yield
    except FencepostError:
        raise
    except (TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise Misuse(f"rows that cannot be written: {type(error).__name__}: {error}") from error


def never(refusal: FencepostError) -> str:
    """The words for rows that the brokers refuse permanently."""
    return (
        f"{refusal}. Nothing of the batch is visible, and the brokers would refuse it again. If this client may read the topic's configs"
        " (DESCRIBE_CONFIGS), such rows are found before the write, and can go to on_bad_row"
    )


def _marked(kind: str, words: str) -> _LastWords:
    host = socket.gethostname()
    return _LastWords(f"{_BEGIN}{kind}] {words if host in words else f'{words} (executor {host})'}{_END}")


@contextmanager
def executors_words(context: Any) -> Iterator[None]:
    """On the driver: if a job of the block fails and an executor has marked an error, raise that. `context`: Spark's, None under
    Connect."""
    tag = f"fencepost-{uuid.uuid4().hex}"
    if context is not None:
        context.addJobTag(tag)
    try:
        yield
    except (PySparkException, Py4JError) as error:
        said = heard(str(error))
        if said is None and AttemptConflict.__name__ in str(error):
            # Spark started the task again, and the guard refused that attempt; the first attempt's error is elsewhere.
            before = _failures(context, tag)
            said = next(filter(None, map(heard, before)), None)
            if said is None and before:
                said = AttemptConflict(
                    f"{cause_of(AttemptConflict(before[0]))} (in a task that was then started again, which its guard refuses)"
                )
        if said is None:
            raise
        raise said from error
    finally:
        if context is not None:
            context.removeJobTag(tag)


def heard(text: str) -> FencepostError | None:
    """The executor's error, if Spark's text contains a marked one, or says that fencepost is missing."""
    marked = _MARKS.search(text)
    if marked is not None:
        return KINDS.get(marked[1], Misuse)(marked[2])
    absent = _ABSENT.search(text)
    if absent is not None:
        return Misuse(
            f"an executor cannot load fencepost ({absent[0].strip()}): install fencepost[spark] for the Python of every executor, in the"
            f" driver's version. That Python is the one that {PYTHON} or spark.pyspark.python names when the driver starts, and otherwise"
            f" the first {ANY_PYTHON} on the executor's path. A wheel that is sent with --py-files has to be named .zip, and what it"
            ' depends on installed there: docs/spark.md, "Where Spark runs"'
        )
    return None


def cause_of(error: BaseException) -> str:
    """The cause in one line: of an error that Spark raises, that of the Python function or of the JVM, without its stack."""
    # fencepost's own errors have Spark's lines joined into one.
    text = BaseException.__str__(error) if isinstance(error, FencepostError) else str(error)
    lines = [line.rstrip() for line in text.splitlines()]
    begins = [place for place, line in enumerate(lines) if TRACEBACK in line]
    if begins:
        # The text after the frames of the last error.
        lines = list(dropwhile(lambda line: not line or line.startswith(" "), lines[begins[-1] + 1 :]))
    said = next((line.strip(": ") for line in lines if line.strip(": ") and not line.startswith(PY4J)), "") or type(error).__name__
    return said if len(said) <= CAUSE_CHARS else f"{said[:CAUSE_CHARS]}..."


def _kind_of(error: FencepostError) -> str | None:
    if isinstance(error, DeliveryError):
        return NotPermitted.__name__ if error.code in DENIED else BadRows.__name__ if error.code in NEVER else None
    if isinstance(error, PASSING):
        return None
    return next((name for name, kind in KINDS.items() if isinstance(error, kind)), None)


def _failures(context: Any, tag: str) -> list[str]:
    """The errors of the tagged jobs' tasks that failed before a guard refused an attempt, as far as Spark's status store knows."""
    deadline = time.monotonic() + STORE_WAIT_S
    while context is not None:
        try:
            tracker, scala = context.statusTracker(), context._jsc.sc()
            jobs = [tracker.getJobInfo(int(job)) for job in scala.statusTracker().getJobIdsForTag(tag)]
            stages = [(stage, tracker.getStageInfo(stage)) for job in jobs if job is not None for stage in job.stageIds]
            told = [
                words
                for stage, info in stages
                if info is not None
                for words in _said(scala.statusStore().taskList(stage, info.currentAttemptId, STORE_TASKS))
                if AttemptConflict.__name__ not in words
            ]
        except (Py4JError, OSError):
            break  # Not all of these are public methods.
        if told or time.monotonic() >= deadline:
            return told
        time.sleep(STORE_STEP_S)
    return []


def _said(tasks: Any) -> Iterator[str]:
    for number in range(tasks.size()):
        message = tasks.apply(number).errorMessage()
        if message.isDefined():
            yield str(message.get())
