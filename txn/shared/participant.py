"""The borrower: a producer that writes into a transaction that somebody else owns, with what `Transaction.lend` returned there.

It never ends, begins or heals anything: whatever goes wrong fails, `finish` raises it, and the owner aborts. One loan at a time, any number
one after the other; connections stay between them. It accepts records only while a loan is taken up, and only for partitions of that loan.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, Unpack

from fencepost.producer.accumulator.batch import Headers, OnDelivery, RecordFuture, deadline_after
from fencepost.producer.bulk.bulk import BulkFuture
from fencepost.producer.config.keywords import ProducerKeywords
from fencepost.producer.core.events import Called
from fencepost.producer.core.idempotence.sequence import SEQUENCE_RING, advance
from fencepost.producer.core.idempotence.transaction_hooks import Transactions
from fencepost.producer.errors import ConfigError, DeliveryError, Fatal, FencepostError, Misuse, ProducerClosed, again, plain
from fencepost.producer.exit_and_fork import ExitGuard
from fencepost.producer.producer import Producer
from fencepost.producer.timeouts import seconds
from fencepost.producer.wire.codes import ErrorCode
from fencepost.txn.call_outcome import SOON_S
from fencepost.txn.errors import LoanOver as LoanOver
from fencepost.txn.errors import TransactionTimeout
from fencepost.txn.shared.loan import Loan, Written, name, read_loan
from fencepost.txn.shared.shared_identity import Borrowed, NotLent, Turn

log: Final = logging.getLogger("fencepost.txn")

ENDED: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""What a Produce is refused with when its transaction is not open any more, or belongs to somebody else now."""


class NoLoan(Misuse):
    """No loan is taken up: the record was not accepted."""


class Borrower(Producer):
    """A producer inside of somebody else's transaction: `begin(loan)`, any sends, `finish()`, and again with the next loan.

    Settings are those of `Producer`; there is no `transactional_id`, as that is the loan's. Threads may share it as they share a producer,
    once `begin` has returned. A process that is killed in the middle leaves nothing behind that the owner's abort would not cover.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Unpack[ProducerKeywords]) -> None:
        given = {**(config or {}), **settings}
        for key in ("transactional_id", "transactional.id"):
            if key in given:
                raise ConfigError(f"{key}={given[key]!r}: a borrower has none, it comes with the loan")
        self._borrowed = Borrowed()
        self._loan: Loan | None = None
        super().__init__(None, **given)
        if not self._settings.enable_idempotence:
            super().close()
            raise ConfigError("a transaction needs acks=all, enable_idempotence=True and retries: leave these settings alone")
        self._accumulator.refusal = NO_LOAN
        self._accumulator.takes_aside = False  # As a transaction's owner (`admission`).
        self._exit_guard.end()
        # At exit nothing is flushed: the owner hears nothing of it, and aborts.
        self._exit_guard = ExitGuard(self._sender, self._accumulator, self._shared, exit_flush_s=0.0)

    # -- loans -------------------------------------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """Whether another loan can be taken up, now or once this one is over; where not, a new borrower is needed."""
        return not self._closed and self._borrowed.death is None and self._shared.forked is None and self._sender.running

    def begin(self, loan: Loan | str, timeout: float | None = None, *, borrowers: int = 1) -> None:
        """Take a loan up: as `Transaction.lend` returned it, or its text. Raises Misuse while the one before is neither finished nor
        abandoned, and what ended this borrower where it cannot go on.

        `borrowers`: how many write parts of the transaction at the same time. A leader asks the transaction's coordinator about one new
        partition at a time, and refuses the others meanwhile (KIP-890); the more borrowers, the longer the pauses before they ask again,
        in place of more repeats.
        """
        limit_s = seconds(timeout, self._settings.max_block_ms / 1000.0)
        if borrowers < 1:
            raise Misuse(f"begin: borrowers={borrowers}: this one counts, so at least 1")
        loan = read_loan(loan)
        self._refuse_waiting("begin")
        if self._loan is not None:
            raise Misuse("begin: the loan before is neither finished nor abandoned")
        if self._borrowed.death is not None:
            raise again(self._borrowed.death)
        try:
            self._ask(Turn(loan, self._open, borrowers=borrowers), limit_s, "begin")
            self._loan = loan
        except BaseException:
            self._stop()  # It may have been taken up before Ctrl-C struck.
            raise

    def finish(self, timeout: float | None = None) -> list[Written]:
        """Wait until every record is acknowledged, and return what was written, for each partition with records. The loan is over then.

        Raises the first failure, with its topic and partition: LoanOver, another DeliveryError, NotLent, or Fatal where this borrower
        cannot go on; `abandon` is the only way on after it. TransactionTimeout where `timeout` seconds (None: until the delivery deadline
        has decided) passed first: call again, or abandon. No record is accepted any more either way.
        """
        limit_s = seconds(timeout, self._shared.patience_s)
        self._refuse_waiting("finish")
        loan = self._taken_up()
        self._stop()
        try:
            self._drain(limit_s)
        except TimeoutError as late:
            raise TransactionTimeout(f"finish: {late}") from None
        self._refuse_spoilt()
        if self._borrowed.death is not None:
            raise again(self._borrowed.death)
        accounts = [self._account(*each) for each in sorted(loan.sequences)]
        written = [each for each in accounts if each.records]
        self._loan = None
        return written

    def abandon(self, timeout: float | None = None) -> None:
        """Give the loan up, after a failure or because nobody wants it any more: what was not sent fails with DeliveryAborted, what is
        on its way is waited for, up to `timeout` seconds (None: request_timeout_ms). TransactionTimeout where that passed first: call
        again, or close. Without a loan it does nothing."""
        limit_s = seconds(timeout, self._settings.request_timeout_ms / 1000.0)
        self._refuse_waiting("abandon")
        if self._loan is None:
            return
        self._stop()
        if self._borrowed.death is None:
            self._ask(Turn(None), limit_s, "abandon")
        self._loan = None

    def close(self, timeout: float | None = None) -> None:
        """Abandon the loan that is taken up, if one is, and end. Calling it again does nothing."""
        seconds(timeout, 0.0)
        if not self._closed and self._loan is not None and self._shared.forked is None:
            try:
                self.abandon(timeout)
            except (TransactionTimeout, ProducerClosed) as error:
                log.warning("closed while a loan of transactional id %s was taken up: %s", self._borrowed.transactional_id, error)
        super().close(timeout)

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
        """`Producer.send`, under the loan."""
        self._check(topic, partition)
        return super().send(topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp, on_delivery=on_delivery)

    def try_send(
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
        """`Producer.try_send`, under the loan."""
        self._check(topic, partition)
        return super().try_send(topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp, on_delivery=on_delivery)

    def send_many(self, topic: str, records: Iterable[object], *, partition: int | None = None) -> BulkFuture:
        """`Producer.send_many`, under the loan. A row for a partition that was not lent fails, and `finish` says which partition it was."""
        self._check(topic, partition)
        return super().send_many(topic, records, partition=partition)

    def send_arrow(self, topic: str, data: Any, **columns: Any) -> BulkFuture:
        """`Producer.send_arrow`, under the loan. A row for a partition that was not lent fails, and `finish` says which one it was."""
        self._check(topic, None)
        return super().send_arrow(topic, data, **columns)

    # -- small print -------------------------------------------------------------------------------------------------

    def _transactions(self) -> Transactions | None:
        return self._borrowed

    def _refuse_records(self) -> None:
        if self._accumulator.refusal is NO_LOAN:
            self._accumulator.refusal = None
        super()._refuse_records()

    def _check(self, topic: str, partition: int | None) -> None:
        """Refuse what could only be lost."""
        self._refuse_spoilt()
        if self._loan is None:
            return  # The accumulator says why nothing is accepted.
        lent = self._borrowed.tallies
        if partition is not None and (topic, partition) not in lent:
            raise self._borrowed.not_lent((topic, partition))
        if partition is None and not any(tp[0] == topic for tp in lent):
            raise NotLent(f"no partition of topic {topic!r} is part of the loan: nothing may be written there")

    def _refuse_spoilt(self) -> None:
        """Raise what spoilt the loan."""
        failure = self._borrowed.failure if self._loan is not None else None
        if isinstance(failure, DeliveryError) and failure.code in ENDED:
            raise LoanOver(
                f"the loan of transactional id {self._borrowed.transactional_id!r} is over: its transaction was ended, ran out of time, or "
                "another producer took the id over",
                topic=failure.topic,
                partition=failure.partition,
                persisted=failure.persisted,
                code=failure.code,
                attempts=failure.attempts,
            )
        if failure is not None:
            raise again(failure)

    def _refuse_waiting(self, call: str) -> None:
        self._refuse_endless(call)
        self._refuse_after_fork()
        if self._closed:
            raise ProducerClosed("the borrower is closed")

    def _taken_up(self) -> Loan:
        if self._loan is None:
            raise again(NO_LOAN)
        return self._loan

    def _account(self, topic: str, partition: int, first: int) -> Written:
        """What was written to a partition of the loan; the number of records has to agree with the sequences that they took."""
        tally = self._borrowed.tallies[topic, partition]
        core = self._core()
        assert core is not None
        sender = core.produce_requests.senders.get((topic, partition))
        reached = sender.window.next_sequence if sender is not None and tally.records else first
        if advance(first, tally.records % SEQUENCE_RING) != reached:
            raise Fatal(
                f"{name((topic, partition))}: {tally.records} records were acknowledged, and their sequences go from {first} to {reached}: "
                "the transaction must be aborted"
            )
        return Written(topic, partition, tally.records, tally.first_offset, tally.last_offset, reached)

    def _open(self) -> None:
        """On the sender's thread, so that nothing that ends it comes in between."""
        if self._accumulator.refusal is NO_LOAN:
            self._accumulator.refusal = None

    def _stop(self) -> None:
        """Take no more records."""
        with self._shared.region:
            if self._accumulator.refusal is None:
                self._accumulator.refusal = NO_LOAN

    def _ask(self, turn: Turn, limit_s: float, what: str) -> None:
        """Have the sender do something, and wait for it."""
        deadline = deadline_after(limit_s)
        try:
            self._sender.post(Called(turn))
            while not turn.outcome.wait(min(1.0, deadline - time.monotonic())):
                if not self._sender.running and turn.outcome.cancel():
                    self._refuse_after_fork()
                    raise ProducerClosed("the borrower's sender has ended")
                if time.monotonic() >= deadline and turn.outcome.cancel():
                    raise TransactionTimeout(f"{what}: the time of {plain(limit_s)} s passed while records are still on their way")
            turn.outcome.result()
        except BaseException:  # Ctrl-C may strike anywhere.
            if not turn.outcome.cancel():
                turn.outcome.wait(SOON_S)
            raise


NO_LOAN: FencepostError = NoLoan("no loan is taken up: records are sent between begin and finish")
