"""The errors of a compacted topic of newest entries, which say "ledger" because the ledger of micro-batches is the oldest of these topics.

Nothing was written when one of these is raised.
"""

from __future__ import annotations

from fencepost.producer.errors import FencepostError, Retriable

__all__ = ["LedgerBusy", "LedgerDamaged", "LedgerError", "LedgerUnavailable", "LedgerUnusable"]


class LedgerError(FencepostError):
    """The ledger, or its newest entry, prevents the write of a batch."""


class LedgerUnavailable(LedgerError, Retriable, TimeoutError):
    """The time passed before the brokers told what the ledger has. The same call may be made again."""


class LedgerBusy(LedgerError, Retriable):
    """An open transaction has written an entry of the sink. Its writer is at work, or died and has no successor yet, or the transaction
    hangs."""


class LedgerUnusable(LedgerError):
    """The topic cannot be a ledger: it deletes entries, is missing and cannot be created, or cannot be read with these permissions."""


class LedgerDamaged(LedgerError):
    """The ledger's record cannot be read here, or is not fencepost's: damaged bytes, the format of another version, a batch larger than any
    entry, or only a record outside of any transaction."""
