"""A driver's hold of a sink: its transactional producer, and what the ledger said when it took over.

The first batch of a query's run takes over unconditionally, which aborts what a driver before has left open. From then on the identity is
only gone on with, so that a driver that was replaced meanwhile is refused instead of taking the sink back. Only who outlived its own
transaction's time takes over once more, and reads the ledger again before it writes anything.

The ledger's entries name the transactional id. Where the newest is of another id (another `transactional_id_prefix`), or there is none yet,
nothing that this driver registers holds back the other id's driver. So the batch is committed only after its record has been written to the
ledger, the other id has been taken over, and the ledger was read once more: of two that do so at the same time, the one whose record comes
second sees the other's.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from fencepost.producer.accumulator.batch import RecordFuture
from fencepost.producer.errors import FencepostError, TopicUnavailable
from fencepost.producer.settings_reader import read_settings
from fencepost.txn.errors import TransactionTimeout
from fencepost.txn.ledger.entry import LedgerEntry, ledger_key
from fencepost.txn.ledger.errors import LedgerBusy, LedgerUnusable
from fencepost.txn.ledger.ledger import Ledger
from fencepost.txn.ledger.rules import describe
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.spark.connection.secrets import KafkaSettings
from fencepost.txn.spark.errors import QueryStopped, SinkTakenOver
from fencepost.txn.spark.sink.query_identity import Identity
from fencepost.txn.spark.sink.settings import WriterSettings
from fencepost.txn.spark.sink.write_plan import Write
from fencepost.txn.transaction import Transaction

log = logging.getLogger("fencepost.spark")

CLOSE_S = 10.0
LOOK_S = 10.0
"""How often the ledger's topic is looked at."""
MARKERS_S = 10.0
"""How long the markers of an abort may take."""


class SinkSession:
    """See the module. `job`: one in the sink, with a key and a transactional id of its own. `timeout_s`: of every call, where that is to be
    less than the setting. `entry`: the sink's newest, read after taking over and kept up to date by commits. `too_slow`: a transaction of
    this hold was open for too long, and later ones had better begin when their rows are prepared. `at_work`: what is being written.
    `written`: the newest batch that was written or skipped under this hold, and what was handed over for it."""

    def __init__(self, settings: WriterSettings, kafka: KafkaSettings, *, job: str | None = None, timeout_s: float | None = None) -> None:
        self.key = ledger_key(settings.sink_id, job)
        self.transactional_id = settings.transactional_id_prefix + self.key
        self.timeout_s = min(settings.timeout_s, timeout_s or settings.timeout_s)
        self._kafka, self.transaction_timeout_ms = kafka.resolve_owner(settings.transaction_timeout_ms)
        self._own_topics = (settings.ledger_topic, settings.claims_topic)
        self.ledger = Ledger(read_settings(self._kafka), topic=settings.ledger_topic)
        self.entry: LedgerEntry | None = None
        self.too_slow = False
        self.at_work: Identity | None = None
        self.written: tuple[int, tuple[Write, ...]] = (-1, ())
        self._producer: TransactionalProducer | None = None
        self._retired = False
        self._opened_at: float | None = None
        self._looked_at = 0.0
        self._transaction: Transaction | None = None
        self._announced: LedgerEntry | None = None
        self._first_offset = sys.maxsize

    def take_over(self) -> None:
        """Register, whoever had the id before, and read the ledger. Raises QueryStopped where the query's next run has the sink."""
        self.close()
        if self._retired:
            raise QueryStopped
        with self._last_known():
            self.ledger.ensure(self.timeout_s)
        self._looked_at = monotonic()
        try:
            self._producer = self._registered(self.transactional_id)
            standing = self.ledger.standing(self.key, self.timeout_s)
            self.entry = standing.committed
            if self._take_over_before_us() or standing.opened:
                self.read()
        except BaseException:
            self.close()
            raise
        log.info("sink %s: taken over as transactional id %s; the ledger says %s", self.key, self.transactional_id, self.entry)

    def look(self) -> None:
        """Now and then, whether the ledger is still what it was when the sink was taken over: nothing is asked of it while batches go well.
        Raises LedgerUnusable."""
        if monotonic() - self._looked_at >= LOOK_S:
            with self._last_known():
                self.ledger.ensure(self.timeout_s)
            self._looked_at = monotonic()

    def read(self) -> None:
        """The ledger's newest entry, once more. An abort is answered before its markers are written, so they are waited for."""
        waiting = Retrying(
            retry=retry_if_exception_type(LedgerBusy),
            wait=wait_random_exponential(multiplier=0.02, max=1.0),
            stop=stop_after_delay(min(self.timeout_s, MARKERS_S)),
            reraise=True,
        )
        with self._last_known():
            self.entry = waiting(self.ledger.read, self.key, self.timeout_s)

    def begin(self, announced: LedgerEntry | None = None) -> Transaction:
        """A transaction of this hold. The brokers know nothing of it before something is written or shared: `opening` says when.
        `announced`: what the ledger is to say then, while it has nothing of this id that counts, for other queries to see that the sink is
        at work."""
        self._opened_at = None
        self._first_offset = sys.maxsize
        self._announced = announced
        self._transaction = self.producer.begin(self.timeout_s)
        return self._transaction

    def opening(self) -> None:
        """The transaction is about to be opened at the brokers, where it is not yet: its time runs from here on."""
        if self._opened_at is None:
            self._opened_at = monotonic()
            if self._announced is not None and not self.settled:
                self._write(self._announced)

    def record(self, entry: LedgerEntry) -> None:
        """Write the batch's entry into the transaction. Where the ledger has nothing of this id yet, wait for it, and see that nobody else
        is writing, or has written meanwhile: raises LedgerBusy and SinkTakenOver."""
        if self.settled:
            self._send(entry)
            return
        self._write(entry)
        self._take_over_before_us()
        standing = self.ledger.standing(self.key, self.timeout_s)
        if standing.committed != self.entry:
            raise SinkTakenOver(
                f"sink {self.key!r}: the ledger had {describe(self.entry)} when transactional id {self.transactional_id!r} was registered,"
                f" and has {describe(standing.committed)} now: another driver writes into the sink. Nothing of this batch was committed"
            )
        home = self.ledger.partition_of(self.key)
        for each in standing.opened:
            named = each.entry.transactional_id if each.entry is not None else None
            if named != self.transactional_id and (each.partition != home or each.offset < self._first_offset):
                raise LedgerBusy(
                    f"sink {self.key!r}: a transaction of transactional id {named!r} is open that writes {describe(each.entry)}, and this"
                    f" driver writes as {self.transactional_id!r}: one sink has one transactional_id_prefix. Nothing was committed by this"
                    " driver; where the other one has died, its transaction is aborted when its timeout has passed"
                )

    @property
    def settled(self) -> bool:
        """Whether the newest entry is of this id, so that whoever registers another one has to take this one over first."""
        return self.entry is not None and self.entry.transactional_id == self.transactional_id

    @property
    def producer(self) -> TransactionalProducer:
        if self._producer is None:
            raise TransactionTimeout("the sink is not taken over (any more)")
        return self._producer

    @property
    def held(self) -> bool:
        """Whether it has been taken over."""
        return self._producer is not None

    @property
    def outlived(self) -> bool:
        """Whether the transaction begun last has been open for as long as it may be: the coordinator has aborted it, or is about to."""
        return self._opened_at is not None and monotonic() - self._opened_at >= self.transaction_timeout_ms / 1000.0

    def retire(self) -> None:
        """Another run of the query has begun: this one's callback, where it is still at it, must not take the sink back."""
        self._retired = True
        self.close()

    def close(self) -> None:
        """Abort what is open, and end."""
        producer, self._producer = self._producer, None
        if producer is not None:
            self._close(producer)

    # -- small print -----------------------------------------------------------------------------------------------------------

    def _registered(self, transactional_id: str) -> TransactionalProducer:
        """A producer of this id, which nobody else has any more."""
        producer = TransactionalProducer(
            {
                **self._kafka,
                "transactional_id": transactional_id,
                "transaction_timeout_ms": self.transaction_timeout_ms,
                "on_open_transaction": "abort",
                # Made by a broker on the way, they would be as the cluster has topics by default.
                "existing_topics": self._own_topics,
            }
        )
        try:
            producer.init(self.timeout_s)
        except BaseException:
            self._close(producer)
            raise
        return producer

    def _take_over_before_us(self) -> bool:
        """Take over the id that the newest entry is of, where that is another one. Whether it was."""
        before = self.entry.transactional_id if self.entry is not None else None
        if before is None or before == self.transactional_id:
            return False
        log.warning(
            "sink %s: the ledger's newest entry is of transactional id %s, which is taken over as well: from here on it is %s",
            self.key,
            before,
            self.transactional_id,
        )
        self._close(self._registered(before))
        return True

    @contextmanager
    def _last_known(self) -> Iterator[None]:
        """What makes the ledger unusable is told with what this driver knows of the sink."""
        try:
            yield
        except LedgerUnusable as error:
            if self.entry is None:
                raise
            known = f"The newest batch of sink {self.key!r} that this driver knows to be committed is {describe(self.entry)}"
            raise LedgerUnusable(f"{error}. {known}") from error

    def _send(self, entry: LedgerEntry) -> RecordFuture:
        assert self._transaction is not None
        key, value = self.ledger.record(entry)
        try:
            return self._transaction.send(self.ledger.topic, value, key=key, partition=self.ledger.partition_of(entry.key))
        except TopicUnavailable:
            with self._last_known():
                self.ledger.ensure(self.timeout_s)
            raise

    def _write(self, entry: LedgerEntry) -> None:
        """An entry that is in the log then. Where the first of a transaction stands is kept in mind."""
        offset = self._send(entry).result(self.timeout_s).offset
        if offset >= 0:
            self._first_offset = min(self._first_offset, offset)

    def _close(self, producer: TransactionalProducer) -> None:
        try:
            producer.close(CLOSE_S)
        except FencepostError as error:
            log.warning("sink %s: not closed in order: %s", self.key, error)
