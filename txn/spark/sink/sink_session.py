"""A driver's session with a sink: its transactional producer, and the ledger's entry at the takeover.

The first batch of a query's run takes the sink over unconditionally, which aborts an open transaction of an earlier driver. From then on
the session keeps its identity, so a driver that was replaced is refused and does not take the sink back. A driver whose own transaction
timed out takes over once more if the coordinator shows no later registration; it reads the ledger again before it writes.

The ledger's entries name the transactional id. If the newest entry names another id (another `transactional_id_prefix`), or there is none,
this driver's registration does not stop the other id's driver. So the session writes the batch's record to the ledger, takes the other id
over, reads the ledger once more, and only then commits. If two drivers do so at the same time, the one whose record comes second sees the
other's.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from fencepost.producer.accumulator.batch import RecordFuture
from fencepost.producer.config.reader import read_settings
from fencepost.producer.errors import FencepostError, TopicUnavailable
from fencepost.producer.foundations.rlock import RLock
from fencepost.txn.errors import NotPermitted, TransactionTimeout
from fencepost.txn.keyed_topic.errors import LedgerBusy, LedgerUnusable
from fencepost.txn.ledger.batch_decision import describe
from fencepost.txn.ledger.entry import LedgerEntry, ledger_key
from fencepost.txn.ledger.ledger import Ledger
from fencepost.txn.producer import TransactionalProducer
from fencepost.txn.producer_access import expect_abort_at_close
from fencepost.txn.spark.connection.secrets import KafkaSettings
from fencepost.txn.spark.errors import QueryStopped, SinkTakenOver
from fencepost.txn.spark.sink.query_identity import Identity
from fencepost.txn.spark.sink.settings import WriterSettings
from fencepost.txn.spark.sink.write_plan import Write
from fencepost.txn.transaction import Transaction

log = logging.getLogger("fencepost.spark")

CLOSE_S = 10.0
LOOK_S = 10.0
"""How often the ledger's topic is checked."""
MARKERS_S = 10.0
"""How long the markers of an abort may take."""


class SinkSession:
    """See the module. `job`: a job of the sink, with a key and a transactional id of its own. `timeout_s`: for each call, if shorter than
    the setting. `entry`: the sink's newest entry, read after the takeover and updated by commits. `too_slow`: a transaction of this session
    was open for too long, so later ones should begin after their rows are prepared. `at_work`: what is being written. `written`: the newest
    batch that this session wrote or skipped, and its writes."""

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
        self._registering = RLock()  # Another thread may give the sink up meanwhile.
        self._opened_at: float | None = None
        self._looked_at = 0.0
        self._transaction: Transaction | None = None
        self._announced: LedgerEntry | None = None
        self._first_offset = sys.maxsize

    def take_over(self) -> None:
        """Register, which fences an earlier producer of the id, and read the ledger. Raises QueryStopped if the query's next run has the
        sink."""
        self.close()
        if self._retired:
            raise QueryStopped
        with self._last_known():
            self.ledger.ensure(self.timeout_s)
        self._looked_at = monotonic()
        try:
            with self._registering:
                if self._retired:
                    raise QueryStopped
                self._producer = self._registered(self.transactional_id)
            standing = self.ledger.standing(self.key, self.timeout_s)
            self.entry = standing.committed
            if self._take_over_before_us() or standing.opened:
                self.read()
            if self._retired:
                raise QueryStopped
        except BaseException:
            self.close()
            raise
        log.info("sink %s: taken over as transactional id %s; the ledger says %s", self.key, self.transactional_id, self.entry)

    def look(self) -> None:
        """Check from time to time that the ledger's topic is still the one of the takeover; successful batches do not read it. Raises
        LedgerUnusable."""
        if monotonic() - self._looked_at >= LOOK_S:
            with self._last_known():
                self.ledger.ensure(self.timeout_s)
            self._looked_at = monotonic()

    def read(self) -> None:
        """The ledger's newest entry, read again. An abort is answered before its markers are written, so this waits for them."""
        waiting = Retrying(
            retry=retry_if_exception_type(LedgerBusy),
            wait=wait_random_exponential(multiplier=0.02, max=1.0),
            stop=stop_after_delay(min(self.timeout_s, MARKERS_S)),
            reraise=True,
        )
        with self._last_known():
            self.entry = waiting(self.ledger.read, self.key, self.timeout_s)

    def begin(self, announced: LedgerEntry | None = None) -> Transaction:
        """A transaction of this session. Brokers do not know it before a write or a share: `opening` reports that. `announced`: the entry
        to write then, if the ledger has none of this id that counts, so that other queries see that the sink is at work."""
        self._opened_at = None
        self._first_offset = sys.maxsize
        self._announced = announced
        self._transaction = self.producer.begin(self.timeout_s)
        return self._transaction

    def opening(self) -> None:
        """The brokers are about to learn of the transaction, if they do not know it yet: its timeout begins now."""
        if self._opened_at is None:
            self._opened_at = monotonic()
            if self._announced is not None and not self.settled:
                self._write(self._announced)

    def record(self, entry: LedgerEntry) -> None:
        """Write the batch's entry into the transaction. If the ledger has no entry of this id yet, wait for the record, and check that no
        other driver writes or has written meanwhile. Raises LedgerBusy and SinkTakenOver."""
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
                    " driver; if the other driver has died, its transaction is aborted after its timeout"
                )

    @property
    def settled(self) -> bool:
        """Whether the newest entry is of this id, so that a driver with another id must first take this one over."""
        return self.entry is not None and self.entry.transactional_id == self.transactional_id

    @property
    def producer(self) -> TransactionalProducer:
        producer = self._producer  # Another thread may give the sink up.
        if producer is None:
            raise TransactionTimeout("the sink is not taken over (any more)")
        return producer

    @property
    def held(self) -> bool:
        """Whether the sink has been taken over."""
        return self._producer is not None

    @property
    def outlived(self) -> bool:
        """Whether the newest transaction has reached its timeout: the coordinator has aborted it, or is about to."""
        return self._opened_at is not None and monotonic() - self._opened_at >= self.transaction_timeout_ms / 1000.0

    def replaced(self) -> bool:
        """Whether another driver has registered the id since. Brokers before Kafka 3.0 cannot tell; their answer is False."""
        try:
            return self.producer.replaced(self.timeout_s)
        except NotPermitted:
            return False

    def retire(self) -> None:
        """Another run of the query has begun. If this run's callback still runs, it must not take the sink back. A registration that is on
        its way ends first: later it would fence the new run."""
        self._retired = True
        self.close()

    def close(self) -> None:
        """Abort an open transaction, and end."""
        with self._registering:
            producer, self._producer = self._producer, None
        if producer is not None:
            self._close(producer)

    # -- small print -----------------------------------------------------------------------------------------------------------

    def _registered(self, transactional_id: str) -> TransactionalProducer:
        """A producer of this id; it fences every other one."""
        producer = TransactionalProducer(
            {
                **self._kafka,
                "transactional_id": transactional_id,
                "transaction_timeout_ms": self.transaction_timeout_ms,
                "on_open_transaction": "abort",
                # If brokers created the topic on demand, it would have the cluster's default configs.
                "existing_topics": self._own_topics,
            }
        )
        expect_abort_at_close(producer)  # What a batch has not committed is aborted, and the batch's error says why.
        try:
            producer.init(self.timeout_s)
        except BaseException:
            self._close(producer)
            raise
        return producer

    def _take_over_before_us(self) -> bool:
        """Take over the newest entry's id, if it is another one. Returns whether it was."""
        before = self.entry.transactional_id if self.entry is not None else None
        if before is None or before == self.transactional_id:
            return False
        log.warning(
            "sink %s: the ledger's newest entry is of transactional id %s, which is taken over as well: the sink's id is %s now",
            self.key,
            before,
            self.transactional_id,
        )
        self._close(self._registered(before))
        return True

    @contextmanager
    def _last_known(self) -> Iterator[None]:
        """An error about the ledger is raised with what this driver knows of the sink."""
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
        """An entry that is in the log afterwards. The place of the transaction's first entry is kept."""
        offset = self._send(entry).result(self.timeout_s).offset
        if offset >= 0:
            self._first_offset = min(self._first_offset, offset)

    def _close(self, producer: TransactionalProducer) -> None:
        try:
            producer.close(CLOSE_S)
        except FencepostError as error:
            log.warning("sink %s: not closed in order: %s", self.key, error)
