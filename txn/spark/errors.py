"""The errors of the Spark writer, besides those of `txn.errors`, of the ledger and of Spark."""

from __future__ import annotations

from fencepost.producer.errors import FencepostError

__all__ = [
    "AttemptConflict",
    "BadRows",
    "BatchFailed",
    "BatchUnknown",
    "DriverUnreachable",
    "GuardUnavailable",
    "QueryStopped",
    "SinkTakenOver",
    "TooMuch",
    "TransactionTooLong",
]


class BatchUnknown(FencepostError):
    """The batch cannot be identified, or is not the one that the writer was called for. Nothing was written."""


class SinkTakenOver(FencepostError):
    """Another driver has registered under this sink's transactional id. This driver has committed nothing of the batch and must not
    continue, so its query fails."""


class BadRows(FencepostError):
    """Rows that can never be written. Nothing of the batch is visible."""


class TransactionTooLong(FencepostError):
    """The batch took longer than the transaction may be open, even with its rows prepared beforehand. Nothing of it is visible."""


class GuardUnavailable(FencepostError):
    """The requested guard is not possible here."""


class BatchFailed(FencepostError):
    """The batch was aborted `max_reruns` times. Nothing of it is visible. After a restart Spark passes it again."""


class QueryStopped(FencepostError):
    """The query is being stopped. Nothing of the batch is visible.

    By this text Spark knows that a Python function was interrupted and did not fail (StreamExecution's isInterruptionException); before 4.0
    it includes a new line before the colon. The text is short, because in later versions a whole stack trace would overflow the stack of
    Spark's regular expression.
    """

    def __init__(self) -> None:
        super().__init__("py4j.protocol.Py4JJavaError: An error occurred while calling the batch's job.\n: java.lang.InterruptedException")

    def __str__(self) -> str:
        return str(self.args[0])


class TooMuch(FencepostError):
    """The batch has more rows than this process may collect. None of them was written."""


class AttemptConflict(FencepostError):
    """It is no longer certain that exactly one attempt wrote. The transaction is aborted, and the batch is written again in a new one."""


class DriverUnreachable(AttemptConflict):
    """An executor cannot reach the driver, which must decide whether its task may write. The task wrote nothing."""
