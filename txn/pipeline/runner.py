"""The pipeline's program: read, transform, write, commit; and what it does about each failure.

It is written once, as coroutines, for both pipelines (`calls`). A transaction opens when messages are there, and ends when it is full or
old, before partitions are given up, and when the pipeline stops. While it is being committed, the next messages are read and transformed;
their results wait for the next transaction. Nothing is processed that the pipeline cannot commit or read again.
"""

from __future__ import annotations

import contextlib
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from fencepost.producer.errors import DeliveryError, Fatal, FencepostError, ProducerClosed, Retriable, TopicUnavailable
from fencepost.producer.wire.codes import ErrorCode
from fencepost.txn.errors import CommitOutcomeUnknown, MustAbort, TransactionTimeout
from fencepost.txn.loop.aborts import Aborts, Suspects, cause_of, is_of_a_record
from fencepost.txn.loop.calls import Calls
from fencepost.txn.loop.own_producer import MakeProducer, OwnProducer
from fencepost.txn.loop.patience import Patience
from fencepost.txn.pipeline.applying import Transform
from fencepost.txn.pipeline.batch import TP, Batch, first_of, last_of, offset_of, tp_of
from fencepost.txn.pipeline.committing import Commit
from fencepost.txn.pipeline.consumer_settings import consumer_settings
from fencepost.txn.pipeline.errors import PipelineFailed
from fencepost.txn.pipeline.instances import release_instance
from fencepost.txn.pipeline.leaving import leave_group
from fencepost.txn.pipeline.pace import READ_MAX, Pace
from fencepost.txn.pipeline.read_ahead import ReadAhead
from fencepost.txn.pipeline.settings import PipelineSettings
from fencepost.txn.pipeline.source import Source
from fencepost.txn.pipeline.stats import Counters
from fencepost.txn.pipeline.writing import Writer

if TYPE_CHECKING:
    from confluent_kafka import Message

log = logging.getLogger("fencepost.pipeline")

POLL_S: Final = 0.1
"""How long one read waits. `stop` and Ctrl-C take effect after it."""
OF_THE_GROUP: Final = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS})
"""Refusals of offsets because the group has moved on. The next read joins it again."""
TOO_LATE: Final = (TransactionTimeout, TopicUnavailable)
"""The time of a call has passed, and nothing is decided."""
STOPPING: Final = {
    ErrorCode.FENCED_INSTANCE_ID: "another process has the same instance: give each its own",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "grant READ on the group to this client's principal",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "grant WRITE on the topic to this client's principal",
}
"""Refusals that another attempt does not change."""


class Runner:
    """See the module. `stopping`: the pipeline is to end; any thread may set it."""

    def __init__(
        self, settings: PipelineSettings, own: dict[str, Any], counters: Counters, calls: Calls, make_producer: MakeProducer
    ) -> None:
        self.stopping = False
        self._settings = settings
        self._name = f"pipeline {settings.group!r}"
        self._calls = calls
        self._counters = counters
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
        self._producer = OwnProducer(
            make_producer,
            own,
            settings.call_s,
            calls,
            self._patience,
            log=log,
            name=self._name,
            failed=PipelineFailed,
            taken_over=f"another pipeline uses transactional id {own['transactional_id']!r}: give each process its own instance. Nothing of"
            " the open batch is visible",
        )
        own_topics = [topic for topic in (settings.sink, settings.dead_letters) if topic is not None]
        consumer = consumer_settings(settings)
        self._release_instance = partial(release_instance, own, settings.group, consumer)
        self._source = Source(
            consumer,
            settings.topics,
            calls,
            counters,
            self.revoked,
            left_s=self._patience.run_left_s,
            leave=partial(leave_group, own, settings.group, consumer),
            own_topics=own_topics,
        )
        self._transform = Transform(settings, calls, counters, self._before_pause, self._patience.run_left_s)
        self._writer = Writer(settings, self._name, calls, self._transform, lambda: self._producer.record_limit, self._suspect)
        self._pending: list[Message] = []
        self._ahead = ReadAhead(settings.batch_ms / 1000.0)
        self._batch: Batch | None = None
        self._commit: Commit | None = None
        self._goal = float("inf")
        """After so many transactions of the counter the run ends."""
        self._committed: dict[TP, int] = {}
        self._isolated: dict[TP, int] = {}
        """Up to which offsets messages are processed one in a transaction, to find the one whose records the brokers refuse."""
        self._suspected: Suspects[tuple[TP, int]] = Suspects(settings)
        self._aborts = Aborts(settings, self._producer, self._patience, STOPPING, PipelineFailed, but=(CommitOutcomeUnknown,))
        self._pace = Pace(settings)
        self._is_open = False

    # -- the program -----------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        """Register the producer, and join the group. In this order: registering aborts what a killed run of this instance left open, and
        only then the group's offsets are stable."""
        await self._producer.register()
        for topic in (self._settings.sink, self._settings.dead_letters):
            if topic is not None:
                await self._producer.find(topic)
        await self._calls.ask(self._release_instance, self._patience.run_left_s())
        await self._source.open()
        self._is_open = True

    async def run(self, *, ends_at: float, batches: int | None, until_idle: bool) -> bool:
        """Run until the pipeline is stopped, or the time has come, or so many transactions are committed, or everything is read. Returns
        whether everything was read."""
        self._goal = float("inf") if batches is None else self._counters.batches + batches
        self._patience.begin(ends_at)
        if not self._is_open:
            with self._patience.opening():
                await self._open()
        elif until_idle and not await self._source.look_again():
            return False
        while self._patience.run_left_s() > 0.0 and self._counters.batches < self._goal:
            if self._is_idle():
                self._isolated.clear()  # Messages that are left to be processed alone are no longer in the log.
                if until_idle:
                    self._counters.lag = 0
                    return True
            await self._step(ends_at, until_idle=until_idle)
        self._patience.stop_now()
        await self._finish()
        self._raise_poison()
        self._counters.lag = self._source.lag(self._committed)
        return self._is_idle()

    async def close(self, *, failed: bool) -> None:
        """Wait for a commit that is under way, abort the open batch, leave the group, and close the producer."""
        batch, self._batch = self._batch, None
        commit, self._commit = self._commit, None
        self._pending.clear()
        self._ahead.clear()
        self._patience.stop_now()
        try:
            if commit is not None:
                with contextlib.suppress(FencepostError, TimeoutError):
                    not_committed = await commit.running.result(self._settings.stop_timeout_ms / 1000.0)
                    batch = commit.batch if not_committed is not None else None
            if batch is not None:
                with contextlib.suppress(FencepostError):
                    await self._calls.call(batch.transaction.abort, self._settings.call_s)
        finally:
            try:
                await self._source.close()
            finally:
                try:
                    await self._producer.close(0.0 if failed else self._settings.call_s)
                finally:
                    await self._calls.close()

    async def revoked(self, taken: set[TP], lost: bool) -> None:
        """The consumer gives these partitions up, and waits for this to return. What is processed is committed; if another member may have
        the partitions already, it is aborted."""
        if not lost:
            await self._finish()
        else:
            await self._settle()
            if self._batch is not None:
                await self._abort(self._batch, MustAbort("the group has given this member's partitions away"), counts=False)
            self._read_again({})
        self._pending = [message for message in self._pending if tp_of(message) not in taken]
        for known in (self._committed, self._isolated):
            for tp in taken & known.keys():
                del known[tp]

    async def _step(self, ends_at: float, *, until_idle: bool) -> None:
        """One read, and what becomes of it. `until_idle`: when everything is read, a transaction is committed at once, because nothing more
        is waited for."""
        size = 1 if self._isolated else self._settings.batch_size
        came = await self._read(size, ends_at)
        self._pending += came  # Not in one line: a rebalance inside the read replaces the list.
        await self._process(size)
        if self._commit is not None and (not came or self._is_due(size)):
            await self._settle()  # Nothing else is to be done meanwhile.
        await self._write()
        if self._is_due(size) or self._writer.poison is not None or (until_idle and self._has_read_all()):
            self._begin_commit()
            if self._is_last() or self._isolated or self._writer.poison is not None:
                await self._settle()
        self._raise_poison()
        if self._counters.due:
            self._counters.lag = self._source.lag(self._committed)
            self._counters.tell(self._name)

    async def _read(self, size: int, ends_at: float) -> list[Message]:
        """The next messages. With other work at hand it does not wait, but only lets the consumer know that the program lives, and lets
        rebalances take place."""
        if self._pending or self._ahead.count or self._commit is not None:
            wait_s = 0.0
        else:
            until = min(ends_at, self._batch.ends_at) if self._batch is not None else ends_at
            wait_s = max(0.0, min(POLL_S, until - time.monotonic()))
        room = size - self._taken()
        return await self._source.read(1 if self._pending else max(1, min(READ_MAX, room)), wait_s)

    async def _process(self, size: int) -> None:
        """Transform and send the messages at hand, until the batch is full or old."""
        while self._pending and self._writer.poison is None and not self.stopping and not self._is_due(size):
            taken = self._pending[: min(self._pace.size, size - self._taken())]
            began = time.monotonic()
            pieces = await self._transform.apply(taken)
            if not pieces:  # The run ends, and the first of them has to be tried again.
                return
            del self._pending[: len(taken)]
            self._ahead.add(taken, pieces, began)
            if self._commit is None or self._commit.running.done():
                await self._write()
            self._pace.took(time.monotonic() - began)
            if self._patience.run_left_s() <= 0.0 and sum(len(piece.messages) for piece in pieces) < len(taken):
                return  # As above, with those that came before it.

    async def _write(self) -> None:
        """Send what is transformed, as soon as a transaction can be open for it."""
        if self._commit is not None and not self._commit.running.done():
            return
        await self._settle()
        if not self._ahead.count:
            return
        if self._batch is None:
            self._batch = await self._begin()
        batch = self._batch
        try:
            while self._ahead.count and self._writer.poison is None:
                messages, pieces = self._ahead.first()
                done = 0
                for piece in pieces:
                    done += await self._writer.write(batch, piece)
                batch.note(messages[:done])
                self._ahead.done()
                if done < len(messages):
                    self._pending[:0] = [*messages[done:], *self._ahead.drop()]
        except (MustAbort, DeliveryError, Retriable, Fatal, ProducerClosed) as error:
            await self._abort(batch, error)

    def _taken(self) -> int:
        """How many messages the open transaction, or the next one, has so far."""
        return self._ahead.count + (self._batch.read if self._batch is not None else 0)

    def _is_due(self, size: int) -> bool:
        """Whether a transaction has messages enough, or for long enough."""
        taken, batch = self._taken(), self._batch
        return bool(taken) and (taken >= size or time.monotonic() >= (batch.ends_at if batch is not None else self._ahead.ends_at))

    def _is_last(self) -> bool:
        """Whether the run ends after the next commit."""
        return self._counters.batches + 1 >= self._goal

    def _before_pause(self) -> None:
        """A message is tried again after a pause. A batch that is old is committed meanwhile: many pauses last longer than a transaction
        may. All that is written into it is noted."""
        if self._batch is not None and time.monotonic() >= self._batch.ends_at and not self._is_last():
            self._begin_commit()

    # -- transactions ----------------------------------------------------------------------------------------------------

    async def _finish(self) -> None:
        """Write what is transformed, and commit it. What cannot be committed is aborted, and its messages are read again."""
        await self._settle()
        await self._write()
        self._begin_commit()
        await self._settle()

    async def _begin(self) -> Batch:
        """Begin a transaction. If the producer has ended meanwhile, it is replaced once."""
        try:
            transaction = await self._producer.begin()
        except (Fatal, ProducerClosed) as error:
            await self._producer.replace(error)
            transaction = await self._producer.begin()
        now = time.monotonic()
        return Batch(transaction, now, min(now + self._settings.batch_ms / 1000.0, self._ahead.ends_at))

    def _begin_commit(self) -> None:
        """Have the open batch committed."""
        batch, self._batch = self._batch, None
        if batch is not None:
            self._commit = Commit(batch, self._source.group(), self._settings, self._name, self._calls, self._patience)

    async def _settle(self) -> None:
        """Wait for the commit that is under way. If it fails, the batch is aborted and its messages are read again."""
        commit = self._commit
        if commit is None:
            return
        try:
            error = await commit.running.result(None)
        finally:
            if commit.running.done():  # Otherwise Ctrl-C has interrupted the wait.
                self._commit = None
        if error is not None:
            await self._abort(commit.batch, error)
        elif commit.batch.read:
            self._note_committed(commit.batch)

    def _note_committed(self, batch: Batch) -> None:
        counters = self._counters
        counters.batches += 1
        counters.records_in += batch.read
        counters.records_out += batch.written
        counters.dead_letters += batch.dead
        self._aborts.committed()
        self._suspected.committed()
        for tp, place in batch.next.items():
            self._committed[tp] = place.offset
            if self._isolated and place.offset >= self._isolated.get(tp, place.offset):
                self._isolated.pop(tp, None)
                if not self._isolated:
                    self._suspected.clear()
        if self._transform.refused:
            self._transform.refused = {
                (tp, offset): error for (tp, offset), error in self._transform.refused.items() if offset >= self._committed.get(tp, 0)
            }

    async def _abort(self, batch: Batch, error: FencepostError, *, counts: bool = True) -> None:
        """Abort the batch, and read its messages again. Raises if another attempt cannot help."""
        self._batch = None
        cause = cause_of(error)
        self._counters.aborts += 1
        self._note_refused(batch, error)
        self._read_again(batch.first)
        self._writer.poison = None  # It comes again.
        taken_s = time.monotonic() - batch.began
        advice = self._aborts.slow(taken_s)
        if not advice and getattr(cause, "code", 0) in OF_THE_GROUP:
            advice = f". The group gave the partitions to another member (the batch took {taken_s:.1f} s)"
        log.warning("%s: aborted, to read %d messages again: %s%s", self._name, batch.read, error, advice)
        await self._aborts.refuse_lasting(batch.transaction, error)
        is_one_more = self._suspected.is_first or not is_of_a_record(error)
        await self._aborts.settle(batch.transaction, error, advice, counts=counts, is_one_more=is_one_more)

    def _read_again(self, first: dict[TP, int]) -> None:
        """Continue at these offsets. What came after them is read again too, and what failed before it was noted is only there."""
        self._source.rewinds.update(first_of([*self._ahead.drop(), *self._pending]) | first)
        self._pending.clear()

    def _note_refused(self, batch: Batch, error: FencepostError) -> None:
        """If the brokers refused a record, find out whose it is: process the batch's messages again, one in a transaction."""
        if not is_of_a_record(error):
            return
        # The record may be of a message that was being sent when the refusal came.
        ahead = self._ahead.messages()
        if batch.read + len(ahead) == 1 and not batch.dead:
            (place,) = (batch.first or first_of(ahead)).items()
            if self._suspected.is_guilty(place, error):
                cause = cause_of(error)
                self._transform.refused[place] = cause if isinstance(cause, Exception) else error
                return
        later = {tp: offset_of(message) + 1 for tp, message in last_of(ahead).items()}
        self._isolated = {tp: place.offset for tp, place in batch.next.items()} | later

    def _suspect(self, messages: list[Message], error: Exception) -> None:
        """One of these messages makes a record that the producer refuses."""
        if len(messages) == 1:
            self._transform.refused[tp_of(messages[0]), offset_of(messages[0])] = error
        else:
            self._isolated = {tp: offset_of(message) + 1 for tp, message in last_of(messages).items()}

    def _is_idle(self) -> bool:
        return self._batch is None and self._commit is None and self._has_read_all()

    def _has_read_all(self) -> bool:
        """Whether all messages of this member's partitions are in a transaction."""
        source = self._source
        waiting = self._pending or self._ahead.count or source.rewinds
        return not waiting and bool(source.assigned) and source.assigned <= source.ended

    def _raise_poison(self) -> None:
        if self._writer.poison is not None and self._batch is None and self._commit is None:
            error, self._writer.poison = self._writer.poison, None
            raise error
