"""Writes records of a source into the open transaction: as they are, or as the transform makes them. What cannot be written becomes a dead
letter, or is remembered as the record at which the job stops."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Any, Final

from fencepost.producer.base_producer import check_topic
from fencepost.producer.bulk.rows import check_rows
from fencepost.producer.errors import Retriable
from fencepost.txn.jobs.applying import Transform
from fencepost.txn.jobs.batch import Batch
from fencepost.txn.jobs.dead_letters import dead_letter
from fencepost.txn.jobs.errors import BadRecord
from fencepost.txn.jobs.positions import as_json
from fencepost.txn.jobs.settings import JobSettings
from fencepost.txn.jobs.source import BadItem, Piece
from fencepost.txn.jobs.transactions import Transactions
from fencepost.txn.loop.attempts import Failed, Postponed
from fencepost.txn.loop.calls import Calls
from fencepost.txn.loop.routing import Rows

log = logging.getLogger("fencepost.job")

REFUSED: Final = (TypeError, ValueError)
"""What a call raises for rows that cannot be records, before it accepts any of them."""


class Writer:
    """See the module. `bad`: the record at which the job stops. Each call returns the index of the first record that is not done with."""

    def __init__(self, job: str, settings: JobSettings, transform: Transform | None, calls: Calls, transactions: Transactions) -> None:
        self.bad: BadRecord | None = None
        self._job = job
        self._topic = settings.topic
        self._dead_letters = settings.dead_letters
        self._transform = transform
        self._calls = calls
        self._transactions = transactions

    async def write(self, batch: Batch, piece: Piece, begin: int, end: int) -> int:
        """Write these records; fewer if the batch gets old or the run ends meanwhile. A record that is to be tried again is then left to
        the next batch, where it is the first: many pauses last longer than a transaction may."""
        transactions = self._transactions
        if transactions.refused is not None:
            (position, why), transactions.refused = transactions.refused, None
            if as_json(piece.before(begin + 1)) == position:  # Otherwise the source no longer has the refused record.
                return begin + await self._bury(batch, piece, begin, Failed(why))
        batch.written_to = partial(piece.before, end)
        if self._transform is None:
            return await self._send_plain(batch, piece, begin, end)
        made: list[Rows] = []
        failed: Failed | None = None

        def before_pause() -> None:
            if (batch.read or made) and time.monotonic() >= batch.ends_at:
                raise Postponed

        while begin + len(made) < end and not (made and time.monotonic() >= batch.ends_at):
            try:
                each = await self._transform.apply(piece.items[begin + len(made)], before_pause)
            except Postponed:
                break
            if isinstance(each, Failed):
                failed = each
                break
            made.append(each)
        done = await self._send_rows(batch, piece, begin, made)
        if failed is not None and done == begin + len(made) and self.bad is None:
            done += await self._bury(batch, piece, done, failed)
        return done

    async def bury_bad(self, batch: Batch, bad: BadItem) -> int:
        """A part of the source that is no record. Returns how many are done with."""
        return await self._bury_raw(batch, bad.raw, bad.place, bad.reason, Failed(ValueError(bad.reason)))

    async def _send_plain(self, batch: Batch, piece: Piece, begin: int, end: int) -> int:
        """Send rows as they are. Of rows that are refused the wrong one is found by halves, because all are checked before any is sent."""
        try:
            await self._calls.call(partial(piece.send, batch.transaction, self._topic, begin, end))
        except REFUSED as error:
            if isinstance(error, Retriable):
                raise
            if end - begin == 1:
                return begin + await self._bury(batch, piece, begin, Failed(error))
            middle = (begin + end) // 2
            reached = await self._send_plain(batch, piece, begin, middle)
            return reached if reached < middle else await self._send_plain(batch, piece, middle, end)
        batch.written += end - begin
        return end

    async def _send_rows(self, batch: Batch, piece: Piece, begin: int, made: list[Rows]) -> int:
        """Send what records became. If a row is refused, send those of each record alone."""
        rows: Rows = {}
        for each in made:
            for topic, several in each.items():
                rows.setdefault(topic, []).extend(several)
        try:
            self._check(rows)
        except REFUSED as error:
            if len(made) == 1:
                return begin + await self._bury(batch, piece, begin, Failed(error))
            for index, each in enumerate(made, begin):
                if await self._send_rows(batch, piece, index, [each]) == index:
                    return index
            return begin + len(made)
        for topic, listed in rows.items():
            await self._calls.call(batch.transaction.send_many, topic, listed)
            batch.written += len(listed)
        return begin + len(made)

    def _check(self, rows: Rows) -> None:
        """Raise for a row that cannot be sent, before any is."""
        largest, setting = self._transactions.producer.record_limit
        for topic, listed in rows.items():
            check_topic(topic)
            check_rows(list(listed), 0, largest, setting)

    async def _bury(self, batch: Batch, piece: Piece, index: int, failed: Failed) -> int:
        return await self._bury_raw(batch, piece.raw(index), piece.place(index), failed.reason, failed)

    async def _bury_raw(self, batch: Batch, raw: bytes, place: str, reason: str, failed: Failed) -> int:
        """A record that cannot be written becomes a dead letter, or ends the job after the commit of what came before it."""
        if self._dead_letters is None:
            self.bad = BadRecord(reason, place=place, attempts=failed.attempts)
            self.bad.__cause__ = failed.error
            return 0
        row: Any = dead_letter(
            raw, reason=reason, place=place, job=self._job, attempts=failed.attempts, largest=self._transactions.producer.record_limit[0]
        )
        await self._calls.call(batch.transaction.send_many, self._dead_letters, [row])
        batch.dead += 1
        log.info("job %r: dead letter for %s: %s", self._job, place, reason)
        return 1
