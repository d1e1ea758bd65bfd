"""What a pipeline and a job do with a transaction that cannot be committed: they abort it or replace the producer, and fail after too many.

The caller notes what it has to read again before `settle`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

from fencepost.producer.errors import (
    Fatal,
    FencepostError,
    ProducerClosed,
    RecordRefused,
    Retriable,
    TopicUnavailable,
    UnknownPartition,
)
from fencepost.producer.wire.codes import ErrorCode
from fencepost.txn.errors import MustAbort, TransactionAborted
from fencepost.txn.loop.own_producer import OwnProducer
from fencepost.txn.loop.patience import Patience

W = TypeVar("W")


class Limits(Protocol):
    """The settings of aborts."""

    @property
    def attempts(self) -> int: ...

    @property
    def aborts_max(self) -> int: ...

    @property
    def transaction_timeout_ms(self) -> int: ...


class Aborts:
    """See the module. `stopping`: by error code, what to do about a refusal that another attempt does not change. `failed`: the error of
    giving up. `but`: errors of an abort that the caller handles."""

    def __init__(
        self,
        limits: Limits,
        producer: OwnProducer,
        patience: Patience,
        stopping: Mapping[ErrorCode, str],
        failed: type[FencepostError],
        *,
        but: tuple[type[FencepostError], ...] = (),
    ) -> None:
        self._limits = limits
        self._producer = producer
        self._patience = patience
        self._stopping = stopping
        self._failed = failed
        self._but = but
        self._in_a_row = 0

    def committed(self) -> None:
        """A commit ends the row of aborts."""
        self._in_a_row = 0

    def slow(self, taken_s: float) -> str:
        """For the error, if the batch took longer than a transaction may."""
        limit_ms = self._limits.transaction_timeout_ms
        if taken_s < limit_ms / 1000.0:
            return ""
        return f". The batch took {taken_s:.1f} s, longer than transaction_timeout_ms={limit_ms}"

    async def refuse_lasting(self, transaction: Any, error: FencepostError) -> None:
        """Give the transaction back and raise, if another attempt cannot change the brokers' refusal."""
        code = getattr(cause_of(error), "code", 0)
        if code in self._stopping:
            await self._producer.give_back(transaction, but=self._but)
            raise self._failed(f"the brokers refuse: {error}: {self._stopping[ErrorCode(code)]}") from error

    async def settle(self, transaction: Any, error: FencepostError, advice: str, *, counts: bool = True, is_one_more: bool = True) -> None:
        """Give the transaction back, or replace a producer that has ended. Raises after too many aborts in a row; otherwise pauses.
        `is_one_more`: this abort is one of the row."""
        if isinstance(error, Fatal | ProducerClosed | TransactionAborted):
            await self._producer.replace(error)
        else:
            await self._producer.give_back(transaction, but=self._but)
        if not counts or (isinstance(error, Retriable) and not isinstance(error, TopicUnavailable)):
            return
        self._in_a_row += is_one_more
        if self._in_a_row > self._limits.aborts_max:
            raise self._failed(
                f"{self._in_a_row} transactions in a row were aborted, more than aborts_max={self._limits.aborts_max}; the last:"
                f" {error}{advice}"
            ) from error
        await self._patience.pause(self._in_a_row)


def cause_of(error: FencepostError) -> object:
    """Why a transaction must be aborted."""
    return error.cause if isinstance(error, MustAbort) and error.cause is not None else error


def is_of_a_record(error: FencepostError) -> bool:
    """Whether one record of the transaction is the cause: the brokers refuse it, or its topic lacks its partition."""
    if isinstance(error, UnknownPartition):
        return True
    cause = cause_of(error)
    return isinstance(cause, RecordRefused) and cause.permanent


class Suspects(Generic[W]):
    """Counts how often each record was refused, alone in its transaction. `where`: the record. `is_first`: whether the newest suspect is
    the first one since a commit. Aborts for others need no limit, because there are no more than `attempts` for each record."""

    def __init__(self, limits: Limits) -> None:
        # Before the run fails with too many aborts: one more was the batch's, in which the record was first.
        self._enough = max(2, min(limits.attempts, limits.aborts_max - 1))
        self._times: dict[W, int] = {}
        self._first: W | None = None
        self.is_first = True

    def is_guilty(self, where: W, error: FencepostError) -> bool:
        """Whether the record is the cause. A broker that fails, or has not heard of a new partition yet, must say so several times."""
        if self._first is None:
            self._first = where
        self.is_first = where == self._first
        times = self._times[where] = self._times.get(where, 0) + 1
        may_pass = isinstance(error, UnknownPartition) or getattr(cause_of(error), "code", 0) == ErrorCode.UNKNOWN_SERVER_ERROR
        is_guilty = not may_pass or times >= self._enough
        if is_guilty:
            del self._times[where]
        return is_guilty

    def committed(self) -> None:
        """A transaction is committed."""
        self._first, self.is_first = None, True

    def clear(self) -> None:
        """No record is suspected."""
        self._times.clear()
