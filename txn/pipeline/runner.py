"""The pipeline's program: read, transform, write, commit; and what it does about each failure.

It is written once, as coroutines, for both pipelines (`calls`). A transaction opens when messages are there, and ends when it is full or
old, before partitions are given up, and when the pipeline stops. Nothing is processed that the pipeline cannot commit or read again.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from fencepost.producer.base_producer import check_topic
from fencepost.producer.bulk.rows import check_rows
from fencepost.producer.errors import (
    DeliveryError,
    Fatal,
    Fenced,
    FencepostError,
    Misuse,
    ProducerClosed,
    RecordRefused,
    Retriable,
    TopicUnavailable,
)
from fencepost.producer.wire.codes import ErrorCode
from fencepost.txn.coordinator.rerun_policy import worth_another
from fencepost.txn.errors import CommitOutcomeUnknown, IdentityLost, MustAbort, TransactionAborted, TransactionTimeout
from fencepost.txn.pipeline.applying import Failed, Piece, Transform
from fencepost.txn.pipeline.batch import TP, Batch, first_of, last_of, offset_of, tp_of
from fencepost.txn.pipeline.calls import Calls
from fencepost.txn.pipeline.consumer_settings import consumer_settings
from fencepost.txn.pipeline.dead_letters import dead_letter, poison
from fencepost.txn.pipeline.errors import PipelineFailed
from fencepost.txn.pipeline.pace import READ_MAX, Pace
from fencepost.txn.pipeline.patience import Patience
from fencepost.txn.pipeline.routing import Rows
from fencepost.txn.pipeline.settings import PipelineSettings
from fencepost.txn.pipeline.source import Source
from fencepost.txn.pipeline.stats import Counters

if TYPE_CHECKING:
    from confluent_kafka import Message

log = logging.getLogger("fencepost.pipeline")

POLL_S: Final = 0.1
"""How long one read waits. `stop` and Ctrl-C take effect after it."""
OF_THE_GROUP: Final = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS})
"""Refusals of offsets because the group has moved on. The next read joins it again."""
STOPPING: Final = {
    ErrorCode.FENCED_INSTANCE_ID: "another process has the same instance: give each its own",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "grant READ on the group to this client's principal",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "grant WRITE on the topic to this client's principal",
}
"""Refusals that another attempt does not change."""
TOO_LATE: Final = (TransactionTimeout, TopicUnavailable)
"""The time of a call has passed, and nothing is decided."""
REFUSED: Final = (TypeError, ValueError)
"""What `send_many` raises for rows that cannot be records, before it accepts any row of the list."""


class Runner:
    """See the module. `make_producer`: makes the transactional producer with these settings."""

    def __init__(
        self,
        settings: PipelineSettings,
        own: dict[str, Any],
        counters: Counters,
        calls: Calls,
        make_producer: Callable[[dict[str, Any]], Any],
    ) -> None:
        self.stopping = False
        self._settings = settings
        self._own = own
        self._name = f"pipeline {settings.group!r}"
        self._calls = calls
        self._counters = counters
        self._make_producer = make_producer
        self._producer: Any = None
        self._source = Source(consumer_settings(settings), settings.topics, calls, counters, self.revoked)
        self._transform = Transform(settings, calls, counters)
        self._patience = Patience(
            log,
            self._name,
            calls,
            too_late=TOO_LATE,
            stopping=lambda: self.stopping,
            pause_ms=settings.retry_backoff_ms,
            pause_max_ms=settings.retry_backoff_max_ms,
            stop_ms=settings.stop_timeout_ms,
        )
        self._insist = self._patience.insist
        self._pending: list[Message] = []
        self._batch: Batch | None = None
        self._committed: dict[TP, int] = {}
        self._isolated: dict[TP, int] = {}
        """Up to which offsets messages are processed one in a transaction, to find the one whose records the brokers refuse."""
        self._aborted = 0
        self._poison: PipelineFailed | None = None
        self._pace = Pace(settings)
        self._is_open = False

    # -- the program -----------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        """Register the producer, and join the group. In this order: registering aborts what a killed run of this instance left open, and
        only then the group's offsets are stable."""
        await self._renew_producer()
        for topic in (self._settings.sink, self._settings.dead_letters):
            if topic is not None:
                await self._insist(self._producer.partitions_for, topic, self._settings.call_s)
        await self._source.open()
        self._is_open = True

    async def run(self, *, ends_at: float, batches: int | None, until_idle: bool) -> bool:
        """Run until the pipeline is stopped, or the time has come, or so many transactions are committed, or everything is read. Returns
        whether everything was read."""
        goal = None if batches is None else self._counters.batches + batches
        self._patience.ends_at, self._patience.stop_ends_at = ends_at, None
        if not self._is_open:
            await self._open()
        while not self.stopping and time.monotonic() < ends_at and (goal is None or self._counters.batches < goal):
            if until_idle and self._is_idle():
                self._counters.lag = 0
                return True
            await self._step(ends_at)
        self._patience.stop_now()
        await self._finish()
        self._raise_poison()
        self._counters.lag = self._source.lag(self._committed)
        return self._is_idle()

    async def close(self, *, failed: bool) -> None:
        """Abort the open batch, leave the group, and close the producer."""
        batch, self._batch = self._batch, None
        self._pending.clear()
        self._patience.stop_now()
        try:
            if batch is not None and self._producer is not None:
                with contextlib.suppress(FencepostError):
                    await self._calls.call(batch.transaction.abort, self._settings.call_s)
        finally:
            try:
                await self._source.close()
            finally:
                try:
                    if self._producer is not None:
                        await self._calls.call(self._producer.close, 0.0 if failed else self._settings.call_s)
                finally:
                    await self._calls.close()

    async def revoked(self, taken: set[TP], lost: bool) -> None:
        """The consumer gives these partitions up, and waits for this to return. What is processed is committed; if another member may have
        the partitions already, it is aborted."""
        batch = self._batch
        if batch is not None:
            if lost:
                await self._abort(MustAbort("the group has given this member's partitions away"), counts=False)
            else:
                await self._finish()
        self._pending = [message for message in self._pending if tp_of(message) not in taken]
        for known in (self._committed, self._isolated):
            for tp in taken & known.keys():
                del known[tp]

    async def _step(self, ends_at: float) -> None:
        """One read, and what becomes of it."""
        now = time.monotonic()
        batch, pending = self._batch, len(self._pending)
        size = 1 if self._isolated else self._settings.batch_size
        until = min(ends_at, batch.ends_at) if batch is not None else ends_at
        # With messages at hand it only lets the consumer know that the program lives, and lets rebalances take place.
        wait_s = 0.0 if pending else max(0.0, min(POLL_S, until - now))
        room = size - (batch.read if batch is not None else 0)
        came = await self._source.read(1 if pending else max(1, min(READ_MAX, room)), wait_s)
        self._pending += came  # Not in one line: a rebalance inside the read replaces the list.
        if self._pending:
            if self._batch is None:
                await self._begin()
            await self._process(size)
        batch = self._batch
        if batch is not None and (batch.read >= size or time.monotonic() >= batch.ends_at or self._poison is not None):
            await self._finish()
        self._raise_poison()
        if self._counters.due:
            self._counters.lag = self._source.lag(self._committed)
            self._counters.tell(self._name)

    async def _process(self, size: int) -> None:
        """Transform and send the messages at hand, until the batch is full or old."""
        try:
            while self._pending and self._poison is None and not self.stopping:
                batch = self._batch
                if batch is None or batch.read >= size or (batch.read and time.monotonic() >= batch.ends_at):
                    return
                taken = self._pending[: min(self._pace.size, size - batch.read)]
                began = time.monotonic()
                pieces = await self._transform.apply(taken)
                done = 0
                for piece in pieces:
                    done += await self._write(batch, piece)
                batch.note(taken[:done])
                del self._pending[:done]
                self._pace.took(time.monotonic() - began)
        except (MustAbort, DeliveryError, Retriable, Fatal, ProducerClosed) as error:
            await self._abort(error)

    async def _write(self, batch: Batch, piece: Piece) -> int:
        """Send what a piece became; the number of messages that are done with."""
        if self._poison is not None:
            return 0
        if piece.failed is not None:
            return await self._bury(batch, piece.messages[0], piece.failed)
        sent = False
        try:
            if len(piece.rows) > 1:
                self._check(piece.rows)
            for topic, rows in piece.rows.items():
                await self._calls.call(batch.transaction.send_many, topic, rows)
                sent = True
        except REFUSED as error:
            if isinstance(error, Retriable):
                raise
            if sent:  # The check has not found it. What is sent would be sent again.
                self._suspect(piece.messages, error)
                raise MustAbort(f"a record was refused after others of the same messages were sent: {error}") from error
            if len(piece.messages) == 1:
                return await self._bury(batch, piece.messages[0], Failed(error, 1))
            return sum([await self._write(batch, each) for each in await self._transform.split(piece)])
        batch.written += sum(map(len, piece.rows.values()))
        return len(piece.messages)

    def _check(self, rows: Rows) -> None:
        """Raise for a row that cannot be sent, before rows of another topic are sent."""
        largest, setting = self._producer._inner.record_limit
        for topic, listed in rows.items():
            check_topic(topic)
            check_rows(list(listed), 0, largest, setting)

    async def _bury(self, batch: Batch, message: Message, failed: Failed) -> int:
        """A message that cannot be processed becomes a dead letter, or ends the pipeline after the commit of what came before it."""
        topic = self._settings.dead_letters
        if topic is None:
            self._poison = poison(message, failed)
            return 0
        largest, _ = self._producer._inner.record_limit
        row = dead_letter(message, failed, group=self._settings.group, largest=largest)
        try:
            await self._calls.call(batch.transaction.send_many, topic, [row])
        except REFUSED as error:
            if isinstance(error, Retriable):
                raise
            self._poison = poison(message, Failed(error, failed.attempts))
            return 0
        batch.dead += 1
        log.info("%s: dead letter for %s-%d, offset %d: %s", self._name, *tp_of(message), offset_of(message), failed.reason)
        return 1

    # -- transactions ----------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        transaction = await self._with_producer(lambda: self._insist(self._producer.begin, self._settings.call_s))
        now = time.monotonic()
        self._batch = Batch(transaction, now, now + self._settings.batch_ms / 1000.0)

    async def _finish(self) -> None:
        """Commit the open batch. If that is not possible, abort it and read its messages again."""
        batch = self._batch
        if batch is None:
            return
        limit_s = self._settings.call_s
        try:
            if batch.next:
                await self._insist(lambda: batch.transaction.send_offsets(batch.next, self._source.group(), limit_s))
            await self._insist(batch.transaction.commit, limit_s)
        except CommitOutcomeUnknown as unknown:
            error = await self._find_out(unknown)
            if error is not None:
                await self._abort(error)
                return
        except FencepostError as error:
            await self._abort(error)
            return
        self._batch = None
        if batch.read:
            self._note_committed(batch)

    def _note_committed(self, batch: Batch) -> None:
        counters = self._counters
        counters.batches += 1
        counters.records_in += batch.read
        counters.records_out += batch.written
        counters.dead_letters += batch.dead
        self._aborted = 0
        for tp, place in batch.next.items():
            self._committed[tp] = place.offset
            if self._isolated and place.offset >= self._isolated.get(tp, place.offset):
                self._isolated.pop(tp, None)
        if self._transform.refused:
            self._transform.refused = {
                (tp, offset): error for (tp, offset), error in self._transform.refused.items() if offset >= self._committed.get(tp, 0)
            }

    async def _find_out(self, unknown: CommitOutcomeUnknown) -> FencepostError | None:
        """Ask until the outcome of the commit is known. None if it is committed, otherwise why not."""
        for turn in range(1, max(1, self._settings.aborts_max) + 1):
            log.warning("%s: %s; asking for the outcome", self._name, unknown)
            try:
                await self._calls.call(unknown.resolve, self._settings.call_s)
            except CommitOutcomeUnknown as still:
                unknown = still
            except TransactionTimeout:
                pass
            except FencepostError as error:
                return error
            else:
                return None
            if self._patience.is_over:
                break
            await self._patience.pause(turn)
        self._batch = None
        raise PipelineFailed(
            f"the outcome of a commit stays unknown: {unknown}. Start again: the group's offsets then tell what is processed"
        ) from unknown

    async def _abort(self, error: FencepostError, *, counts: bool = True) -> None:
        """Abort the open batch, and read its messages again. Raises if another attempt cannot help."""
        batch, self._batch = self._batch, None
        assert batch is not None
        cause = error.cause if isinstance(error, MustAbort) and error.cause is not None else error
        code = getattr(cause, "code", 0)
        self._counters.aborts += 1
        again = dict(batch.first)
        # A message that failed before it was noted is only in the list.
        for tp, offset in first_of(self._pending).items():
            again.setdefault(tp, offset)
        self._note_refused(batch, error, cause)
        self._pending.clear()
        self._poison = None  # It comes again.
        self._source.rewinds.update(again)
        taken_s = time.monotonic() - batch.began
        advice = self._advice(code, taken_s)
        log.warning("%s: aborted, to read %d messages again: %s%s", self._name, batch.read, error, advice)
        if code in STOPPING:
            await self._give_back(batch)
            raise PipelineFailed(f"the brokers refuse: {error}: {STOPPING[ErrorCode(code)]}") from error
        if isinstance(error, Fatal | ProducerClosed | TransactionAborted):
            await self._replace_producer(error)
        else:
            await self._give_back(batch)
        if not counts or (isinstance(error, Retriable) and not isinstance(error, TopicUnavailable)):
            return
        self._aborted += 1
        if self._aborted > self._settings.aborts_max:
            raise PipelineFailed(
                f"{self._aborted} transactions in a row were aborted, more than aborts_max={self._settings.aborts_max}; the last:"
                f" {error}{advice}"
            ) from error
        await self._patience.pause(self._aborted)

    def _advice(self, code: int, taken_s: float) -> str:
        limit_s = self._settings.transaction_timeout_ms / 1000.0
        if taken_s >= limit_s:
            return f". The batch took {taken_s:.1f} s, longer than transaction_timeout_ms={self._settings.transaction_timeout_ms}"
        if code in OF_THE_GROUP:
            return f". The group gave the partitions to another member (the batch took {taken_s:.1f} s)"
        return ""

    def _note_refused(self, batch: Batch, error: FencepostError, cause: object) -> None:
        """If the brokers refused a record, find out whose it is: process the batch's messages again, one in a transaction."""
        if not isinstance(cause, RecordRefused) or not isinstance(error, MustAbort | DeliveryError) or worth_another(error):
            return
        if batch.read == 1 and not batch.dead:
            ((tp, offset),) = batch.first.items()
            self._transform.refused[tp, offset] = cause
            return
        self._isolated = {tp: place.offset for tp, place in batch.next.items()}

    def _suspect(self, messages: list[Message], error: Exception) -> None:
        """One of these messages makes a record that the producer refuses."""
        if len(messages) == 1:
            self._transform.refused[tp_of(messages[0]), offset_of(messages[0])] = error
        else:
            self._isolated = {tp: offset_of(message) + 1 for tp, message in last_of(messages).items()}

    async def _give_back(self, batch: Batch) -> None:
        """Abort the transaction. A producer that cannot is replaced."""
        try:
            await self._insist(batch.transaction.abort, self._settings.call_s)
        except CommitOutcomeUnknown:
            raise
        except FencepostError as error:
            if self._patience.is_over:
                raise
            await self._replace_producer(error)

    async def _replace_producer(self, error: FencepostError) -> None:
        """Make a new producer after an error that ended the old one, unless another process took its transactional id over."""
        if isinstance(error, Misuse) and not isinstance(error, ProducerClosed):
            raise error
        if isinstance(error, Fatal) and not isinstance(error, Fenced | IdentityLost):
            raise PipelineFailed(f"the producer cannot continue: {error}") from error
        if isinstance(error, Fenced) and await self._is_replaced():
            raise Fenced(
                f"another pipeline uses transactional id {self._own['transactional_id']!r}: give each process its own instance. Nothing of"
                f" the open batch is visible ({error})"
            ) from error
        log.warning("%s: a new producer after: %s", self._name, error)
        with contextlib.suppress(FencepostError):
            await self._calls.call(self._producer.close, 0.0)
        await self._renew_producer()

    async def _is_replaced(self) -> bool:
        try:
            found: bool = await self._insist(self._producer.replaced, self._settings.call_s)
        except FencepostError as error:
            log.warning("%s: not known whether another process has the transactional id: %s", self._name, error)
            return True
        return found

    async def _renew_producer(self) -> None:
        self._producer = self._make_producer(self._own)
        await self._insist(self._producer.init, self._settings.call_s)

    async def _with_producer(self, work: Callable[[], Any]) -> Any:
        """Work that begins something. If the producer has ended meanwhile, it is replaced once."""
        try:
            return await work()
        except (Fatal, ProducerClosed) as error:
            await self._replace_producer(error)
            return await work()

    def _is_idle(self) -> bool:
        source = self._source
        return (
            bool(source.assigned) and source.assigned <= source.ended and not self._pending and self._batch is None and not source.rewinds
        )

    def _raise_poison(self) -> None:
        if self._poison is not None and self._batch is None:
            error, self._poison = self._poison, None
            raise error
