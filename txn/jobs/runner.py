"""The job's program: register, read the position, then read, transform, write and commit; and what it does about each failure.

It is written once, as coroutines, for both jobs (`fencepost.txn.pipeline.calls`). Each transaction has the records and, last, the position
after them. The first thing that a run does is to register the transactional id: this fences an earlier run and ends its open transaction.
Only then the position is read. After every abort the source is opened again at the position of the last commit.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

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
from fencepost.producer.foundations.printable import said
from fencepost.producer.wire.codes import ErrorCode
from fencepost.txn.coordinator.rerun_policy import worth_another
from fencepost.txn.errors import CommitOutcomeUnknown, IdentityLost, MustAbort, TransactionAborted, TransactionTimeout
from fencepost.txn.files.errors import BadInput, InputBroken
from fencepost.txn.jobs.applying import Transform
from fencepost.txn.jobs.batch import Batch
from fencepost.txn.jobs.entry import JobEntry
from fencepost.txn.jobs.errors import BadRecord, JobFailed, SourceChanged
from fencepost.txn.jobs.positions import Positions, as_json, entry_of
from fencepost.txn.jobs.settings import JobSettings
from fencepost.txn.jobs.source import Piece, kind_of, pieces_of
from fencepost.txn.jobs.stats import Counters
from fencepost.txn.jobs.writing import Writer
from fencepost.txn.ledger.errors import LedgerUnavailable
from fencepost.txn.pipeline.calls import Calls
from fencepost.txn.pipeline.patience import Patience

log = logging.getLogger("fencepost.job")

STOPPING: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "grant WRITE on the topic, and on the topic of positions, to this client's principal",
}
"""Refusals that another attempt does not change."""
TOO_LATE: Final = (TransactionTimeout, TopicUnavailable, LedgerUnavailable)
"""The time of a call has passed, and nothing is decided."""
OF_TRANSACTION: Final = (MustAbort, DeliveryError, Retriable, Fatal, ProducerClosed, TransactionAborted)
"""Errors after which the batch is aborted, and its records are read again."""
END: Final = object()


class Runner:
    """See the module. `make_producer`: makes the transactional producer with these settings."""

    def __init__(
        self,
        name: str,
        source: Any,
        settings: JobSettings,
        own: dict[str, Any],
        positions: Positions,
        counters: Counters,
        calls: Calls,
        make_producer: Callable[[dict[str, Any]], Any],
    ) -> None:
        self.stopping = False
        self.position: Any = None
        self._job = name
        self._name = f"job {name!r}"
        self._source = source
        self._kind = kind_of(source)
        self._settings = settings
        self._own = own
        self._positions = positions
        self._counters = counters
        self._calls = calls
        self._make_producer = make_producer
        function = settings.transform or getattr(source, "to_record", None if hasattr(source, "pieces") else _as_it_is)
        transform = Transform(function, settings, calls, counters) if function is not None else None
        self._is_plain = transform is None
        self._writer = Writer(name, settings, transform, calls, lambda: self._producer._inner.record_limit)
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
        self._producer: Any = None
        self._pieces: Iterator[Piece | None] | None = None
        self._batch: Batch | None = None
        self._goal: int | None = None
        self._records = 0
        """Records of the source that are committed since the job began."""
        self._aborted = 0
        self._isolated = 0
        """So many records are written one in a transaction, to find the one that the brokers refuse."""

    # -- the program -----------------------------------------------------------------------------------------------------

    async def run(self, *, ends_at: float, batches: int | None) -> bool:
        """Run until the source ends, the job is stopped, the time has come, or so many transactions are committed. Returns whether the
        source has ended."""
        self._goal = None if batches is None else self._counters.batches + batches
        self._patience.ends_at = ends_at
        if self._producer is None:
            await self._open()
        await self._reopen()
        while True:
            self._patience.stop_ends_at = None
            ended = False
            while not ended and self._goes_on():
                ended = await self._step()
            self._patience.stop_now()
            is_committed = await self._finish()
            self._raise_bad()
            if is_committed or not self._goes_on():
                return ended and is_committed

    async def close(self, *, failed: bool) -> None:
        """Abort the open batch, and close the source and the producer."""
        batch, self._batch = self._batch, None
        self._patience.stop_now()
        try:
            await self._close_source()
            if batch is not None and self._producer is not None:
                with contextlib.suppress(FencepostError):
                    await self._calls.call(batch.transaction.abort, self._settings.call_s)
        finally:
            try:
                if self._producer is not None:
                    await self._calls.call(self._producer.close, 0.0 if failed else self._settings.call_s)
            finally:
                await self._calls.close()

    async def _open(self) -> None:
        """Register the producer, then read the position. In this order: registering ends what an earlier run left open."""
        await self._renew_producer()
        await self._insist(self._producer.partitions_for, self._settings.topic, self._settings.call_s)
        if self._settings.dead_letters is not None:
            await self._insist(self._producer.partitions_for, self._settings.dead_letters, self._settings.call_s)

    async def _renew_producer(self) -> None:
        self._producer = self._make_producer(self._own)
        await self._insist(self._producer.init, self._settings.call_s)
        entry: JobEntry | None = await self._patience.insist_asking(self._positions.read, self._job, self._settings.call_s)
        if entry is not None and entry.source != self._kind:
            raise SourceChanged(
                f"job {self._job!r} has the position of a source of kind {entry.source!r}, and this source is of kind {self._kind!r}: give "
                f"the new source another job, or delete the position with `fencepost jobs reset {self._job} --to-start --execute`"
            )
        self.position = entry.position if entry is not None else None
        self._records = entry.records if entry is not None else 0
        self._counters.before = self._records - self._counters.records_in

    async def _reopen(self) -> None:
        """Open the source at the position of the last commit."""
        await self._close_source()
        if hasattr(self._source, "pieces"):
            self._pieces = self._source.pieces(self.position, plain=self._is_plain)
        else:
            self._pieces = pieces_of(self._source, self.position)

    async def _close_source(self) -> None:
        pieces, self._pieces = self._pieces, None
        close = getattr(pieces, "close", None)
        if close is not None:
            await self._calls.ask(close)

    def _goes_on(self) -> bool:
        return (
            not self.stopping and time.monotonic() < self._patience.ends_at and (self._goal is None or self._counters.batches < self._goal)
        )

    async def _step(self) -> bool:
        """One piece of the source, and what becomes of it. Returns whether the source has ended."""
        assert self._pieces is not None
        try:
            piece: Any = await self._calls.ask(next, self._pieces, END)
        except Exception as error:
            # What came before is whole.
            await self._finish()
            if isinstance(error, BadInput | InputBroken):
                raise JobFailed(f"{error}. Everything before is committed") from error
            raise
        if piece is END:
            return True
        if piece is not None:
            await self._take(piece)
        if self._batch is not None and (piece is None or self._is_due(self._batch)):
            await self._finish()
        self._raise_bad()
        if self._counters.due:
            self._counters.tell(self._name)
        return False

    async def _take(self, piece: Piece) -> None:
        """Write a piece, in as many transactions as it takes."""
        source, writer = self._pieces, self._writer
        bad = list(piece.bad)
        stop = bad[0] if bad and self._settings.dead_letters is None else None
        index, end = 0, len(piece.items) if stop is None else stop.after

        def position_at(index: int) -> Callable[[], Any]:
            return bad[0].before if bad and bad[0].after == index else partial(piece.before, index)

        while (index < end or (bad and stop is None)) and writer.bad is None and self._goes_on():
            batch = self._batch or await self._begin(piece.place(index) if index < end else bad[0].place)
            if batch is None:
                return
            room = self._size - batch.read
            try:
                if stop is None and bad and bad[0].after == index:
                    await writer.bury_bad(batch, bad.pop(0))
                    batch.note(1, position_at(index))
                else:
                    until = min(end, index + room, bad[0].after if bad else end)
                    begin, index = index, await writer.write(batch, piece, index, until)
                    if index > begin:
                        batch.note(index - begin, position_at(index))
            except OF_TRANSACTION as error:
                await self._abort(error)
                return
            if self._is_due(batch):
                await self._finish()
                if self._pieces is not source:
                    return  # The transaction was aborted: the source is open at an earlier position.
        if stop is not None and index == end and writer.bad is None and self._goes_on():
            writer.bad = BadRecord(stop.reason, place=stop.place)

    @property
    def _size(self) -> int:
        return 1 if self._isolated else self._settings.batch_size

    def _is_due(self, batch: Batch) -> bool:
        return batch.read >= self._size or time.monotonic() >= batch.ends_at or self._writer.bad is not None

    # -- transactions ----------------------------------------------------------------------------------------------------

    async def _begin(self, place: str) -> Batch | None:
        """Open a transaction. None: a new producer was needed, and the source is open at the last commit."""
        try:
            transaction = await self._insist(self._producer.begin, self._settings.call_s)
        except (Fatal, ProducerClosed) as error:
            await self._replace_producer(error)
            await self._reopen()
            return None
        now = time.monotonic()
        self._batch = Batch(transaction, now, now + self._settings.batch_ms / 1000.0, place)
        return self._batch

    async def _finish(self) -> bool:
        """Commit the open batch with its position. Returns False if it was aborted instead, and the source is open at the last commit."""
        batch = self._batch
        if batch is None:
            return True
        limit_s = self._settings.call_s
        try:
            if not batch.read:
                await self._insist(batch.transaction.abort, limit_s)
                self._batch = None
                return True
            position = as_json(batch.position())
            entry = self._entry(position, self._records + batch.read)
            partition, key, value = await self._calls.ask(self._positions.row, entry)
            try:
                await self._calls.call(partial(batch.transaction.send_many, self._positions.topic, [(key, value)], partition=partition))
            except ValueError as error:
                if isinstance(error, Retriable):
                    raise
                raise JobFailed(
                    f"the position is too large for a record: {error}. Set producer={{'max_request_size': ...}} and the topic's "
                    "max.message.bytes higher, or give new files to another job"
                ) from error
            await self._insist(batch.transaction.commit, limit_s)
        except CommitOutcomeUnknown as unknown:
            reason = await self._find_out(unknown)
            if reason is not None:
                await self._abort(reason)
                return False
        except OF_TRANSACTION as error:
            await self._abort(error)
            return False
        self._batch = None
        self.position = position
        self._records = entry.records
        self._aborted = 0
        self._isolated = max(0, self._isolated - batch.read)
        counters = self._counters
        counters.batches += 1
        counters.records_in += batch.read
        counters.records_out += batch.written
        counters.dead_letters += batch.dead
        return True

    def _entry(self, position: Any, records: int) -> JobEntry:
        return entry_of(
            self._job,
            position,
            source=self._kind,
            records=records,
            topic=self._settings.topic,
            transactional_id=self._own["transactional_id"],
        )

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
        raise JobFailed(f"the outcome of a commit stays unknown: {unknown}. Run the job again: its position then tells") from unknown

    async def _abort(self, error: FencepostError) -> None:
        """Abort the open batch, and open the source again at the last commit. Raises if another attempt cannot help."""
        batch, self._batch = self._batch, None
        assert batch is not None
        self._writer.bad = None  # It comes again.
        cause = error.cause if isinstance(error, MustAbort) and error.cause is not None else error
        self._counters.aborts += 1
        taken_s = time.monotonic() - batch.began
        advice = ""
        if taken_s >= self._settings.transaction_timeout_ms / 1000.0:
            advice = f". The batch took {taken_s:.1f} s, longer than transaction_timeout_ms={self._settings.transaction_timeout_ms}"
        log.warning("%s: aborted, to read %d records again: %s%s", self._name, batch.read, error, advice)
        code = getattr(cause, "code", 0)
        if code in STOPPING:
            await self._give_back(batch)
            raise JobFailed(f"the brokers refuse: {error}: {STOPPING[ErrorCode(code)]}") from error
        self._note_refused(batch, error, cause)
        if isinstance(error, Fatal | ProducerClosed | TransactionAborted):
            await self._replace_producer(error)
        else:
            await self._give_back(batch)
        await self._reopen()
        if isinstance(error, Retriable) and not isinstance(error, TopicUnavailable):
            return
        self._aborted += 1
        if self._aborted > self._settings.aborts_max:
            raise JobFailed(
                f"{self._aborted} transactions in a row were aborted, more than aborts_max={self._settings.aborts_max}; the last:"
                f" {error}{advice}"
            ) from error
        await self._patience.pause(self._aborted)

    def _note_refused(self, batch: Batch, error: FencepostError, cause: object) -> None:
        """If the brokers refused a record, find out which: write the batch's records again, one in a transaction."""
        if not isinstance(cause, RecordRefused) or not isinstance(error, MustAbort | DeliveryError) or worth_another(error):
            return
        if batch.read > 1:
            self._isolated = batch.read
        elif batch.dead:
            raise JobFailed(f"the brokers refuse the dead letter for {batch.first}: {said(str(cause))}") from error
        else:
            self._writer.refused = cause

    async def _give_back(self, batch: Batch) -> None:
        """Abort the transaction. A producer that cannot is replaced."""
        try:
            await self._insist(batch.transaction.abort, self._settings.call_s)
        except FencepostError as error:
            if self._patience.is_over:
                raise
            await self._replace_producer(error)

    async def _replace_producer(self, error: FencepostError) -> None:
        """Make a new producer after an error that ended the old one, unless another run has taken the transactional id over."""
        if isinstance(error, Misuse) and not isinstance(error, ProducerClosed):
            raise error
        if isinstance(error, Fatal) and not isinstance(error, Fenced | IdentityLost):
            raise JobFailed(f"the producer cannot continue: {error}") from error
        if isinstance(error, Fenced) and await self._is_replaced():
            raise Fenced(
                f"another run of job {self._job!r} has begun (transactional id {self._own['transactional_id']!r}), or its position was"
                f" reset: this run ends, and nothing of its open batch is visible ({error})"
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

    def _raise_bad(self) -> None:
        error = self._writer.bad
        if error is not None and self._batch is None:
            self._writer.bad = None
            raise error


def _as_it_is(record: Any) -> Any:
    return record
