"""One transaction, as the caller holds it: what is sent through it is refused once it is over. A hot module.

It looks whether it is the open one while it is noted as writing, so that no record comes out of a send in the next transaction.
`TransactionCalls` ends it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final, Self

from fencepost.producer.accumulator.batch import Headers, OnDelivery, RecordFuture
from fencepost.producer.bulk.bulk import BulkFuture
from fencepost.producer.errors import FencepostError
from fencepost.txn.coordinator.inner_producer import InnerProducer
from fencepost.txn.coordinator.send_admission import NoTransaction
from fencepost.txn.coordinator.send_gate import SendGate
from fencepost.txn.coordinator.state_machine import Event, IllegalCall
from fencepost.txn.coordinator.transaction_calls import TransactionCalls
from fencepost.txn.coordinator.transaction_manager import TransactionManager
from fencepost.txn.errors import CommitOutcomeUnknown, MustAbort, TransactionTimeout
from fencepost.txn.recovery.token import PreparedTransaction
from fencepost.txn.shared.participation import TP, Participation, Written

log: Final = logging.getLogger("fencepost.txn")


class Transaction:
    """One transaction of a producer; see `TransactionalProducer.transaction`. `over`: it was committed or aborted."""

    def __init__(self, calls: TransactionCalls, timeout: float | None) -> None:
        self._calls = calls
        self._inner: InnerProducer = calls.inner
        self._writing: SendGate = calls.writing
        self._manager: TransactionManager = calls.manager
        self._timeout = timeout
        self._number = 0
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
        self._calls.send_offsets(offsets, group, self._timeout if timeout is None else timeout, self._number)

    def share(self, partitions: Iterable[TP], timeout: float | None = None) -> Participation:
        """Share the transaction to other processes, for these (topic, partition) pairs: a `Participant` writes there with what this
        returns, and only this producer ends the transaction. It itself cannot write there until the next one.

        With transaction version 1 the coordinator is asked to add the partitions, all at once, and waited for up to `timeout`
        (TransactionTimeout: nothing is decided, call again). Raises NotShareable for a partition that has a writer already, MustAbort where
        the transaction must be aborted. What a participant wrote is part of the transaction once it was acknowledged, whether or not
        anybody tells: abort where a participant failed, or did not answer. A commit raises NotReturned until all of it came back to
        `returned`. Interrupted by Ctrl-C, the partitions may be shared with nobody who has the participation: abort.
        """
        self._refuse_past()
        return self._calls.share(partitions, self._timeout if timeout is None else timeout, self._number)

    def returned(self, written: Iterable[Written]) -> None:
        """What participants wrote, as `Participant.finish` returned it, so that the transaction can be committed, these partitions can be
        shared again in it, and where its records are is known if the outcome of the commit is not. `Participation.unused` has accounts of
        partitions that nobody wrote. Raises BadParticipation for an account that does not fit what was shared."""
        self._refuse_past()
        self._calls.returned(written, self._timeout, self._number)

    def prepare(self, timeout: float | None = None) -> PreparedTransaction:
        """`TransactionalProducer.prepare`, of this transaction and no other. The block may be left after it: nothing is aborted."""
        if not self._number:
            raise NoTransaction("prepare: this transaction has not begun")
        token = self._calls.prepare(self._timeout if timeout is None else timeout, self._number)
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
            self._number = self._calls.begin(self._timeout)
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
            raise  # It may be committed.
        except TransactionTimeout as late:
            self._abort_or_hear(late)
        except BaseException as failed:
            self._give_up(failed)
            raise

    def _give_up(self, error: BaseException) -> None:
        """Abort; what goes wrong with that must not hide why."""
        try:
            self.abort(self._inner.time_to_leave(error))
        except FencepostError as second:
            log.warning("transactional id %s: not aborted after %r: %s", self._calls.transactional_id, error, second)

    def _abort_or_hear(self, late: TransactionTimeout) -> None:
        """Abort what could not be committed in time, unless the coordinator has been asked to commit by now: what has come of that, where
        it is known, and CommitOutcomeUnknown where not."""
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

    def _finish(self, event: Event, timeout: float | None) -> None:
        if not self._number:
            raise NoTransaction(f"{event.value}: this transaction has not begun")
        self._calls.end(event, timeout, self._number)
        self.over = True
        self._aborted = event is Event.ABORT

    def _refuse_past(self) -> None:
        if self.over or self._number != self._writing.current:
            raise NoTransaction("this transaction is not open (any more): nothing was accepted")
        spoilt = self._manager.spoilt
        if spoilt is not None:
            raise spoilt.again()
