"""The errors of transactions, besides those of `producer.errors`.

The classes say what to do next, as KIP-1050 sorts Kafka's: `Retriable` (make the same call again), `MustAbort` (abort, then write the same
transaction again), `Fatal` (a new producer, or another configuration), and `CommitOutcomeUnknown`, which is none of these.
`txn.protocol.error_table` says what each error code means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, SupportsFloat

from fencepost.producer.errors import DeliveryError, Fatal, FencepostError, Misuse, Retriable

__all__ = [
    "CommitOutcomeUnknown",
    "DeliveryAborted",
    "IdentityLost",
    "IllegalCall",
    "MustAbort",
    "NotPermitted",
    "ParticipationEnded",
    "TransactionAborted",
    "TransactionCommitted",
    "TransactionOpen",
    "TransactionTimeout",
]


class IllegalCall(Misuse):
    """The call does not fit the producer's state; the message names the calls that do."""


class TransactionTimeout(Retriable, TimeoutError):
    """The call's time passed before its outcome was known. Nothing is decided: the same call may be made again, and continues there."""


class MustAbort(FencepostError):
    """The transaction cannot be committed: abort it, and write it again in a new one (KIP-1050's TransactionAbortableException).

    `cause`, also `__cause__`: the delivery that failed first, if one did. `code`: the error code that is the cause, or 0.
    """

    def __init__(self, reason: str, cause: DeliveryError | None = None, code: int = 0) -> None:
        self.reason: Final = reason
        self.cause: Final = cause
        self.__cause__ = cause
        self.code = cause.code if cause is not None else code
        super().__init__(reason)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.reason, self.cause, self.code)

    def again(self) -> MustAbort:
        """A fresh instance with the same content."""
        return type(self)(self.reason, self.cause, self.code)


class DeliveryAborted(DeliveryError):
    """The record was not sent, or not acknowledged, when its transaction was aborted or could only be aborted."""


class ParticipationEnded(DeliveryError):
    """The shared transaction has ended, or must be aborted: its owner ended it, it timed out, or another producer took the transactional id
    over. Kafka does not say which. The participant can write nothing more under this participation."""


class IdentityLost(Fatal):
    """The coordinator no longer knows this producer's identity (INVALID_PRODUCER_ID_MAPPING), and its transaction had begun. A new producer
    gets a new identity. If the id had expired before the transaction began, MustAbort is raised instead, and the same producer continues
    after the abort."""


class NotPermitted(Fatal):
    """The coordinator refuses until permissions or settings change (KIP-1050's InvalidConfigurationException)."""


class TransactionAborted(FencepostError):
    """The transaction, usually a prepared one, has been aborted: by its deadline, by another process with its token, or by a producer that
    registered under the same id. It can no longer be committed. Readers with read_committed never see its records."""


class TransactionCommitted(FencepostError):
    """Another process with the token has committed the prepared transaction, so it can no longer be aborted."""


class TransactionOpen(Retriable):
    """Registering under this transactional id would abort an open transaction, and `on_open_transaction` forbids that. Nothing was done.
    The same call succeeds once that transaction is over."""


class CommitOutcomeUnknown(FencepostError):
    """The coordinator was asked to end the transaction, and it is not known whether the transaction is committed. It is not safe to write
    the transaction again, nor to give it up.

    `resolve(timeout)` keeps asking. It returns None if the transaction was committed, also if `abort` raised this error. It raises this
    error again if the time passes, or if no broker can tell any more. Otherwise the transaction was not committed:

    - MustAbort: the producer can continue after an abort.
    - Fenced: the producer cannot continue either.
    - TransactionAborted: it was prepared, or its producer ended for another reason.

    Until then the producer begins no other transaction. With asyncio, call `await error.resolve(timeout)`.
    """

    def __init__(self, reason: str) -> None:
        self.reason: Final = reason
        self.resolver: Callable[[SupportsFloat | None], Any] | None = None
        super().__init__(reason)

    def resolve(self, timeout: SupportsFloat | None = None) -> Any:
        """Ask for the outcome, for up to `timeout` seconds (None: max_block_ms)."""
        if self.resolver is None:
            raise type(self)(self.reason)
        return self.resolver(timeout)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.reason,)
