"""The participant: a producer that writes into a transaction which another process owns.

It takes a participation that `Transaction.share` returned, one at a time and any number in turn, and keeps its connections between them. It
accepts records only between `begin` and `finish`, and only for the partitions of the participation. It never begins or ends a transaction
and never renews an identity: after any failure `finish` raises, and the owner aborts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, SupportsFloat, Unpack

from fencepost.producer.accumulator.batch import Headers, OnDelivery, RecordFuture, deadline_after
from fencepost.producer.bulk.bulk import BulkFuture
from fencepost.producer.config.keywords import ProducerKeywords
from fencepost.producer.core.events import Called
from fencepost.producer.core.idempotence.sequence import SEQUENCE_RING, advance
from fencepost.producer.core.idempotence.transaction_hooks import Transactions
from fencepost.producer.errors import ConfigError, DeliveryError, Fatal, FencepostError, Misuse, ProducerClosed, again, plain
from fencepost.producer.foundations.counted import counted
from fencepost.producer.foundations.timeouts import seconds
from fencepost.producer.network.exit_and_fork import ExitGuard
from fencepost.producer.producer import Producer
from fencepost.producer.wire.codes import ErrorCode
from fencepost.txn.errors import ParticipationEnded as ParticipationEnded
from fencepost.txn.errors import TransactionTimeout
from fencepost.txn.foundations.call_outcome import SOON_S
from fencepost.txn.shared.participation import Participation, Written, name, read_participation
from fencepost.txn.shared.shared_identity import NotShared, ParticipantCall, SharedIdentity

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
"""The error codes of a Produce whose transaction has ended, or belongs to another producer now."""


class NoParticipation(Misuse):
    """The participant has no participation, so it did not accept the record."""


class Participant(Producer):
    """A producer inside another producer's transaction: `begin(participation)`, any sends, `finish()`, and the same with the next
    participation.

    Its settings are those of `Producer`. It has no `transactional_id` setting, because the participation contains the id. Once `begin` has
    returned, threads may share it as they share a producer. If its process is killed, the owner's abort removes what it wrote.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Unpack[ProducerKeywords]) -> None:
        given = {**(config or {}), **settings}
        for key in ("transactional_id", "transactional.id"):
            if key in given:
                raise ConfigError(f"{key}={given[key]!r}: a participant has no such setting, the participation contains the id")
        self._shared_identity = SharedIdentity()
        self._participation: Participation | None = None
        super().__init__(None, **given)

    def _guard(self) -> ExitGuard:
        if not self._settings.enable_idempotence:
            raise ConfigError("a transaction needs acks=all, enable_idempotence=True and retries: leave these settings out")
        self._accumulator.refusal = NO_PARTICIPATION
        self._accumulator.takes_aside = False  # As in a transaction's owner (`admission`).
        # At exit the participant flushes nothing: the owner gets no result, and aborts.
        return ExitGuard(self._sender, self._accumulator, self._shared, exit_flush_s=0.0)

    # -- participations ----------------------------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """Whether `begin` can succeed, now or after the current participation. If not, make a new participant."""
        return not self._closed and self._shared_identity.death is None and self._shared.forked is None and self._sender.running

    def begin(self, participation: Participation | str, timeout: SupportsFloat | None = None, *, participants: int = 1) -> None:
        """Begin to write under a participation, given as `Transaction.share` returned it or as its text. Raises Misuse if the previous one
        is neither finished nor abandoned, and the error that ended this participant if it cannot continue.

        `participants`: how many participants write the transaction at the same time. A leader asks the transaction's coordinator about one
        new partition at a time, and refuses the others meanwhile (KIP-890). The more participants there are, the longer a refused one
        pauses before it tries again.
        """
        limit_s = seconds(timeout, self._settings.max_block_ms / 1000.0)
        if participants < 1:
            raise Misuse(f"begin: participants={participants}: the smallest number is 1, this participant alone")
        participation = read_participation(participation)
        self._refuse_waiting("begin")
        if self._participation is not None:
            raise Misuse("begin: the previous participation is neither finished nor abandoned: call finish() or abandon() first")
        if self._shared_identity.death is not None:
            raise again(self._shared_identity.death)
        try:
            self._ask(ParticipantCall(participation, self._open, participants=participants), limit_s, "begin")
            self._participation = participation
        except BaseException:
            self._stop()  # `begin` may have succeeded before Ctrl-C interrupted it.
            raise

    def finish(self, timeout: SupportsFloat | None = None) -> list[Written]:
        """Wait until every record is acknowledged, and return what was written, for each partition with records. Then the participation is
        over.

        Raises the first failure, with its topic and partition: ParticipationEnded, another DeliveryError, NotShared, or Fatal if this
        participant cannot continue. After a failure call `abandon`. Raises TransactionTimeout if `timeout` seconds pass first (None: until
        the delivery deadline decides); call `finish` again, or `abandon`. In each case the participant accepts no more records. If another
        thread abandons the participation meanwhile, or closes the participant, it raises Misuse.
        """
        limit_s = seconds(timeout, self._shared.patience_s)
        self._refuse_waiting("finish")
        participation = self._taken_up()
        self._stop()
        try:
            self._drain(limit_s)
        except TimeoutError as late:
            raise TransactionTimeout(f"finish: {late}") from None
        self._refuse_left(participation)
        written = self._accounts(participation)
        self._refuse_left(participation)
        # No calls from here on: Ctrl-C could strike at each, and what was written would be lost.
        self._participation = None
        return written

    def abandon(self, timeout: SupportsFloat | None = None) -> None:
        """Give the participation up, after a failure or because its result is not needed. Unsent records fail with DeliveryAborted. The
        call waits for records that are in flight, up to `timeout` seconds (None: request_timeout_ms), and then raises TransactionTimeout:
        call it again, or close. Without a participation it does nothing."""
        limit_s = seconds(timeout, self._settings.request_timeout_ms / 1000.0)
        self._refuse_waiting("abandon")
        if self._participation is None:
            return
        self._stop()
        if self._shared_identity.death is None:
            self._ask(ParticipantCall(None), limit_s, "abandon")
        self._participation = None

    def close(self, timeout: SupportsFloat | None = None) -> None:
        """Abandon the participation, if there is one, and end the producer. Calling it again does nothing."""
        limit_s = seconds(timeout, self._shared.patience_s)
        deadline = deadline_after(limit_s)
        if not self._closed and self._participation is not None and self._shared.forked is None:
            try:
                self.abandon(timeout)
            except (TransactionTimeout, ProducerClosed) as error:
                log.warning("closed during a participation in transactional id %s: %s", self._shared_identity.transactional_id, error)
        super().close(max(0.0, deadline - time.monotonic()))

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
        """`Producer.send`, under the participation."""
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
        """`Producer.try_send`, under the participation."""
        self._check(topic, partition)
        return super().try_send(topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp, on_delivery=on_delivery)

    def send_many(self, topic: str, records: Iterable[object], *, partition: int | None = None) -> BulkFuture:
        """`Producer.send_many`, under the participation. A row for a partition that was not shared fails, and `finish` names the
        partition."""
        self._check(topic, partition)
        return super().send_many(topic, records, partition=partition)

    def send_arrow(self, topic: str, data: Any, **columns: Any) -> BulkFuture:
        """`Producer.send_arrow`, under the participation. A row for a partition that was not shared fails, and `finish` names the
        partition."""
        self._check(topic, None)
        return super().send_arrow(topic, data, **columns)

    # -- small print -------------------------------------------------------------------------------------------------

    def _transactions(self) -> Transactions | None:
        return self._shared_identity

    def _refuse_records(self) -> None:
        self._refuse_from_now_on(NO_PARTICIPATION)

    def _check(self, topic: str, partition: int | None) -> None:
        """Refuse a record that could only fail later."""
        self._refuse_spoilt()
        if self._participation is None:
            return  # The accumulator raises NO_PARTICIPATION.
        shared = self._shared_identity.tallies
        if partition is not None and (topic, partition) not in shared:
            raise self._shared_identity.not_shared((topic, partition))
        if partition is None and not any(tp[0] == topic for tp in shared):
            raise NotShared(f"no partition of topic {topic!r} is part of the participation: the participant may not write to it")

    def _refuse_spoilt(self) -> None:
        """Raise the participation's first failure."""
        failure = self._shared_identity.failure if self._participation is not None else None
        if isinstance(failure, DeliveryError) and failure.code in ENDED:
            raise ParticipationEnded(
                f"the participation in transactional id {self._shared_identity.transactional_id!r} has ended: its transaction was ended or "
                "timed out, or another producer took the id over",
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
        self._shared.refuse_after_fork()
        if self._closed:
            raise ProducerClosed("the participant is closed")

    def _taken_up(self) -> Participation:
        if self._participation is None:
            raise again(NO_PARTICIPATION)
        return self._participation

    def _refuse_left(self, participation: Participation) -> None:
        if self._participation is not participation:
            raise NoParticipation("finish: another thread has left this participation meanwhile, by finish, abandon or close")

    def _accounts(self, participation: Participation) -> list[Written]:
        """What was written, if nothing has failed."""
        self._refuse_spoilt()
        if self._shared_identity.death is not None:
            raise again(self._shared_identity.death)
        accounts = [self._account(*each) for each in sorted(participation.sequences)]
        return [each for each in accounts if each.records]

    def _account(self, topic: str, partition: int, first: int) -> Written:
        """What was written to one partition. The number of acknowledged records must agree with their sequences."""
        tally = self._shared_identity.tallies[topic, partition]
        core = self._core()
        assert core is not None
        sender = core.produce_requests.senders.get((topic, partition))
        reached = sender.window.next_sequence if sender is not None and tally.records else first
        if advance(first, tally.records % SEQUENCE_RING) != reached:
            raise Fatal(
                f"{name((topic, partition))}: {counted(tally.records, 'record was', 'records were')} acknowledged, but their sequences "
                f"go from {first} to {reached}: the transaction must be aborted"
            )
        return Written(topic, partition, tally.records, tally.first_offset, tally.last_offset, reached)

    def _open(self) -> None:
        """Runs on the sender thread, so that the sender cannot end in between."""
        with self._shared.region:
            if self._accumulator.refusal is NO_PARTICIPATION:
                self._accumulator.refusal = None

    def _stop(self) -> None:
        """Accept no more records."""
        with self._shared.region:
            if self._accumulator.refusal is None:
                self._accumulator.refusal = NO_PARTICIPATION

    def _ask(self, call: ParticipantCall, limit_s: float, what: str) -> None:
        """Send a call to the sender thread, and wait for its outcome."""
        deadline = deadline_after(limit_s)
        try:
            self._sender.post(Called(call))
            self._wait(call, deadline, f"{what}: the time of {plain(limit_s)} s passed")
            call.outcome.result()
        except BaseException:  # Ctrl-C may interrupt at any point.
            if not call.outcome.cancel():
                call.outcome.wait(SOON_S)
            raise

    def _wait(self, call: ParticipantCall, deadline: float, late: str) -> None:
        """Wait for the outcome."""
        while not call.outcome.wait(min(1.0, deadline - time.monotonic())):
            if not self._sender.running and call.outcome.cancel():
                self._shared.refuse_after_fork()
                raise ProducerClosed("the participant's sender has ended")
            if time.monotonic() >= deadline and call.outcome.cancel():
                raise TransactionTimeout(f"{late}, and not every record has its outcome, or a delivery callback has not returned")


NO_PARTICIPATION: FencepostError = NoParticipation("there is no participation: send records between begin() and finish()")
