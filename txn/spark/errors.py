"""What the Spark writer can tell its user, beside the errors of `txn.errors`, of the ledger and of Spark."""

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
    "Starved",
    "TooMuch",
    "TransactionTooLong",
]


class BatchUnknown(FencepostError):
    """Which batch this is cannot be told, or it is not the one that the writer was called for. Nothing was written."""


class SinkTakenOver(FencepostError):
    """Another driver has registered under this sink's transactional id. This one has committed nothing of the batch, and must not go on:
    its query fails."""


class BadRows(FencepostError):
    """Rows that can never be written. Nothing of the batch is visible."""


class TransactionTooLong(FencepostError):
    """The batch took longer than the transaction may be open, also when its rows had been prepared beforehand. Nothing of it is visible."""


class GuardUnavailable(FencepostError):
    """The guard that was asked for cannot be had here."""


class BatchFailed(FencepostError):
    """The batch was aborted as often as it may be (`max_reruns`). Nothing of it is visible; Spark calls again with it after a restart."""


class QueryStopped(FencepostError):
    """The query is being stopped. Nothing of the batch is visible.

    Its text is the one by which Spark knows that a Python function was interrupted and did not fail (StreamExecution's
    isInterruptionException): before 4.0 a new line before the colon belongs to it. It is short: with a whole stack trace in it the regular
    expression of later ones overflows the stack."""

    def __init__(self) -> None:
        super().__init__("py4j.protocol.Py4JJavaError: An error occurred while calling the batch's job.\n: java.lang.InterruptedException")

    def __str__(self) -> str:
        return str(self.args[0])


class Starved(FencepostError):
    """The tasks of a barrier stage could not all run at once, for as long as was waited. Nothing was written."""


class TooMuch(FencepostError):
    """The batch has more rows than this process may collect. Nothing of them was written."""


class AttemptConflict(FencepostError):
    """That exactly one attempt wrote is not certain any more: the transaction is aborted, and the batch is written again in a new one."""


class DriverUnreachable(AttemptConflict):
    """An executor cannot reach the driver, which has to be asked who may write. Nothing was written by its task."""
