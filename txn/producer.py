"""The transactional producer for callers: thread-safe; each call has a deadline, and can be made again after it.

It decides nothing. The state machine says which calls are allowed, the transaction manager asks the coordinator, and the inner producer
accepts records. It refuses calls after a fork, and inside a delivery callback, where they would wait forever.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, NoReturn, Self, SupportsFloat, TypeVar, Unpack

from fencepost.producer.accumulator.batch import Headers, OnDelivery, RecordFuture
from fencepost.producer.base_producer import unpicklable
from fencepost.producer.bulk.bulk import BulkFuture
from fencepost.producer.errors import DeliveryError, FencepostError
from fencepost.producer.observe.stats import ProducerStats
from fencepost.txn.config.keywords import TransactionalKeywords
from fencepost.txn.config.settings import read_transaction_settings
from fencepost.txn.coordinator.exit_and_fork import GIVEN_UP
from fencepost.txn.coordinator.inner_producer import InnerProducer
from fencepost.txn.coordinator.rerun_policy import refuse_undone, worth_another
from fencepost.txn.coordinator.state_machine import Event
from fencepost.txn.coordinator.transaction_calls import TransactionCalls
from fencepost.txn.coordinator.transaction_manager import TransactionManager
from fencepost.txn.errors import MustAbort
from fencepost.txn.recovery.token import PreparedTransaction
from fencepost.txn.transaction import Transaction

log = logging.getLogger("fencepost.txn")

T = TypeVar("T")


class TransactionalProducer:
    """A Kafka producer whose records are visible together or not at all, to consumers with `isolation.level=read_committed`.

    Settings are those of `Producer`, in either spelling, and `transactional_id` and `transaction_timeout_ms` (60,000). No connection is
    made before the first transaction, or `init`. Seconds everywhere; where a `timeout` is left out it is `max_block_ms`.

    One transaction at a time; any number of threads may write to it. A second producer with the same transactional id fences this one.
    `on_open_transaction` and `prepared` say what registering may do to a transaction that is open under the id:
    `txn.coordinator.registration_guard`.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Unpack[TransactionalKeywords]) -> None:
        ours, rest = read_transaction_settings({**(config or {}), **settings})
        self.transactional_id = ours.transactional_id
        self._manager = TransactionManager.of(ours)
        self._inner = InnerProducer(self._manager, rest)
        try:
            self._calls = TransactionCalls(self._manager, self._inner)
        except BaseException:  # Ctrl-C
            self._inner.close(0.0)
            raise
        self._writing = self._calls.writing

    def __repr__(self) -> str:
        state = self._manager.machine.state.name
        return f"{type(self).__name__}(transactional_id={self.transactional_id!r}, state={state}, {self._inner.described()})"

    # -- transactions ------------------------------------------------------------------------------------------------

    def init(self, timeout: SupportsFloat | None = None) -> None:
        """Register with the coordinator. It fences an older producer of this id, and aborts its open transaction. The first `begin` does so
        by itself."""
        self._calls.call(Event.INIT, timeout)

    def transaction(self, timeout: SupportsFloat | None = None) -> Transaction:
        """A transaction as a `with` block: committed at its end, aborted if an exception leaves it. `timeout` limits the beginning, and
        then the end."""
        self._inner.admission.patience_s(timeout)
        return Transaction(self._calls, timeout)

    def begin(self, timeout: SupportsFloat | None = None) -> Transaction:
        """Begin a transaction. Waits until the previous one is over, and the first time for the coordinator."""
        tx = Transaction(self._calls, timeout)
        tx._number = self._calls.begin(timeout)
        return tx

    def commit(self, timeout: SupportsFloat | None = None) -> None:
        """Wait for every record of the transaction, then ask the coordinator to commit it.

        Raises MustAbort if any part of it failed, whether or not the program read that future: then abort. TransactionTimeout: nothing is
        decided, so call `commit` or `abort`. CommitOutcomeUnknown: the coordinator was asked and has not answered; see `resolve` there.
        NotReturned: a shared partition was not returned, and the transaction is still open.
        """
        self._calls.end(Event.COMMIT, timeout, self._writing.current)

    def abort(self, timeout: SupportsFloat | None = None) -> None:
        """Abort the transaction: unsent records fail with DeliveryAborted, and readers with read_committed never see the others."""
        self._calls.end(Event.ABORT, timeout, self._writing.current)

    def prepare(self, timeout: SupportsFloat | None = None) -> PreparedTransaction:
        """The first half of a commit: wait for every record, and return a token with which any process can commit or abort (`txn.resume`).
        The producer sends nothing more. Closing it, leaving the block and ending the process leave the transaction open.

        Raises MustAbort as `commit` does. Calling it again returns the same token.
        """
        return self._calls.prepare(timeout, self._writing.current)

    def run(self, work: Callable[[Transaction], T], *, timeout: SupportsFloat | None = None, attempts: int = 5) -> T:
        """Call `work(tx)` in a transaction, and again in a new one if the first must be aborted for a cause outside the records, up to
        `attempts` times. Returns the result of the committed attempt. Any other exception aborts, and is raised."""
        if attempts < 1:
            raise ValueError(f"attempts={attempts}: the smallest number is 1")
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
        """`Producer.send`, into the open transaction. The program need not check the delivery, because the commit does."""
        with self._writing.note():
            self._manager.refuse_spoilt()
            return self._inner.send(
                topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp, on_delivery=on_delivery
            )

    def send_many(self, topic: str, records: Iterable[object], *, partition: int | None = None) -> BulkFuture:
        """`Producer.send_many`, into the open transaction."""
        with self._writing.note():
            self._manager.refuse_spoilt()
            return self._inner.send_many(topic, records, partition=partition)

    def send_arrow(self, topic: str, data: Any, **columns: Any) -> BulkFuture:
        """`Producer.send_arrow`, into the open transaction."""
        with self._writing.note():
            self._manager.refuse_spoilt()
            return self._inner.send_arrow(topic, data, **columns)

    def send_offsets(self, offsets: object, group: object, timeout: SupportsFloat | None = None) -> None:
        """Commit a consumer group's offsets with the open transaction, and wait until the group's coordinator has them.

        `offsets`: of the next records to read. A mapping of (topic, partition) or TopicPartition to an offset or OffsetAndMetadata, or the
        list that confluent-kafka's `consumer.position(consumer.assignment())` returns. `group`: confluent-kafka's
        `consumer_group_metadata()`, kafka-python's `group_metadata()`, or GroupMetadata.

        Raises MustAbort if the group has removed this member, or refuses. TransactionTimeout: nothing is decided, and a commit waits for
        these offsets. The call may be made again, also with newer offsets.
        """
        self._calls.send_offsets(offsets, group, timeout, self._writing.current)

    def flush(self, timeout: SupportsFloat | None = None) -> None:
        """Wait until every record sent so far has its outcome. A commit does so too, and raises failures, which `flush` does not."""
        self._inner.flush(timeout)

    def partitions_for(self, topic: str, timeout: SupportsFloat | None = None) -> list[int]:
        """`Producer.partitions_for`."""
        return self._inner.partitions_for(topic, timeout)

    @property
    def unacknowledged(self) -> int:
        """`Producer.unacknowledged`."""
        return self._inner.unacknowledged

    @property
    def record_limit(self) -> tuple[int, str]:
        """`Producer.record_limit`."""
        return self._inner.record_limit

    def replaced(self, timeout: SupportsFloat | None = None) -> bool:
        """Whether another producer has registered under the transactional id since this one: the coordinator is asked (Kafka 3.0).

        After `Fenced`, False means that the transaction took longer than `transaction_timeout_ms`. With transaction version 1 it is False
        also if the other producer found no transaction open, and aborted its first one. It is True also after an InitProducerId of this
        producer that was carried out and not answered. Raises TransactionTimeout and NotPermitted.
        """
        return self._calls.replaced(timeout)

    def stats(self) -> ProducerStats:
        """`Producer.stats`."""
        return self._inner.stats()

    # -- the end -----------------------------------------------------------------------------------------------------

    def close(self, timeout: SupportsFloat | None = None) -> None:
        """Abort the open transaction, if there is one, with a warning in the log, and end. The call waits for a commit under way, and
        leaves a prepared transaction to the processes that have its token. Calling it again does nothing.

        A failed abort is logged: the coordinator aborts the transaction after its timeout.
        """
        limit_s = self._inner.admission.patience_s(timeout)
        self._inner.admission.refuse_after_fork()
        began = time.monotonic()
        try:
            why = self._manager.gives_up_at_close()
            event = self._manager.end_at_close() if not self._calls.closed else None
            if event is not None:
                self._calls.call(event, limit_s)
                if why is not None:
                    log.warning(GIVEN_UP, self.transactional_id, why)
        except FencepostError as error:
            log.warning("transactional id %s: closed in a transaction: %s", self.transactional_id, error)
        finally:
            self._calls.closed = True
            # Also when it is called again, because Ctrl-C may have interrupted the first call.
            try:
                self._inner.close(max(0.0, limit_s - (time.monotonic() - began)))
            finally:
                self._calls.spans.closed()

    def __reduce__(self) -> NoReturn:
        raise unpicklable(type(self).__name__)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close(self._inner.time_to_leave(error))
