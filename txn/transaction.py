"""One transaction, as the caller holds it: what is sent through it is refused once it is over. A hot module.

It looks whether it is the open one while it is noted as writing, so that no record comes out of a send in the next transaction. How it ends
is for its producer.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from producer.core.batch import Headers, OnDelivery, RecordFuture
from producer.core.bulk import BulkFuture
from producer.core.errors import FencepostError
from txn.admission import NoTransaction
from txn.errors import CommitOutcomeUnknown, MustAbort, TransactionTimeout
from txn.inner import Inner
from txn.loan import TP, Loan, Written
from txn.machine import Event, IllegalCall
from txn.manager import Manager
from txn.token import PreparedTransaction
from txn.writing import Writing

if TYPE_CHECKING:
    from txn.producer import TransactionalProducer

log: Final = logging.getLogger("fencepost.txn")


class Transaction:
    """One transaction of a producer; see `TransactionalProducer.transaction`. `over`: it was committed or aborted."""

    def __init__(self, producer: TransactionalProducer, timeout: float | None, *, number: int = 0) -> None:
        self._producer = producer
        self._inner: Inner = producer._inner
        self._writing: Writing = producer._writing
        self._manager: Manager = producer._manager
        self._timeout = timeout
        self._number = number
        self._prepared = False
        self._aborted = False
        self.over = False

    def send(
        self,
        topic: str,
        value: object,
        *,
        key: object = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordFuture:
        """`TransactionalProducer.send`, while this transaction is open."""
        with self._writing.note():
            self._refuse_past()
            return self._inner.send(
                topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp, on_delivery=on_delivery
            )

    def send_many(self, topic: str, records: Iterable[object], *, partition: int | None = None) -> BulkFuture:
        """`TransactionalProducer.send_many`, while this transaction is open."""
        with self._writing.note():
            self._refuse_past()
            return self._inner.send_many(topic, records, partition=partition)

    def send_arrow(self, topic: str, data: Any, **columns: Any) -> BulkFuture:
        """`TransactionalProducer.send_arrow`, while this transaction is open."""
        with self._writing.note():
            self._refuse_past()
            return self._inner.send_arrow(topic, data, **columns)

    def send_offsets(self, offsets: object, group: object, timeout: float | None = None) -> None:
        """`TransactionalProducer.send_offsets`, while this transaction is open."""
        self._refuse_past()
        self._producer._send_offsets(offsets, group, self._timeout if timeout is None else timeout, self._number)

    def lend(self, partitions: Iterable[TP], timeout: float | None = None) -> Loan:
        """Lend the transaction to other processes, for these (topic, partition) pairs: a `Borrower` writes there with what this returns,
        and only this producer ends the transaction. It itself cannot write there until the next one.

        With transaction version 1 the coordinator is asked to add the partitions, all at once, and waited for up to `timeout`
        (TransactionTimeout: nothing is decided, call again). Raises NotToBeLent for a partition that has a writer already, MustAbort where
        the transaction must be aborted. What a borrower wrote is part of the transaction once it was acknowledged, whether or not anybody
        tells: abort where a borrower failed, or did not answer. A commit raises NotReturned until all of it came back to `returned`.
        Interrupted by Ctrl-C, the partitions may be lent with nobody who has the loan: abort.
        """
        self._refuse_past()
        return self._producer._lend(partitions, self._timeout if timeout is None else timeout, self._number)

    def returned(self, written: Iterable[Written]) -> None:
        """What borrowers wrote, as `Borrower.finish` returned it, so that the transaction can be committed, these partitions can be
        lent again in it, and where its records are is known if the outcome of the commit is not. `Loan.unused` has accounts of partitions
        that nobody wrote. Raises BadLoan for an account that does not fit what was lent."""
        self._refuse_past()
        self._producer._returned(written, self._timeout, self._number)

    def prepare(self, timeout: float | None = None) -> PreparedTransaction:
        """`TransactionalProducer.prepare`, of this transaction and no other. The block may be left after it: nothing is aborted."""
        if not self._number:
            raise NoTransaction("prepare: this transaction has not begun")
        token = self._producer._prepare(self._timeout if timeout is None else timeout, self._number)
        self._prepared = True
        return token

    def commit(self, timeout: float | None = None) -> None:
        """`TransactionalProducer.commit`, of this transaction and no other."""
        self._finish(Event.COMMIT, self._timeout if timeout is None else timeout)

    def abort(self, timeout: float | None = None) -> None:
        """`TransactionalProducer.abort`, of this transaction and no other."""
        self._finish(Event.ABORT, self._timeout if timeout is None else timeout)

    def __enter__(self) -> Self:
        if not self._number:
            self._number = self._producer.begin(self._timeout)._number
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.over or self._prepared or self._producer._is_handed_out(self._number):
            return
        if error is not None:
            self._give_up(error)
            return
        try:
            self.commit()
        except CommitOutcomeUnknown:
            raise  # It may be committed.
        except TransactionTimeout as late:
            self._abort_or_hear(late)
        except BaseException as failed:
            self._give_up(failed)
            raise

    def _give_up(self, error: BaseException) -> None:
        """Abort; what goes wrong with that must not hide why."""
        try:
            self.abort(self._producer._inner.time_to_leave(error))
        except FencepostError as second:
            log.warning("transactional id %s: not aborted after %r: %s", self._producer.transactional_id, error, second)

    def _abort_or_hear(self, late: TransactionTimeout) -> None:
        """Abort what could not be committed in time, unless the coordinator has been asked to commit by now: what has come of that, where
        it is known, and CommitOutcomeUnknown where not."""
        try:
            self.abort(self._producer._inner.time_to_leave(late))
        except IllegalCall:
            try:
                self.commit(0.0)
            except MustAbort as failed:
                self._give_up(failed)
                raise
            return
        except FencepostError as second:
            log.warning("transactional id %s: not aborted after %r: %s", self._producer.transactional_id, late, second)
        raise late

    def _finish(self, event: Event, timeout: float | None) -> None:
        if not self._number:
            raise NoTransaction(f"{event.value}: this transaction has not begun")
        self._producer._end(event, timeout, self._number)
        self.over = True
        self._aborted = event is Event.ABORT

    def _refuse_past(self) -> None:
        if self.over or self._number != self._writing.current:
            raise NoTransaction("this transaction is not open (any more): nothing was accepted")
        spoilt = self._manager.spoilt
        if spoilt is not None:
            raise spoilt.again()
