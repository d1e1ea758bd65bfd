"""What a user of the ledger of micro-batches can be told: that it cannot be read, or that a batch does not follow what it says.

`LedgerRefusal` and what is below it are decided by `txn.ledger.rules`; each says what the ledger has, what was to be written, and the ways
out. Nothing was written where one of these is raised.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from fencepost.producer.errors import FencepostError, Retriable

if TYPE_CHECKING:
    from fencepost.txn.ledger.entry import LedgerEntry

__all__ = [
    "CheckpointReplaced",
    "CheckpointRolledBack",
    "FingerprintMissing",
    "LedgerBehind",
    "LedgerBusy",
    "LedgerDamaged",
    "LedgerError",
    "LedgerMissing",
    "LedgerRefusal",
    "LedgerUnavailable",
    "LedgerUnusable",
    "OlderVersion",
]


class LedgerError(FencepostError):
    """The ledger, or what it says, keeps a batch from being written."""


class LedgerUnavailable(LedgerError, Retriable, TimeoutError):
    """The time passed before the brokers told what the ledger has. The same call may be made again."""


class LedgerBusy(LedgerError, Retriable):
    """A transaction that is open has written an entry of the sink: its writer is at work, or died and was not followed by another yet, or
    the transaction hangs."""


class LedgerUnusable(LedgerError):
    """The ledger's topic cannot be a ledger as it is: it deletes, is not there and cannot be created, or may not be read."""


class LedgerDamaged(LedgerError):
    """What the ledger has cannot be read here, or is not fencepost's: damaged bytes, the format of another version, a batch larger than any
    entry, or nothing but a record that is of no transaction."""


class LedgerRefusal(LedgerError):
    """The batch may not be written, and may not be skipped either. `entry`: what the ledger has, None where it has nothing."""

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
    """The sink's newest batch is of another query, or of another content under the same number: the checkpoint is not the one with which
    that batch was written."""


class CheckpointRolledBack(LedgerRefusal):
    """The batch is older than the sink's newest one: the checkpoint has been restored from a backup."""


class LedgerMissing(LedgerRefusal):
    """The query has written batches before, and the ledger knows of none."""


class LedgerBehind(LedgerRefusal):
    """Batches between the sink's newest one and this read something, as the checkpoint shows, and the ledger knows nothing of them: it lost
    its end, or is a mirror that lags."""


class FingerprintMissing(LedgerRefusal):
    """The sink's batches are told apart by fingerprints, and this one has none."""


class OlderVersion(LedgerRefusal):
    """`write_once`: a newer version of the job has been written already."""
