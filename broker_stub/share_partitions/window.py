"""The window of a share partition: from its start offset, below which every record is done, to its end offset, and the batches between.

It says what to fetch next, and moves the start. After a leader has moved there may be a gap: records that were handed out before and of
which the share coordinator knows nothing. They are fetched again. No I/O and no clock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter

from fencepost.broker_stub.share_partitions.in_flight import InFlightBatch, Part
from fencepost.broker_stub.share_partitions.states import NO_OFFSET, RecordState, StateBatch

_first = attrgetter("first")


class Window:
    """The batches in flight, in order. `state`: what the share coordinator knew when this leader began."""

    def __init__(self, start_offset: int, state: Iterable[StateBatch] = ()) -> None:
        self.start_offset = start_offset
        self.batches: list[InFlightBatch] = []
        self._gap_start: int | None = None
        self._gap_end = NO_OFFSET
        expected = start_offset
        for each in state:
            if self._gap_start is None and each.first > expected:
                self._gap_start = expected
            expected = each.last + 1
            self.batches.append(InFlightBatch(Part(each.first, each.last, RecordState(each.state), deliveries=each.deliveries)))
        self.end_offset = self.batches[-1].last if self.batches else start_offset
        self._gap_end = self.end_offset
        self.advance()

    # What is where

    @property
    def has_gap(self) -> bool:
        """Whether records before the end may be unknown."""
        return self._gap_start is not None and self._gap_end == self.end_offset

    @property
    def count(self) -> int:
        """How many records are in flight, done ones among them."""
        return self.end_offset - self.start_offset + 1 if self.batches else 0

    @property
    def done_count(self) -> int:
        """How many records from the start on are done (KIP-1226)."""
        return sum(
            part.last - max(part.first, self.start_offset) + 1
            for batch in self.batches
            for part in batch.parts
            if part.state.is_terminal and part.last >= self.start_offset
        )

    @property
    def next_fetch_offset(self) -> int:
        """The first record that can be acquired, or the one after the end."""
        if not self.batches or self.start_offset > self.batches[-1].last:
            return self.end_offset
        gap = self._gap_start if self.has_gap else None
        for batch in self.batches:
            if gap is not None:
                if batch.first > gap:
                    return gap
                gap = max(batch.last + 1, gap)
            free = next((part.first for part in batch.parts if part.is_free), None)
            if free is not None:
                return free
        return self.end_offset + 1

    def can_acquire(self, locks_max: int) -> bool:
        """Whether there may be something to acquire: a record between, or room for one after the end."""
        return self.next_fetch_offset != self.end_offset + 1 or self.count < locks_max

    def floor(self, offset: int) -> InFlightBatch | None:
        """The last batch that begins at or before that offset."""
        at = bisect_right(self.batches, offset, key=_first)
        return self.batches[at - 1] if at else None

    def between(self, first: int, last: int) -> Sequence[InFlightBatch]:
        """The batches that begin in that range."""
        return self.batches[bisect_left(self.batches, first, key=_first) : bisect_right(self.batches, last, key=_first)]

    # Changes

    def add(self, batch: InFlightBatch) -> None:
        at = bisect_left(self.batches, batch.first, key=_first)
        assert at == len(self.batches) or self.batches[at].first > batch.last
        assert at == 0 or self.batches[at - 1].last < batch.first
        self.batches.insert(at, batch)

    def filled_until(self, offset: int) -> None:
        """Everything before that offset is known now."""
        if self._gap_start is not None:
            self._gap_start = offset if self.has_gap and offset <= self._gap_end else None

    def advance(self) -> bool:
        """Moves the start past the records that are done. Returns whether it could."""
        if not self._start_is_done():
            return False
        last = self._last_done()
        if last == NO_OFFSET:
            return False
        if last == self.batches[-1].last:
            self.batches.clear()
            self.start_offset = self.end_offset = last + 1
            return True
        at = bisect_right(self.batches, last, key=_first) - 1
        if last == self.batches[at].last:
            at += 1
            self.start_offset = max(self.start_offset, self.batches[at].first)
            if self.has_gap and self._gap_start is not None:
                self.start_offset = min(self._gap_start, self.start_offset)
        else:
            self.start_offset = max(self.start_offset, last + 1)
        del self.batches[:at]
        return True

    def move_start(self, log_start_offset: int) -> None:
        """The log begins later now. What was available before is archived; what a member has is, when its lock ends."""
        if log_start_offset <= self.start_offset:
            return
        if self.batches:
            self.archive(self.start_offset, log_start_offset - 1, self.batches, RecordState.AVAILABLE)
            self.end_offset = max(self.end_offset, log_start_offset)
        else:
            self.end_offset = log_start_offset
        self.start_offset = log_start_offset

    def archive(self, first: int, last: int, batches: Iterable[InFlightBatch], state: RecordState) -> None:
        """Archives the records in that range that have this state."""
        for batch in batches:
            if batch.first > last:
                break
            if not batch.is_split and batch.whole.state is not state:
                continue
            if not batch.is_within(first, last):
                batch.split()
            for part in batch.parts_in(first, last):
                if part.state is state:
                    part.archive()

    def archive_stale(self, fetch_offset: int, found_offset: int) -> None:
        """The log has nothing from the fetched offset to the found one any more: compaction has removed it."""
        if fetch_offset >= found_offset:
            return
        before = self.floor(fetch_offset)
        begin = before.first if before is not None and before.last >= fetch_offset else fetch_offset
        self.archive(fetch_offset, found_offset - 1, self.between(begin, found_offset - 1), RecordState.AVAILABLE)

    def _start_is_done(self) -> bool:
        batch = self.floor(self.start_offset)
        if batch is None:
            return False  # the start is in a gap
        part = next((part for part in batch.parts if part.first <= self.start_offset <= part.last), batch.parts[-1])
        return part.is_done

    def _last_done(self) -> int:
        """The last record before the first one that is not done."""
        last = NO_OFFSET
        for batch in self.batches:
            if self.has_gap and self._gap_start is not None and batch.last >= self._gap_start:
                return last
            for part in batch.parts:
                if not part.is_done:
                    return last
                last = part.last
        return last
