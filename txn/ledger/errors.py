"""The errors of the ledger of micro-batches: a batch does not follow its newest entry.

`txn.ledger.batch_decision` decides on them. Each error says what the ledger has, what was to be written, and
the ways out. Nothing was written when one of these is raised.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from fencepost.txn.keyed_topic.errors import LedgerError

if TYPE_CHECKING:
    from fencepost.txn.ledger.entry import LedgerEntry

__all__ = [
    "CheckpointReplaced",
    "CheckpointRolledBack",
    "FingerprintMissing",
    "LedgerBehind",
    "LedgerMissing",
    "LedgerRefusal",
    "OlderVersion",
]


class LedgerRefusal(LedgerError):
    """The batch may neither be written nor skipped. `entry`: the ledger's entry of the sink, or None."""

    def __init__(self, reason: str, *, sink: str, query: str | None, batch: int, entry: LedgerEntry | None) -> None:
        self.reason: Final = reason
        self.sink: Final = sink
        self.query: Final = query
        self.batch: Final = batch
        self.entry: Final = entry
        super().__init__(reason)

    def again(self) -> LedgerRefusal:
        """A fresh instance with the same content."""
        return type(self)(self.reason, sink=self.sink, query=self.query, batch=self.batch, entry=self.entry)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), sink=self.sink, query=self.query, batch=self.batch, entry=self.entry), (self.reason,)


class CheckpointReplaced(LedgerRefusal):
    """The sink's newest batch is of another query, or has the same number and other content: the checkpoint is not the one with which that
    batch was written."""


class CheckpointRolledBack(LedgerRefusal):
    """The batch is older than the sink's newest one: the checkpoint has been restored from a backup."""


class LedgerMissing(LedgerRefusal):
    """The query has written batches before, and the ledger has none of them."""


class LedgerBehind(LedgerRefusal):
    """The ledger lacks batches between the sink's newest one and this one, although the checkpoint shows that they read something. The
    ledger lost its end, or is a mirror that lags."""


class FingerprintMissing(LedgerRefusal):
    """The ledger compares the sink's batches by fingerprints, and this batch has none."""


class OlderVersion(LedgerRefusal):
    """`write_once`: a newer version of the job has been written already."""
