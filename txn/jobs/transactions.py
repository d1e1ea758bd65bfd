"""The transactions of a job: each has records and, last, the position after them; and what happens when one cannot be committed.

Registering the transactional id fences an earlier run and ends its open transaction. Only then the position is read. So no other run can
commit between the two. After an abort the caller opens the source again at `position`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from functools import partial
from typing import Any, Final

from fencepost.producer.errors import (
    DeliveryError,
    Fatal,
    FencepostError,
    ProducerClosed,
    Retriable,
)
from fencepost.producer.foundations.printable import said
from fencepost.producer.wire.codes import ErrorCode
from fencepost.txn.errors import CommitOutcomeUnknown, MustAbort, TransactionAborted
from fencepost.txn.jobs.batch import Batch
from fencepost.txn.jobs.entry import JobEntry
from fencepost.txn.jobs.errors import JobFailed, SourceChanged
from fencepost.txn.jobs.positions import Positions, as_json, entry_of
from fencepost.txn.jobs.settings import JobSettings
from fencepost.txn.jobs.stats import Counters
from fencepost.txn.loop.aborts import Aborts, Suspects, cause_of, is_of_a_record
from fencepost.txn.loop.calls import Calls
from fencepost.txn.loop.outcomes import find_out
from fencepost.txn.loop.own_producer import MakeProducer, OwnProducer
from fencepost.txn.loop.patience import Patience

log = logging.getLogger("fencepost.job")

STOPPING: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "grant WRITE on the topic, and on the topic of positions, to this client's principal",
}
"""Refusals that another attempt does not change."""
OF_TRANSACTION: Final = (MustAbort, DeliveryError, Retriable, Fatal, ProducerClosed, TransactionAborted)
"""Errors after which the batch is aborted, and its records are read again."""
ISOLATED: Final = 500
"""How many records are written one in a transaction, if it is not known how many the refused one was among."""


class Transactions:
    """See the module. `position`: of the last commit. `batch`: the open one. `refused`: the position after the record that
    the brokers refuse, and why.
    `make_producer`: makes the transactional producer with these settings."""

    def __init__(
        self,
        name: str,
        kind: str,
        settings: JobSettings,
        own: dict[str, Any],
        positions: Positions,
        counters: Counters,
        calls: Calls,
        patience: Patience,
        make_producer: MakeProducer,
    ) -> None:
        self.position: Any = None
        self.batch: Batch | None = None
        self.refused: tuple[Any, Exception] | None = None
        self._job = name
        self._name = f"job {name!r}"
        self._kind = kind
        self._settings = settings
        self._own = own
        self._positions = positions
        self._counters = counters
        self._calls = calls
        self._patience = patience
        self._insist = patience.insist
        self.producer = OwnProducer(
            make_producer,
            own,
            settings.call_s,
            calls,
            patience,
            log=log,
            name=self._name,
            failed=JobFailed,
            taken_over=f"another run of job {name!r} has begun (transactional id {own['transactional_id']!r}), or its position was reset:"
            " this run ends, and nothing of its open batch is visible",
            registered=self._read_position,
        )
        self._records = 0
        """Records of the source that are committed since the job began."""
        self._suspected: Suspects[str] = Suspects(settings)
        self._aborts = Aborts(settings, self.producer, patience, STOPPING, JobFailed)
        self._isolated = 0
        """So many records are written one in a transaction, to find the one that the brokers refuse."""

    @property
    def size(self) -> int:
        """How many records of the source the batch takes."""
        return 1 if self._isolated else self._settings.batch_size

    async def open(self) -> None:
        """Register the producer, then read the position. In this order: registering ends what an earlier run left open."""
        await self.producer.register()
        for topic in (self._settings.topic, self._settings.dead_letters):
            if topic is not None:
                await self.producer.find(topic)

    async def _read_position(self) -> None:
        entry: JobEntry | None = await self._patience.insist_asking(self._positions.read, self._job, limit_s=self._settings.call_s)
        if entry is not None and entry.source != self._kind:
            raise SourceChanged(
                f"job {self._job!r} has the position of a source of kind {entry.source!r}, and this source is of kind {self._kind!r}: give "
                f"the new source another job, or delete the position with `fencepost jobs reset {self._job} --to-start --execute`"
            )
        if entry is not None and entry.topic not in (None, self._settings.topic):
            log.warning(
                "%s: earlier runs wrote to topic %r, and this one writes to %r: what they committed is not sent again",
                self._name,
                entry.topic,
                self._settings.topic,
            )
        self.position = entry.position if entry is not None else None
        self._records = entry.records if entry is not None else 0
        self._counters.before = self._records - self._counters.records_in

    async def close(self, *, failed: bool) -> None:
        """Abort the open batch, and close the producer."""
        batch, self.batch = self.batch, None
        try:
            if batch is not None:
                with contextlib.suppress(FencepostError):
                    await self._calls.call(batch.transaction.abort, self._settings.call_s)
        finally:
            await self.producer.close(0.0 if failed else self._settings.call_s)

    async def begin(self, place: str) -> Batch | None:
        """Open a transaction for the record at this place. None: a new producer was needed, and the position was read again."""
        try:
            transaction = await self.producer.begin()
        except (Fatal, ProducerClosed) as error:
            await self.producer.replace(error)
            return None
        now = time.monotonic()
        self.batch = Batch(transaction, now, now + self._settings.batch_ms / 1000.0, place)
        return self.batch

    async def finish(self) -> bool:
        """Commit the open batch with its position. Returns False if it was aborted instead: what comes after `position` must be read
        again."""
        batch = self.batch
        if batch is None:
            return True
        limit_s = self._settings.call_s
        try:
            if not batch.read:
                await self._insist(batch.transaction.abort, limit_s=limit_s)
                self.batch = None
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
            await self._insist(batch.transaction.commit, limit_s=limit_s)
        except CommitOutcomeUnknown as unknown:
            reason = await self._find_out(unknown)
            if reason is not None:
                await self.abort(reason)
                return False
        except OF_TRANSACTION as error:
            await self.abort(error)
            return False
        self.batch = None
        self.position = position
        self._records = entry.records
        self._aborts.committed()
        self._isolated = max(0, self._isolated - batch.read)
        if not self._isolated:
            self._suspected.clear()
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
        settings = self._settings
        try:
            return await find_out(unknown, settings.aborts_max, settings.call_s, self._calls, self._patience, log, self._name)
        except CommitOutcomeUnknown as still:
            self.batch = None
            raise JobFailed(f"the outcome of a commit stays unknown: {still}. Run the job again: its position then tells") from still

    async def abort(self, error: FencepostError) -> None:
        """Abort the open batch. What comes after `position` must be read again. Raises if another attempt cannot help."""
        batch, self.batch = self.batch, None
        assert batch is not None
        self._counters.aborts += 1
        advice = self._aborts.slow(time.monotonic() - batch.began)
        log.warning("%s: aborted, to read %d records again: %s%s", self._name, batch.read, error, advice)
        await self._aborts.refuse_lasting(batch.transaction, error)
        self._note_refused(batch, error)
        await self._aborts.settle(batch.transaction, error, advice)

    def _note_refused(self, batch: Batch, error: FencepostError) -> None:
        """If the brokers refused a record, find out which: write the batch's records again, one in a transaction."""
        if not is_of_a_record(error):
            return
        cause = cause_of(error)
        if not self._isolated:
            self._isolated = batch.read or ISOLATED
        elif batch.dead:
            raise JobFailed(f"the brokers refuse the dead letter for {batch.first}: {said(str(cause))}") from error
        else:
            position = as_json(batch.written_to())
            if self._suspected.is_guilty(json.dumps(position, sort_keys=True), error):
                self.refused = position, cause if isinstance(cause, Exception) else error
