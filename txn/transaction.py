"""One transaction, as the caller holds it: once it is over, it refuses records. A hot module.

A send first registers at the send gate, then checks that the transaction is the open one, so no record gets into the next transaction.
`TransactionCalls` ends it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final, NoReturn, Self, SupportsFloat

from fencepost.producer.accumulator.batch import Headers, OnDelivery, RecordFuture
from fencepost.producer.bulk.bulk import BulkFuture
from fencepost.producer.errors import FencepostError, bound_to_process
from fencepost.txn.coordinator.inner_producer import InnerProducer
from fencepost.txn.coordinator.send_admission import NoTransaction
from fencepost.txn.coordinator.send_gate import SendGate
from fencepost.txn.coordinator.state_machine import Event
from fencepost.txn.coordinator.transaction_calls import TransactionCalls
from fencepost.txn.coordinator.transaction_manager import TransactionManager
from fencepost.txn.errors import CommitOutcomeUnknown, IllegalCall, MustAbort, TransactionTimeout
from fencepost.txn.recovery.token import PreparedTransaction
from fencepost.txn.shared.participation import TP, Participation, Written

log: Final = logging.getLogger("fencepost.txn")


class Transaction:
    """One transaction of a producer; see `TransactionalProducer.transaction`. `over`: it has been committed or aborted."""

    def __init__(self, calls: TransactionCalls, timeout: SupportsFloat | None) -> None:
        self._calls = calls
        self._inner: InnerProducer = calls.inner
        self._writing: SendGate = calls.writing
        self._manager: TransactionManager = calls.manager
        self._timeout = timeout
        self._number = 0
        self._prepared = False
        self._aborted = False
        self.over = False

    def __reduce__(self) -> NoReturn:
        raise bound_to_process("Transaction", "share it with a Participant, or make a producer in the worker or task")

    def __repr__(self) -> str:
        state = "over" if self.over else "prepared" if self._prepared else "open" if self._number else "not begun"
        return f"{type(self).__name__}(transactional_id={self._manager.transactional_id!r}, {state})"

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

    def send_offsets(self, offsets: object, group: object, timeout: SupportsFloat | None = None) -> None:
        """`TransactionalProducer.send_offsets`, while this transaction is open."""
        self._refuse_past()
        self._calls.send_offsets(offsets, group, self._timeout if timeout is None else timeout, self._number)

    def share(self, partitions: Iterable[TP], timeout: SupportsFloat | None = None) -> Participation:
        """Share these (topic, partition) pairs of the transaction with other processes. A `Participant` writes to them with the returned
        participation. Only this producer ends the transaction. In the same transaction it cannot write to them itself.

        With transaction version 1 the call asks the coordinator to add the partitions in one request, and waits for up to `timeout` seconds
        (TransactionTimeout: nothing is decided, call again). Raises NotShareable for a partition that has a writer already, and MustAbort
        if the transaction must be aborted. Acknowledged records of a participant are part of the transaction, whether or not they are
        returned. If a participant failed or did not answer, abort. A commit raises NotReturned until each partition came back to
        `returned`. If Ctrl-C interrupts the call, the partitions may be shared although the caller has no participation: abort.
        """
        self._refuse_past()
        return self._calls.share(partitions, self._timeout if timeout is None else timeout, self._number)

    def returned(self, written: Iterable[Written]) -> None:
        """Take what participants wrote, as `Participant.finish` returned it. After that the transaction can be committed, and the
        partitions can be shared again in it. If the commit's outcome is unknown, the search begins at these offsets. `Participation.unused`
        makes accounts of partitions without records. Raises BadParticipation for an account that does not fit what was shared."""
        self._refuse_past()
        self._calls.returned(written, self._timeout, self._number)

    def prepare(self, timeout: SupportsFloat | None = None) -> PreparedTransaction:
        """`TransactionalProducer.prepare`, for this transaction only. Leaving the block afterwards aborts nothing."""
        if not self._number:
            raise NoTransaction("prepare: this transaction has not begun")
        token = self._calls.prepare(self._timeout if timeout is None else timeout, self._number)
        self._prepared = True
        return token

    def commit(self, timeout: SupportsFloat | None = None) -> None:
        """`TransactionalProducer.commit`, for this transaction only."""
        self._finish(Event.COMMIT, self._timeout if timeout is None else timeout)

    def abort(self, timeout: SupportsFloat | None = None) -> None:
        """`TransactionalProducer.abort`, for this transaction only."""
        self._finish(Event.ABORT, self._timeout if timeout is None else timeout)

    def __enter__(self) -> Self:
        if not self._number:
            self._number = self._calls.begin(self._timeout)
        self._manager.block = self._number  # set without a call, at which Ctrl-C could strike
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.over or self._prepared or self._calls.is_handed_out(self._number):
            return
        if error is not None:
            self._give_up(error)
            return
        try:
            self.commit()
        except CommitOutcomeUnknown:
            raise  # The transaction may be committed.
        except TransactionTimeout as late:
            self._abort_or_hear(late)
        except BaseException as failed:
            self._give_up(failed)
            raise

    def _give_up(self, error: BaseException) -> None:
        """Abort. A failure of the abort must not hide the first error."""
        try:
            self.abort(self._inner.time_to_leave(error))
        except FencepostError as second:
            log.warning("transactional id %s: not aborted after %r: %s", self._calls.transactional_id, error, second)

    def _abort_or_hear(self, late: TransactionTimeout) -> None:
        """Abort a transaction whose commit ran out of time. If the coordinator has been asked to commit by now, report the outcome instead,
        or raise CommitOutcomeUnknown if it is not known."""
        try:
            self.abort(self._inner.time_to_leave(late))
        except IllegalCall:
            try:
                self.commit(0.0)
            except MustAbort as failed:
                self._give_up(failed)
                raise
            return
        except FencepostError as second:
            log.warning("transactional id %s: not aborted after %r: %s", self._calls.transactional_id, late, second)
        raise late

    def _finish(self, event: Event, timeout: SupportsFloat | None) -> None:
        if not self._number:
            raise NoTransaction(f"{event.value}: this transaction has not begun")
        self._calls.end(event, timeout, self._number)
        self.over = True
        self._aborted = event is Event.ABORT

    def _refuse_past(self) -> None:
        if self.over or self._number != self._writing.current:
            raise NoTransaction("this transaction is not open: the record was not accepted")
        spoilt = self._manager.spoilt
        if spoilt is not None:
            raise spoilt.again()
