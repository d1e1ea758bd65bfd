"""A driver's hold of a sink: its transactional producer, and what the ledger said when it took over.

The first batch of a query's run takes over unconditionally, which aborts what a driver before has left open. From then on the identity is
only gone on with, so that a driver that was replaced meanwhile is refused instead of taking the sink back. Only who outlived its own
transaction's time takes over once more, and reads the ledger again before it writes anything.
"""

from __future__ import annotations

import logging
from time import monotonic

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from producer.config import read_settings
from producer.core.errors import FencepostError
from txn.errors import TransactionTimeout
from txn.ledger import Ledger
from txn.ledger_entry import LedgerEntry, ledger_key
from txn.ledger_errors import LedgerBusy
from txn.producer import TransactionalProducer
from txn.spark.errors import QueryStopped
from txn.spark.secrets import KafkaSettings
from txn.spark.writer_settings import WriterSettings
from txn.transaction import Transaction

log = logging.getLogger("fencepost.spark")

CLOSE_S = 10.0
MARKERS_S = 10.0
"""How long the markers of an abort may take."""


class Hold:
    """See the module. `job`: one in the sink, with a key and a transactional id of its own. `timeout_s`: of every call, where that is to be
    less than the setting. `entry`: the sink's newest, read after taking over and kept up to date by commits. `too_slow`: a transaction of
    this hold was open for too long, and later ones had better begin when their rows are prepared."""

    def __init__(self, settings: WriterSettings, kafka: KafkaSettings, *, job: str | None = None, timeout_s: float | None = None) -> None:
        self.key = ledger_key(settings.sink_id, job)
        self.transactional_id = settings.transactional_id_prefix + self.key
        self.timeout_s = min(settings.timeout_s, timeout_s or settings.timeout_s)
        self._kafka, self.transaction_timeout_ms = kafka.resolve_owner(settings.transaction_timeout_ms)
        self.ledger = Ledger(read_settings(self._kafka), topic=settings.ledger_topic)
        self.entry: LedgerEntry | None = None
        self.too_slow = False
        self._producer: TransactionalProducer | None = None
        self._retired = False
        self._opened_at: float | None = None

    def take_over(self) -> None:
        """Register, whoever had the id before, and read the ledger. Raises QueryStopped where the query's next run has the sink."""
        self.close()
        if self._retired:
            raise QueryStopped
        self.ledger.ensure(self.timeout_s)
        self._producer = TransactionalProducer(
            {
                **self._kafka,
                "transactional_id": self.transactional_id,
                "transaction_timeout_ms": self.transaction_timeout_ms,
                "on_open_transaction": "abort",
            }
        )
        self._producer.init(self.timeout_s)
        self.read()
        log.info("sink %s: taken over as transactional id %s; the ledger says %s", self.key, self.transactional_id, self.entry)

    def read(self) -> None:
        """The ledger's newest entry, once more. An abort is answered before its markers are written, so they are waited for."""
        waiting = Retrying(
            retry=retry_if_exception_type(LedgerBusy),
            wait=wait_random_exponential(multiplier=0.02, max=1.0),
            stop=stop_after_delay(min(self.timeout_s, MARKERS_S)),
            reraise=True,
        )
        self.entry = waiting(self.ledger.read, self.key, self.timeout_s)

    def begin(self) -> Transaction:
        """A transaction of this hold. The brokers know nothing of it before something is written or lent: `opening` says when."""
        self._opened_at = None
        return self.producer.begin(self.timeout_s)

    def opening(self) -> None:
        """The transaction is about to be opened at the brokers, where it is not yet: its time runs from here on."""
        if self._opened_at is None:
            self._opened_at = monotonic()

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
            try:
                producer.close(CLOSE_S)
            except FencepostError as error:
                log.warning("sink %s: not closed in order: %s", self.key, error)
