"""Sends chunks of rows through a producer: with bounded memory, a report of every failed row, and a deadline for every wait.

It does not retry a row that the producer failed. It can write such rows to a file, from which they can be sent again. If the producer
accepts no more rows, or after a signal, it stops reading. It then waits a limited time for the rows in flight, and reports where it
stopped.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

import msgspec

from fencepost.cli import waiting
from fencepost.cli.stopping import Stop
from fencepost.producer import BufferFull, BulkFuture, FencepostError, Persisted, Producer, RecordTooLarge, UndeliveredRecords
from fencepost.producer.foundations.counted import counted
from fencepost.txn.files.errors import InputBroken

PENDING_BYTES_MAX: Final = 64 * 1024 * 1024
TICK_S: Final = 0.2
REASONS_MAX: Final = 1_000


class Chunk(Protocol):
    """Rows of the input with their places. `bad`: place, bytes and reason of rows that cannot be sent. `next`: the place after the
    chunk."""

    unit: str
    size: int
    next: int

    @property
    def bad(self) -> Sequence[tuple[int, bytes, str]]: ...
    @property
    def numbers(self) -> Sequence[int]: ...
    def __len__(self) -> int: ...
    def send(self, producer: Producer, topic: str, begin: int, end: int) -> BulkFuture: ...


class Sink(Protocol):
    """A file for the original bytes of failed rows."""

    def keep(self, chunk: Any, indexes: list[int]) -> None: ...
    def keep_raw(self, raw: bytes) -> None: ...


class Failure(msgspec.Struct, frozen=True):
    """One row that is not acknowledged. `persisted`: whether it may be in the log all the same."""

    number: int
    persisted: Persisted
    reason: str


class Outcome(msgspec.Struct):
    """The result of the run. `failures`: at most REASONS_MAX. `stopped`: why the input was not read to its end; `next`: the first place
    that was not read."""

    read: int = 0
    acknowledged: int = 0
    failed: int = 0
    maybe: int = 0
    failures: list[Failure] = []
    stopped: str = ""
    next: int = 1


class Sending:
    """One run. `patience_s`: how long the producer may accept no row. `leave_s`: how long to wait for deliveries after a signal.
    `deliver_s`: how long a delivery may take. `place`: the topic and its address, for the line that says what the command waits for."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        *,
        stop: Stop,
        patience_s: float,
        leave_s: float,
        deliver_s: float,
        place: str,
        told: Callable[[Failure], None] = lambda failure: None,
    ) -> None:
        self.outcome = Outcome()
        self.tick: Callable[[], None] = lambda: None
        self.notice: Callable[[str], None] = lambda words: None
        self._producer = producer
        self._topic = topic
        self._stop = stop
        self._patience_s = patience_s
        self._leave_s = leave_s
        self._deliver_s = deliver_s
        self._place = place
        self._moved_at = time.monotonic()
        self._said = False
        self._sink: Sink | None = None
        self._told = told
        self._pending: deque[tuple[BulkFuture, Chunk, int]] = deque()
        self._pending_bytes = 0

    def keep_in(self, sink: Sink | None) -> None:
        """Set the file for failed rows."""
        self._sink = sink

    def run(self, chunks: Iterable[Chunk]) -> Outcome:
        """Send all chunks, and wait for their outcomes."""
        outcome = self.outcome
        for chunk in self._readable(chunks):
            outcome.read += len(chunk) + len(chunk.bad)
            outcome.next = chunk.next
            for number, raw, reason in chunk.bad:
                self._fail(Failure(number, Persisted.NO, reason))
                if self._sink is not None:
                    self._sink.keep_raw(raw)
            self._accept(chunk)
            self._settle(bytes_max=PENDING_BYTES_MAX)
            self.tick()
            if outcome.stopped:
                break
        if self._stop.signal and not outcome.stopped:
            outcome.stopped = "interrupted"
        self._finish()
        return outcome

    def _readable(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        try:
            yield from chunks
        except (InputBroken, OSError) as error:
            self.outcome.stopped = str(error)

    # -- accepting -------------------------------------------------------------------------------------------------------

    def _accept(self, chunk: Chunk) -> None:
        """Pass the rows to the producer. Rows that it refuses have failed."""
        begin, total = 0, len(chunk)
        alone = False  # send rows one by one, to find the refused row
        progress_at = time.monotonic()
        while begin < total:
            end = begin + 1 if alone else total
            try:
                bulk = chunk.send(self._producer, self._topic, begin, end)
            except (RecordTooLarge, TypeError, ValueError) as error:  # too large, or a column that has no valid headers
                # The producer checks the whole chunk before it accepts any row.
                if not alone:
                    alone = True
                    continue
                self._refuse(chunk, begin, end, str(error).removeprefix("row 0: "))
                begin = end
                continue
            except BufferFull as error:
                bulk = error.sent  # type: ignore[attr-defined]  # documented
                if not bulk.accepted and time.monotonic() - progress_at > self._patience_s:
                    self.outcome.stopped = f"nothing could be accepted for {self._patience_s:g} s: {error}"
            except FencepostError as error:
                bulk = error.sent  # type: ignore[attr-defined]  # documented
                self.outcome.stopped = str(error)
            if bulk.accepted:
                progress_at = time.monotonic()
                self._moved()
                self._pending.append((bulk, chunk, begin))
                self._pending_bytes += chunk.size
                begin += bulk.accepted
            if begin < total and (self.outcome.stopped or self._stop.signal):
                self._refuse(chunk, begin, total, f"not sent: {self.outcome.stopped or 'interrupted'}")
                return
            self._settle()
            self._say_that_it_waits()
            self.tick()

    def _refuse(self, chunk: Chunk, begin: int, end: int, reason: str) -> None:
        for index in range(begin, end):
            self._fail(Failure(chunk.numbers[index], Persisted.NO, reason))
        if self._sink is not None:
            self._sink.keep(chunk, list(range(begin, end)))

    # -- outcomes --------------------------------------------------------------------------------------------------------

    def _settle(self, *, bytes_max: int | None = None) -> None:
        """Take every available outcome. Wait for more while the rows without one exceed `bytes_max`."""
        while self._pending:
            bulk, chunk, begin = self._pending[0]
            if not bulk.done():
                if bytes_max is None or self._pending_bytes <= bytes_max or self._stop.signal:
                    return
                with suppress(TimeoutError):
                    bulk.result(TICK_S)
                self._say_that_it_waits()
                self.tick()
                continue
            self._moved()
            self._pending.popleft()
            self._pending_bytes -= chunk.size
            deliveries = bulk.result(0)
            self.outcome.acknowledged += deliveries.acknowledged
            for row, error in deliveries.failures.items():
                self._fail(Failure(chunk.numbers[begin + row], error.persisted, str(error)))
            if deliveries.failures and self._sink is not None:
                self._sink.keep(chunk, [begin + row for row in deliveries.failures])

    def _finish(self) -> None:
        """Wait for the rows in flight: until the delivery timeout, or for `leave_s` after a signal. After a second signal do not wait."""
        leave_at = float("inf")
        while self._pending:
            if self._stop.signal:
                if leave_at == float("inf"):
                    self.notice(f"stopping: waiting up to {self._leave_s:g} s for records in flight; press Ctrl-C again to stop at once")
                leave_at = min(leave_at, time.monotonic() + self._leave_s)
            if self._stop.count > 1 or time.monotonic() >= leave_at:
                break
            with suppress(TimeoutError):
                self._pending[0][0].result(TICK_S)
            self._settle()
            self._say_that_it_waits()
            self.tick()
        with suppress(UndeliveredRecords):  # the report names each of them by its row
            self._producer.close(0 if self._pending else None)
        self._settle()

    def _moved(self) -> None:
        self._moved_at = time.monotonic()
        self._said = False

    def _say_that_it_waits(self) -> None:
        """Print one line when no row was accepted or decided for a while."""
        if self._pending and not self._said and time.monotonic() - self._moved_at > waiting.SAY_AFTER_S:
            self._said = True
            count = sum(len(chunk) - begin for _, chunk, begin in self._pending)
            records = counted(count, "record is", "records are", spec=",")
            self.notice(f"still waiting for {self._place}: {records} in flight, each for at most {self._deliver_s:g} s")

    def _fail(self, failure: Failure) -> None:
        outcome = self.outcome
        outcome.failed += 1
        outcome.maybe += failure.persisted is not Persisted.NO
        if len(outcome.failures) < REASONS_MAX:
            outcome.failures.append(failure)
        self._told(failure)
