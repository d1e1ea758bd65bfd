"""Many records in one call: appended without an object for each, and followed as one.

A bulk's records share batches with other callers' records. For each batch, the bulk keeps the index of each of its rows, in eight bytes a
row, until the batch has its outcome. Then it keeps the offsets, or the failed rows. Rows count from 0 in the order of the call.

Compiled by mypyc.
"""

from __future__ import annotations

import concurrent.futures
import logging
from collections.abc import Generator
from typing import Any, Final, NoReturn, SupportsFloat

from mypy_extensions import i64

from fencepost.producer.accumulator.batch import INSIDE, Batch, Follower, Shared, Unread, deadline_after
from fencepost.producer.accumulator.concurrent_future import ConcurrentFuture
from fencepost.producer.accumulator.record_metadata import Deliveries
from fencepost.producer.errors import DeliveryError, Misuse, bound_to_process, plain
from fencepost.producer.foundations.condition import Condition
from fencepost.producer.foundations.runtime import BytesWriter, read_i64_le, write_i64_le
from fencepost.producer.foundations.timeouts import seconds

log = logging.getLogger("fencepost.producer")

ROW_MASK: Final[i64] = 0xFFFFFFFF


class BulkFuture:
    """The outcome of one `send_many` or `send_arrow`, now or later. `accepted`: the number of appended rows."""

    def __init__(self, shared: Shared, span_context: object = None) -> None:
        self.accepted = 0
        self._span_context = span_context
        # No more rows will follow. It is set without a call, at which Ctrl-C could strike, and before the caller has the future.
        self._whole = False
        self._shared = shared
        self._open_parts: dict[Part, None] = {}
        self._acknowledged: i64 = 0
        self._spans: dict[int, list[tuple[int, int]]] = {}
        self._failed: list[tuple[Batch, bytes]] = []
        self._looked = 0
        self._condition: Condition | None = None
        self._waiters: list[Any] = []

    def done(self) -> bool:
        """Whether every row has its outcome."""
        return self._whole and not self._open_parts

    def result(self, timeout: SupportsFloat | None = None) -> Deliveries:
        """The outcome of the rows. Waits up to `timeout` seconds for it (None: until the delivery deadline has decided all of them).

        The result contains failed deliveries; they are not raised. Raises TimeoutError if `timeout` passed first. Waiting sends the rows'
        batches without further lingering.
        """
        limit_s = seconds(timeout, self._shared.patience_s)
        if not self.done():
            self._wait(limit_s)
        self._note_read()
        return self._deliveries()

    def __await__(self) -> Generator[Any, None, Deliveries]:
        """`await bulk` is `result()` for asyncio, without a thread that waits."""
        awaited: Generator[Any, None, Deliveries] = self._shared.bulk_awaiter(self).__await__()
        return awaited

    def concurrent(self) -> concurrent.futures.Future[Deliveries]:
        """A `concurrent.futures.Future` with `result()`, for `concurrent.futures.wait` and `as_completed`."""
        followed: concurrent.futures.Future[Deliveries] = ConcurrentFuture(self._note_read)
        self._tell(Unread(lambda settled: followed.set_result(settled._deliveries())))
        return followed

    def __repr__(self) -> str:
        failed = sum(len(pairs) // 8 for _, pairs in list(self._failed))
        open_rows = int(self.accepted - self._acknowledged - failed)
        state = "done" if self.done() else "pending"
        return f"BulkFuture({state}, acknowledged={int(self._acknowledged)}, failed={failed}, open={open_rows})"

    def __reduce__(self) -> NoReturn:
        raise bound_to_process("BulkFuture", "pass on what its result() returns")

    def add_done_callback(self, callback: Any) -> None:
        """Run `callback(self)` on the sender thread once every row has its outcome, or here at once if all have. What it raises is logged
        and not raised."""
        self._shared.refuse_after_fork()
        if self._shared.inside():
            raise Misuse(INSIDE)
        with self._shared.region:
            waits = not self.done()
            if waits:
                self._waiters.append(callback)
        if not waits:
            self._run(callback)

    def _tell(self, onlooker: Unread) -> None:
        """The same for a callback of this package."""
        self.add_done_callback(onlooker)

    # -- appending -------------------------------------------------------------------------------------------------------

    def _part_of(self, batch: Batch) -> Part:
        """The bulk's part of a batch, begun if there is none. The caller holds the lock."""
        newest = batch.newest_follower
        if isinstance(newest, Part) and newest.bulk is self:
            return newest
        part = Part(self, batch)
        batch.follow(part)
        self._open_parts[part] = None
        return part

    def _give_up(self, part: Part) -> None:
        """Remove the newest part of its batch, which got no row. The caller holds the lock."""
        self._open_parts.pop(part, None)
        part.batch.follow_no_more(part)

    # -- outcomes --------------------------------------------------------------------------------------------------------

    def _settled(self, part: Part, pairs: bytes) -> None:
        """A part's batch has its outcome."""
        batch = part.batch
        with self._shared.region:
            del self._open_parts[part]
            if batch.failure is not None:
                self._failed.append((batch, pairs))
            else:
                self._acknowledged += part.count
                if batch.base_offset >= 0:
                    self._note_offsets(batch, pairs)
            over = self.done()
        if over:
            self._over()

    def _moved(self, part: Part, parts: list[Part]) -> None:
        """A part's batch was split. The caller holds the lock."""
        for each in parts:
            self._open_parts[each] = None
        del self._open_parts[part]  # Last: `done` looks without the lock, and must not find no part in between.

    def _note_offsets(self, batch: Batch, pairs: bytes) -> None:
        spans = self._spans.setdefault(int(batch.partition), [])
        end: i64 = len(pairs)
        place: i64 = 0
        begun: i64 = -1
        last: i64 = -2
        first: i64 = read_i64_le(pairs, 0) >> 32
        if ((read_i64_le(pairs, end - 8) >> 32) - first) << 3 == end - 8:
            # No other caller's records lie between them: the indices grow, and span as many places as there are rows.
            begun, last, place = batch.base_offset + first, batch.base_offset + first + (end >> 3) - 1, end
        while place < end:
            offset: i64 = batch.base_offset + (read_i64_le(pairs, place) >> 32)
            place += 8
            if offset != last + 1:
                if begun >= 0:
                    spans.append((int(begun), int(last)))
                begun = offset
            last = offset
        spans.append((int(begun), int(last)))

    def _over(self) -> None:
        with self._shared.region:
            condition, waiters = self._condition, self._waiters
            self._condition, self._waiters = None, []
        if condition is not None:
            condition.notify_all()
        for waiter in waiters:
            self._run(waiter)

    def _run(self, callback: Any) -> None:
        try:
            callback(self)
            self._shared.came_back()
        except BaseException as error:
            self._shared.came_back(error)
            log.exception("a callback of a bulk raised")
            self._shared.pass_on(error)

    def _note_read(self) -> None:
        """The program has read the outcomes so far, so `flush` and `close` need not report the failures among them."""
        if self._shared.inside():
            raise Misuse(INSIDE)
        with self._shared.region:
            for batch, pairs in self._failed[self._looked :]:
                batch.unseen -= len(pairs) // 8
            self._looked = len(self._failed)

    def _deliveries(self) -> Deliveries:
        if self._shared.inside():
            raise Misuse(INSIDE)
        with self._shared.region:
            failed = list(self._failed)
            acknowledged = int(self._acknowledged)
            spans = {partition: list(found) for partition, found in sorted(self._spans.items())}
        # After the lock is released, because this takes time for each row, and the sender thread waits for the lock.
        failures: dict[int, DeliveryError] = {}
        for batch, pairs in failed:
            assert batch.failure is not None
            error = batch.failure.again()
            for place in range(0, len(pairs), 8):
                failures[read_i64_le(pairs, place) & ROW_MASK] = error
        offsets = {partition: joined(found) for partition, found in spans.items()}
        return Deliveries(acknowledged, offsets, dict(sorted(failures.items())))

    def _hasten(self) -> None:
        """Have the batches sent without further lingering, because a caller waits."""
        with self._shared.region:
            batches = [part.batch for part in self._open_parts]
        self._shared.hasten(batches)

    def _wait(self, limit_s: float) -> None:
        shared = self._shared
        shared.refuse_after_fork()
        refusal = shared.why_no_wait("waiting for deliveries")
        if refusal:
            raise Misuse(refusal)
        deadline = deadline_after(limit_s)
        self._hasten()
        with shared.region:
            if self.done():
                return
            condition = self._condition
            if condition is None:
                condition = self._condition = Condition()
        if not condition.wait(None, deadline) and not self.done():
            raise TimeoutError(f"not every row has its outcome within {plain(limit_s)} s; they are still on their way")


class Part(Follower):
    """The rows of one bulk in one batch."""

    def __init__(self, bulk: BulkFuture, batch: Batch) -> None:
        self.bulk = bulk
        self.batch = batch
        self.count: i64 = 0
        self._pairs = BytesWriter()

    def add(self, index: i64, row: i64) -> None:
        """Note the index of a row in the batch."""
        write_i64_le(self._pairs, index << 32 | row)
        self.count += 1

    def extend(self, pairs: bytes, count: i64) -> None:
        """Note the indices of many rows: pairs as `add` writes them."""
        self._pairs.write(pairs)
        self.count += count

    def take_back(self, count: i64) -> None:
        """Keep only the first `count` rows: the others did not come into the batch."""
        self._pairs.truncate(count << 3)
        self.count = count
        if count == 0:
            self.bulk._give_up(self)

    def span_context(self) -> object:
        return self.bulk._span_context

    def settle(self) -> None:
        self.bulk._settled(self, self._pairs.getvalue())

    def move(self, pieces: list[Batch]) -> None:
        pairs = self._pairs.getvalue()
        place: i64 = 0
        end: i64 = len(pairs)
        first: i64 = 0
        parts: list[Part] = []
        for piece in pieces:
            part = Part(self.bulk, piece)
            while place < end:
                pair: i64 = read_i64_le(pairs, place)
                if (pair >> 32) - first >= piece.count:
                    break
                part.add((pair >> 32) - first, pair & ROW_MASK)
                place += 8
            first += piece.count
            if part.count > 0:
                piece.follow(part)
                parts.append(part)
        self.bulk._moved(self, parts)


def joined(spans: list[tuple[int, int]]) -> list[range]:
    """(first, last) pairs as ranges. Adjacent ones are joined."""
    ranges: list[range] = []
    for first, last in sorted(spans):
        if ranges and ranges[-1].stop == first:
            ranges[-1] = range(ranges[-1].start, last + 1)
        else:
            ranges.append(range(first, last + 1))
    return ranges


def unread_outcome(bulk: BulkFuture) -> Deliveries:
    """The outcome of the rows so far. That does not count as reading it: `flush` and `close` report failures."""
    return bulk._deliveries()
