"""Chunks of rows through a producer: bounded in memory, every failed row named, and no wait without an end.

It retries nothing that the producer gave up: a row that failed is kept for whoever sends it again. Where nothing more is accepted, or a
signal came, it reads no further, waits a bounded time for what is on its way, and says where it stopped.
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

PENDING_BYTES_MAX: Final = 64 * 1024 * 1024
TICK_S: Final = 0.2
REASONS_MAX: Final = 1_000


class InputBroken(Exception):
    """The input cannot be read any further."""


class Chunk(Protocol):
    """Rows of the input with their places. `bad`: place, bytes and reason of those that cannot be sent. `next`: the place behind them."""

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
    """Where failed rows are kept as they came."""

    def keep(self, chunk: Any, indexes: list[int]) -> None: ...
    def keep_raw(self, raw: bytes) -> None: ...


class Failure(msgspec.Struct, frozen=True):
    """One row that is not acknowledged. `persisted`: whether it may be in the log all the same."""

    number: int
    persisted: Persisted
    reason: str


class Outcome(msgspec.Struct):
    """What became of the input. `failures`: at most REASONS_MAX of them. `stopped`: why it was not read to its end, `next`: from where."""

    read: int = 0
    acknowledged: int = 0
    failed: int = 0
    maybe: int = 0
    failures: list[Failure] = []
    stopped: str = ""
    next: int = 1


class Sending:
    """One run. `patience_s`: how long without any row being accepted. `leave_s`: how long to wait for deliveries after a signal,
    `deliver_s`: how long a delivery may take. `place`: the topic and its address, for who is kept waiting."""

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
        """Where failed rows go."""
        self._sink = sink

    def run(self, chunks: Iterable[Chunk]) -> Outcome:
        """Everything, to its outcome."""
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
        """Have the producer take the rows; those that it does not take have failed."""
        begin, total = 0, len(chunk)
        alone = False  # one by one, to find the row that is refused
        progress_at = time.monotonic()
        while begin < total:
            end = begin + 1 if alone else total
            try:
                bulk = chunk.send(self._producer, self._topic, begin, end)
            except (RecordTooLarge, TypeError, ValueError) as error:  # too large, or a column's headers that are none
                # A chunk is checked whole before any of it is accepted.
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
        """Note every outcome that is there; wait for more while the rows in doubt are larger than that."""
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
        """Wait for what is on its way: until the delivery timeout has decided it, or, after a signal, for `leave_s`; after two, no more."""
        leave_at = float("inf")
        while self._pending:
            if self._stop.signal:
                if leave_at == float("inf"):
                    self.notice(f"stopping: {self._leave_s:g} s for what is on its way, or none after another Ctrl-C")
                leave_at = min(leave_at, time.monotonic() + self._leave_s)
            if self._stop.count > 1 or time.monotonic() >= leave_at:
                break
            with suppress(TimeoutError):
                self._pending[0][0].result(TICK_S)
            self._settle()
            self._say_that_it_waits()
            self.tick()
        with suppress(UndeliveredRecords):  # every one of them is told by its row
            self._producer.close(0 if self._pending else None)
        self._settle()

    def _moved(self) -> None:
        self._moved_at = time.monotonic()
        self._said = False

    def _say_that_it_waits(self) -> None:
        """Once, when nothing has been accepted or decided for a while."""
        if self._pending and not self._said and time.monotonic() - self._moved_at > waiting.SAY_AFTER_S:
            self._said = True
            count = sum(len(chunk) - begin for _, chunk, begin in self._pending)
            self.notice(f"still waiting for {self._place}: {count:,} records are on their way, each for at most {self._deliver_s:g} s")

    def _fail(self, failure: Failure) -> None:
        outcome = self.outcome
        outcome.failed += 1
        outcome.maybe += failure.persisted is not Persisted.NO
        if len(outcome.failures) < REASONS_MAX:
            outcome.failures.append(failure)
        self._told(failure)
