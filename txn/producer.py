"""The transactional producer that callers hold: thread-safe, every call with a deadline, and every call can be made again after it.

It decides nothing: `machine` says what may be called, `manager` what is asked of the coordinator, `inner` which records are accepted. It
refuses to be used after a fork, and inside a delivery callback, where waiting would never end.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

from producer.core.batch import Headers, OnDelivery, RecordFuture
from producer.core.bulk import BulkFuture
from producer.core.errors import DeliveryError, Fatal, FencepostError, Misuse, ProducerClosed
from producer.front import unpicklable
from producer.stats import ProducerStats
from txn.admission import SOON_S
from txn.aftermath import LEAST_S, find_out, settle, to_ask_about
from txn.errors import CommitOutcomeUnknown, MustAbort, TransactionTimeout
from txn.group_metadata import GroupMetadata, read_group
from txn.inner import Inner
from txn.lending import Wish, read_written
from txn.loan import TP, Loan, Written, check_partitions
from txn.machine import Event
from txn.manager import Manager
from txn.offsets import Offsets, read_offsets
from txn.repeating import refuse_undone, worth_another
from txn.resumed import ask_now
from txn.settings import read_transaction_settings
from txn.token import PreparedTransaction
from txn.transaction import Transaction
from txn.writing import Writing

log = logging.getLogger("fencepost.txn")

ANSWER_MARGIN_S = 30.0
"""The manager ends every call at its deadline; a sender that does not answer is given up after this."""

T = TypeVar("T")


class TransactionalProducer:
    """A Kafka producer whose records are visible together or not at all, to consumers with `isolation.level=read_committed`.

    Settings are those of `Producer`, in either spelling, and `transactional_id` and `transaction_timeout_ms` (60,000). No connection is
    made before the first transaction, or `init`. Seconds everywhere; where a `timeout` is left out it is `max_block_ms`.

    One transaction at a time; any number of threads may write to it. A second producer with the same transactional id fences this one.
    `on_open_transaction` and `prepared` say what registering may do to a transaction that is open under the id: `txn.outstanding`.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Any) -> None:
        ours, rest = read_transaction_settings({**(config or {}), **settings})
        self.transactional_id = ours.transactional_id
        self._manager = Manager.of(ours)
        self._inner = Inner(self._manager, rest)
        self._closed = False
        self._writing = Writing()

    # -- transactions ------------------------------------------------------------------------------------------------

    def init(self, timeout: float | None = None) -> None:
        """Register with the coordinator: an older producer of this id is fenced, and its open transaction is aborted. Every first
        transaction does so by itself."""
        self._call(Event.INIT, timeout)

    def transaction(self, timeout: float | None = None) -> Transaction:
        """A transaction as a `with` block: committed at its end, aborted where an exception leaves it. `timeout`: of its beginning, and
        again of its end."""
        self._inner.admission.patience_s(timeout)
        return Transaction(self, timeout)

    def begin(self, timeout: float | None = None) -> Transaction:
        """Begin a transaction. Waits for the one before to be over, and the first time for the coordinator."""
        self._inner.admission.refuse_after_fork()
        limit_s = self._inner.admission.patience_s(timeout)
        deadline = time.monotonic() + limit_s
        self._manager.refuse(Event.BEGIN)
        if not self._writing.wait_for_others(limit_s):
            raise TransactionTimeout("begin: a send into the transaction before has not returned")
        tx = Transaction(self, timeout)
        # Without a call after it: Ctrl-C could strike there.
        tx._number = self._writing.current = self._call(Event.BEGIN, max(0.0, deadline - time.monotonic()))
        return tx

    def commit(self, timeout: float | None = None) -> None:
        """Wait for every record of the transaction, then have the coordinator commit it.

        Raises MustAbort when anything of it failed, whether or not anybody looked at that future: abort it then. TransactionTimeout:
        nothing is decided, call `commit` or `abort`. CommitOutcomeUnknown: the coordinator was asked and has not answered; see `resolve`
        there. NotReturned: what was lent did not come back, and the transaction goes on.
        """
        self._end(Event.COMMIT, timeout, self._writing.current)

    def abort(self, timeout: float | None = None) -> None:
        """Give the transaction up: what was not sent fails with DeliveryAborted, and no reader with read_committed sees the rest."""
        self._end(Event.ABORT, timeout, self._writing.current)

    def prepare(self, timeout: float | None = None) -> PreparedTransaction:
        """The first half of a commit: wait for every record, and return a token with which any process can commit or abort from now on
        (`txn.resume`). Nothing is sent any more; closing, leaving a block and the end of the process leave the transaction open.

        Raises MustAbort as `commit` does. Calling it again returns the same token.
        """
        return self._prepare(timeout, self._writing.current)

    def run(self, work: Callable[[Transaction], T], *, timeout: float | None = None, attempts: int = 5) -> T:
        """Call `work(tx)` in a transaction, and again in a new one where the first has to be aborted for no fault of the records, up to so
        many `attempts`. Returns what the attempt that was committed returned. Other exceptions abort, and are the caller's."""
        if attempts < 1:
            raise ValueError(f"attempts={attempts}: at least 1")
        while True:
            attempts -= 1
            try:
                with self.transaction(timeout) as tx:
                    result = work(tx)
                    refuse_undone(work, result)
                    return result
            except (MustAbort, DeliveryError) as error:
                if attempts < 1 or not tx._aborted or not worth_another(error):
                    raise
                log.info("transactional id %s: once more, as %s", self.transactional_id, error)

    # -- records -----------------------------------------------------------------------------------------------------

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
        """`Producer.send`, into the transaction that is open. A delivery that fails need not be looked at: the commit will."""
        with self._writing.note():
            self._manager.refuse_spoilt()
            return self._inner.send(
                topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp, on_delivery=on_delivery
            )

    def send_many(self, topic: str, records: Iterable[object], *, partition: int | None = None) -> BulkFuture:
        """`Producer.send_many`, into the transaction that is open."""
        with self._writing.note():
            self._manager.refuse_spoilt()
            return self._inner.send_many(topic, records, partition=partition)

    def send_arrow(self, topic: str, data: Any, **columns: Any) -> BulkFuture:
        """`Producer.send_arrow`, into the transaction that is open."""
        with self._writing.note():
            self._manager.refuse_spoilt()
            return self._inner.send_arrow(topic, data, **columns)

    def send_offsets(self, offsets: object, group: object, timeout: float | None = None) -> None:
        """Have a consumer group's offsets committed with the transaction that is open, and wait until the group's coordinator has them.

        `offsets`: of the next records to be read. A mapping of (topic, partition) or TopicPartition to an offset or OffsetAndMetadata, or
        confluent-kafka's `consumer.position(consumer.assignment())` as it is. `group`: confluent-kafka's `consumer_group_metadata()`,
        kafka-python's `group_metadata()`, or GroupMetadata.

        Raises MustAbort where the group has put this member out, or refuses; TransactionTimeout: nothing is decided, and a commit waits for
        these offsets. The call may be made again, also with newer offsets.
        """
        self._send_offsets(offsets, group, timeout, self._writing.current)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every record sent so far has its outcome. A commit does so by itself, and tells of failures, as this does not."""
        self._inner.flush(timeout)

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """`Producer.partitions_for`."""
        return self._inner.partitions_for(topic, timeout)

    @property
    def record_limit(self) -> tuple[int, str]:
        """`Producer.record_limit`."""
        return self._inner.record_limit

    def stats(self) -> ProducerStats:
        """`Producer.stats`."""
        return self._inner.stats()

    # -- the end -----------------------------------------------------------------------------------------------------

    def close(self, timeout: float | None = None) -> None:
        """Abort the transaction that is open, if one is, and end. A commit that is under way is waited for, and a prepared transaction is
        left to whoever has its token. Calling it again does nothing.

        An abort that fails is logged: the coordinator will abort the transaction when its time is up."""
        limit_s = self._inner.admission.patience_s(timeout)
        self._inner.admission.refuse_after_fork()
        began = time.monotonic()
        try:
            event = self._manager.end_at_close() if not self._closed else None
            if event is not None:
                self._call(event, limit_s)
        except FencepostError as error:
            log.warning("transactional id %s: closed in a transaction: %s", self.transactional_id, error)
        finally:
            self._closed = True
            # Also when it is called again: Ctrl-C may have struck on the way there.
            self._inner.close(max(0.0, limit_s - (time.monotonic() - began)))

    def __reduce__(self) -> NoReturn:
        raise unpicklable(type(self).__name__)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close(self._inner.time_to_leave(error))

    # -- small print -------------------------------------------------------------------------------------------------

    def _send_offsets(self, offsets: object, group: object, timeout: float | None, number: int) -> None:
        given, member = read_offsets(offsets), read_group(group)
        self._manager.refuse_spoilt()
        if given:
            self._call(Event.SEND_OFFSETS, timeout, number, (member, given))

    def _lend(self, partitions: Iterable[TP], timeout: float | None, number: int) -> Loan:
        wish = Wish(partitions=check_partitions(partitions))
        self._call(Event.LEND, timeout, number, wish=wish)
        assert wish.loan is not None
        return wish.loan

    def _returned(self, written: Iterable[Written], timeout: float | None, number: int) -> None:
        wish = Wish(written=read_written(written))
        if wish.written:
            self._call(Event.RETURNED, timeout, number, wish=wish)

    def _call(
        self,
        event: Event,
        timeout: float | None,
        number: int = 0,
        offsets: tuple[GroupMetadata, Offsets] | None = None,
        wish: Wish | None = None,
    ) -> int:
        """Make a call and wait for its outcome."""
        if self._inner.on_sender():
            raise Misuse(f"{event.value}() inside a delivery callback would never end: the callback runs on the thread that delivers")
        if self._closed:
            raise ProducerClosed("the producer is closed")
        limit_s = self._inner.admission.patience_s(timeout)
        admission = self._inner.admission
        call = admission.call(event, limit_s, number, offsets, wish)
        deadline = time.monotonic() + limit_s + ANSWER_MARGIN_S
        try:
            admission.make(call)
            # Not `result(timeout)`: a TransactionTimeout is a TimeoutError, too.
            while not call.outcome.wait(min(1.0, deadline - time.monotonic())):
                if not self._inner.running and not call.outcome.done():
                    admission.refuse_after_fork()
                    raise ProducerClosed("the producer is closed")
                if time.monotonic() >= deadline:
                    raise TransactionTimeout(f"{event.value}: the sender thread has not answered")
            return call.outcome.result()
        except BaseException:  # Ctrl-C may strike anywhere.
            abort = admission.leave(call)
            if abort is not None:
                abort.outcome.wait(SOON_S)
            raise

    def _prepare(self, timeout: float | None, number: int) -> PreparedTransaction:
        self._call(Event.PREPARE, timeout, number)
        return self._manager.hand_out()

    def _end(self, event: Event, timeout: float | None, number: int) -> None:
        try:
            self._end_or_find_out(event, self._inner.admission.patience_s(timeout), number)
        except CommitOutcomeUnknown as unknown:
            unknown.resolver = lambda limit: self._end(Event.COMMIT, limit, number)
            raise
        if number == self._writing.current:
            self._writing.current = 0

    def _end_or_find_out(self, event: Event, limit_s: float, number: int) -> None:
        preparation = self._manager.preparation
        prepared = preparation.token if preparation.token is not None and preparation.token.wrote else None
        began = time.monotonic()
        try:
            self._call(event, limit_s, number)
        except FencepostError as error:
            if self._closed and self._manager.knows(number):
                told = self._manager.about_the_past(event, number)
                if told is None:
                    return
                raise ProducerClosed(f"the producer is closed; {told}") from error
            token = to_ask_about(prepared, preparation.in_question, error)
            if token is None or self._inner.on_sender():
                raise
            left_s = limit_s - (time.monotonic() - began)
            status = ask_now(partial(find_out, token, error, self._inner.settings, left_s))
            if not isinstance(error, Fatal):
                self._give_up()
            settle(status, event, error, prepared=prepared is not None)

    def _give_up(self) -> None:
        """What the coordinator has ended already is over here, too."""
        try:
            self._call(Event.ABORT, LEAST_S)
        except FencepostError as error:
            log.debug("transactional id %s: %s", self.transactional_id, error)

    def _is_handed_out(self, number: int) -> bool:
        """Whether somebody has the token of that transaction."""
        return number == self._writing.current and self._manager.preparation.handed_out
