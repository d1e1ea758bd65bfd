"""What a user of transactions can be told, beside what `producer.errors` has.

The classes say what to do next, as KIP-1050 sorts Kafka's: `Retriable` (the same call again), `MustAbort` (abort, then the same
transaction again), `Fatal` (a new producer, or another configuration), and `CommitOutcomeUnknown`, which is none of these. Which error
code means which is in `txn.protocol.error_table`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fencepost.producer.errors import DeliveryError, Fatal, FencepostError, Retriable

__all__ = [
    "CommitOutcomeUnknown",
    "DeliveryAborted",
    "IdentityLost",
    "MustAbort",
    "NotPermitted",
    "ParticipationEnded",
    "TransactionAborted",
    "TransactionCommitted",
    "TransactionOpen",
    "TransactionTimeout",
]


class TransactionTimeout(Retriable, TimeoutError):
    """The call's time passed before its outcome was known. Nothing is decided: the same call may be made again, and goes on where this one
    stopped."""


class MustAbort(FencepostError):
    """The transaction cannot be committed: abort it, and write it again in a new one (KIP-1050's TransactionAbortableException).

    `cause`: the delivery that failed first, where it was one. `code`: the error code that spoilt the transaction, 0 where there was none.
    """

    def __init__(self, reason: str, cause: DeliveryError | None = None, code: int = 0) -> None:
        self.reason: Final = reason
        self.cause: Final = cause
        self.code: Final = cause.code if cause is not None else code
        super().__init__(reason)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.reason, self.cause, self.code)

    def again(self) -> MustAbort:
        """A fresh instance with the same content."""
        return type(self)(self.reason, self.cause, self.code)


class DeliveryAborted(DeliveryError):
    """The record was not sent, or not acknowledged, when its transaction was aborted or could only be aborted any more."""


class ParticipationEnded(DeliveryError):
    """The transaction that was shared is over, or must be aborted: its owner ended it, its time passed, or another producer took the
    transactional id over. Kafka does not say which. Nothing more can be written under this participation."""


class IdentityLost(Fatal):
    """The coordinator does not know this producer's identity any more (INVALID_PRODUCER_ID_MAPPING), and its transaction had begun: a
    new producer gets a new one. An id that had expired before is a MustAbort, and the same producer goes on after the abort."""


class NotPermitted(Fatal):
    """The coordinator refuses, and will until permissions or settings are others (KIP-1050's InvalidConfigurationException)."""


class TransactionAborted(FencepostError):
    """The transaction, as a rule a prepared one, has been aborted: by its deadline, by somebody with its token, or by a producer that
    registered under the same id. It cannot be committed any more; none of its records is ever seen by readers with read_committed."""


class TransactionCommitted(FencepostError):
    """The prepared transaction has been committed by somebody with its token: it cannot be aborted any more."""


class TransactionOpen(Retriable):
    """Registering under this transactional id would abort a transaction that is open, and was not to (`on_open_transaction`). Nothing was
    done; the same call goes through when that transaction is over."""


class CommitOutcomeUnknown(FencepostError):
    """The coordinator was asked to commit, and whether it did is not known. Neither writing the transaction again nor leaving it is safe.

    `resolve(timeout)` goes on asking: it returns when the transaction turns out to be committed, raises MustAbort when it turns out not to
    be (Fenced where the producer cannot go on either, TransactionAborted where it was prepared, or its producer ended for another reason),
    and this error when the time passed again, or when nobody can tell any more. Until then the producer begins no other transaction.
    From an AsyncTransactionalProducer it is `await error.resolve(timeout)`.
    """

    def __init__(self, reason: str) -> None:
        self.reason: Final = reason
        self.resolver: Callable[[float | None], Any] | None = None
        super().__init__(reason)

    def resolve(self, timeout: float | None = None) -> Any:
        """Find out, within `timeout` seconds (None: max_block_ms)."""
        if self.resolver is None:
            raise type(self)(self.reason)
        return self.resolver(timeout)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.reason,)
