"""The job's program: read, transform, write and commit, until the source ends.

It is written once, as coroutines, for both jobs (`fencepost.txn.loop.calls`). `transactions` registers, reads the position and commits.
After every abort the source is opened again at the position of the last commit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from fencepost.producer.errors import TopicUnavailable
from fencepost.txn.errors import TransactionTimeout
from fencepost.txn.files.errors import BadInput, InputBroken
from fencepost.txn.jobs.applying import Transform
from fencepost.txn.jobs.batch import Batch
from fencepost.txn.jobs.errors import BadRecord, JobFailed
from fencepost.txn.jobs.positions import Positions
from fencepost.txn.jobs.settings import JobSettings
from fencepost.txn.jobs.source import ItemSource, Piece, PieceSource, kind_of, pieces_of
from fencepost.txn.jobs.stats import Counters
from fencepost.txn.jobs.transactions import OF_TRANSACTION, Transactions
from fencepost.txn.jobs.writing import Writer
from fencepost.txn.keyed_topic.errors import LedgerUnavailable
from fencepost.txn.loop.calls import Calls
from fencepost.txn.loop.patience import Patience

log = logging.getLogger("fencepost.job")

TOO_LATE: Final = (TransactionTimeout, TopicUnavailable, LedgerUnavailable)
"""The time of a call has passed, and nothing is decided."""
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
        self._name = f"job {name!r}"
        self._source = source
        self._settings = settings
        self._counters = counters
        self._calls = calls
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
        self._transactions = Transactions(name, kind_of(source), settings, own, positions, counters, calls, self._patience, make_producer)
        function = settings.transform or _transform_of(source)
        transform = Transform(function, settings, calls, counters, self._patience.run_left_s) if function is not None else None
        self._is_plain = transform is None
        self._writer = Writer(name, settings, transform, calls, self._transactions)
        self._pieces: Iterator[Piece | None] | None = None
        self._goal: int | None = None

    @property
    def position(self) -> Any:
        """The position of the last commit."""
        return self._transactions.position

    # -- the program -----------------------------------------------------------------------------------------------------

    async def run(self, *, ends_at: float, batches: int | None) -> bool:
        """Run until the source ends, the job is stopped, the time has come, or so many transactions are committed. Returns whether the
        source has ended."""
        self._goal = None if batches is None else self._counters.batches + batches
        self._patience.begin(ends_at)
        if not self._transactions.producer.is_made:
            with self._patience.opening():
                await self._transactions.open()
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
        self._patience.stop_now()
        try:
            await self._close_source()
        finally:
            try:
                await self._transactions.close(failed=failed)
            finally:
                await self._calls.close()

    async def _reopen(self) -> None:
        """Open the source at the position of the last commit."""
        await self._close_source()
        self._writer.bad = None  # It comes again.
        if isinstance(self._source, PieceSource):
            self._pieces = self._source.pieces(self._transactions.position, plain=self._is_plain)
        else:
            self._pieces = pieces_of(self._source, self._transactions.position)

    async def _close_source(self) -> None:
        close = getattr(self._pieces, "close", None)
        try:
            if close is not None:
                await self._calls.ask(close)
        except Exception:
            self._pieces = None  # After Ctrl-C it stays, and is closed again.
            raise
        self._pieces = None

    def _goes_on(self) -> bool:
        return self._patience.run_left_s() > 0.0 and (self._goal is None or self._counters.batches < self._goal)

    async def _step(self) -> bool:
        """One piece of the source, and what becomes of it. Returns whether the source has ended."""
        assert self._pieces is not None
        try:
            piece: Any = await self._calls.ask(next, self._pieces, END)
        except Exception as error:
            # What came before is whole.
            if not await self._finish():
                return False  # The source is open at the last commit, and raises again if the cause has not passed.
            if isinstance(error, BadInput | InputBroken):
                raise JobFailed(f"{error}. Everything before is committed") from error
            raise
        if piece is END:
            return True
        if piece is not None:
            await self._take(piece)
        batch = self._transactions.batch
        if batch is not None and (piece is None or self._is_due(batch)):
            await self._finish()
        self._raise_bad()
        if self._counters.due:
            self._counters.tell(self._name)
        return False

    async def _take(self, piece: Piece) -> None:
        """Write a piece, in as many transactions as it takes. Left unfinished if a transaction is aborted: then the source is open at the
        position of the last commit."""
        transactions, writer = self._transactions, self._writer
        bad = list(piece.bad)
        stop = bad[0] if bad and self._settings.dead_letters is None else None
        index, end = 0, len(piece.items) if stop is None else stop.after

        def position_at(index: int) -> Callable[[], Any]:
            return bad[0].before if bad and bad[0].after == index else partial(piece.before, index)

        while (index < end or (bad and stop is None)) and writer.bad is None and self._goes_on():
            batch = transactions.batch or await transactions.begin(piece.place(index) if index < end else bad[0].place)
            if batch is None:
                await self._reopen()
                return
            room = transactions.size - batch.read
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
                await transactions.abort(error)
                await self._reopen()
                return
            if self._is_due(batch) and not await self._finish():
                return
        if stop is not None and index == end and writer.bad is None and self._goes_on():
            writer.bad = BadRecord(stop.reason, place=stop.place)

    async def _finish(self) -> bool:
        """Commit the open batch. If it is aborted instead, open the source at the last commit, and return False."""
        is_committed = await self._transactions.finish()
        if not is_committed:
            await self._reopen()
        return is_committed

    def _is_due(self, batch: Batch) -> bool:
        return batch.read >= self._transactions.size or time.monotonic() >= batch.ends_at or self._writer.bad is not None

    def _raise_bad(self) -> None:
        error = self._writer.bad
        if error is not None and self._transactions.batch is None:
            self._writer.bad = None
            raise error


def _transform_of(source: Any) -> Callable[[Any], Any] | None:
    """What makes records of the items of that source. None: its pieces are rows to send as they are."""
    if isinstance(source, ItemSource):
        return source.to_record
    return None if isinstance(source, PieceSource) else _as_it_is


def _as_it_is(record: Any) -> Any:
    return record
