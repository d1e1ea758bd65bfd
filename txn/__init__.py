"""Transactions on top of the producer: records that are visible together or not at all.

`TransactionalProducer`, `AsyncTransactionalProducer`, `resume` for transactions that another process prepared, `Borrower` for those that
another process lends, the `Ledger` of micro-batches, and what they raise are exported here, and loaded when first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import producer as _producer  # noqa: F401  # so that what is compiled here has been looked at before it is loaded
from txn import errors as _errors
from txn import ledger_errors as _ledger_errors

if TYPE_CHECKING:
    from txn.admission import NoTransaction as NoTransaction
    from txn.aio import AsyncTransaction as AsyncTransaction
    from txn.aio import AsyncTransactionalProducer as AsyncTransactionalProducer
    from txn.borrowed import NotLent as NotLent
    from txn.borrower import Borrower as Borrower
    from txn.borrower import NoLoan as NoLoan
    from txn.errors import CommitOutcomeUnknown as CommitOutcomeUnknown
    from txn.errors import DeliveryAborted as DeliveryAborted
    from txn.errors import IdentityLost as IdentityLost
    from txn.errors import LoanOver as LoanOver
    from txn.errors import MustAbort as MustAbort
    from txn.errors import NotPermitted as NotPermitted
    from txn.errors import TransactionAborted as TransactionAborted
    from txn.errors import TransactionCommitted as TransactionCommitted
    from txn.errors import TransactionOpen as TransactionOpen
    from txn.errors import TransactionTimeout as TransactionTimeout
    from txn.group_metadata import GroupMetadata as GroupMetadata
    from txn.ledger import Ledger as Ledger
    from txn.ledger_entry import LedgerEntry as LedgerEntry
    from txn.ledger_entry import LedgerPartition as LedgerPartition
    from txn.ledger_errors import BadLedgerEntry as BadLedgerEntry
    from txn.ledger_errors import CheckpointReplaced as CheckpointReplaced
    from txn.ledger_errors import CheckpointRolledBack as CheckpointRolledBack
    from txn.ledger_errors import FingerprintMissing as FingerprintMissing
    from txn.ledger_errors import LedgerBehind as LedgerBehind
    from txn.ledger_errors import LedgerBusy as LedgerBusy
    from txn.ledger_errors import LedgerDamaged as LedgerDamaged
    from txn.ledger_errors import LedgerError as LedgerError
    from txn.ledger_errors import LedgerMissing as LedgerMissing
    from txn.ledger_errors import LedgerRefusal as LedgerRefusal
    from txn.ledger_errors import LedgerUnavailable as LedgerUnavailable
    from txn.ledger_errors import LedgerUnusable as LedgerUnusable
    from txn.ledger_errors import OlderVersion as OlderVersion
    from txn.lending import NotReturned as NotReturned
    from txn.lending import NotToBeLent as NotToBeLent
    from txn.loan import BadLoan as BadLoan
    from txn.loan import Loan as Loan
    from txn.loan import Written as Written
    from txn.machine import IllegalCall as IllegalCall
    from txn.offsets import OffsetAndMetadata as OffsetAndMetadata
    from txn.outcome import Marker as Marker
    from txn.outcome import Outcome as Outcome
    from txn.outcome import PreparedStatus as PreparedStatus
    from txn.producer import TransactionalProducer as TransactionalProducer
    from txn.resumed import AsyncResumed as AsyncResumed
    from txn.resumed import Resumed as Resumed
    from txn.resumed import resume as resume
    from txn.resumed import resume_async as resume_async
    from txn.token import BadToken as BadToken
    from txn.token import PreparedTransaction as PreparedTransaction
    from txn.transaction import Transaction as Transaction

_HOMES: dict[str, tuple[str, ...]] = {
    "txn.errors": tuple(_errors.__all__),
    "txn.admission": ("NoTransaction",),
    "txn.aio": ("AsyncTransaction", "AsyncTransactionalProducer"),
    "txn.borrowed": ("NotLent",),
    "txn.borrower": ("Borrower", "NoLoan"),
    "txn.group_metadata": ("GroupMetadata",),
    "txn.lending": ("NotReturned", "NotToBeLent"),
    "txn.loan": ("BadLoan", "Loan", "Written"),
    "txn.ledger": ("Ledger",),
    "txn.ledger_entry": ("LedgerEntry", "LedgerPartition"),
    "txn.ledger_errors": tuple(_ledger_errors.__all__),
    "txn.machine": ("IllegalCall",),
    "txn.offsets": ("OffsetAndMetadata",),
    "txn.outcome": ("Marker", "Outcome", "PreparedStatus"),
    "txn.producer": ("TransactionalProducer",),
    "txn.resumed": ("AsyncResumed", "Resumed", "resume", "resume_async"),
    "txn.token": ("BadToken", "PreparedTransaction"),
    "txn.transaction": ("Transaction",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*_HOME_OF]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = globals()[name] = getattr(import_module(home), name)
    except AttributeError as error:  # Of which Python would say no more than that the name cannot be imported.
        raise ImportError(f"{home}: {error}") from error
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
