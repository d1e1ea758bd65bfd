"""How a member acquires fetched records: new ones become a batch in flight, known ones are handed out again.

Whole batches of the log are acquired, so the limit of records is not exact unless the member asks for that (KIP-1206). A record that was
delivered often is delivered in ever smaller batches, and the last time alone. No I/O and no clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fencepost.broker_stub.share_partitions.in_flight import InFlightBatch, Part
from fencepost.broker_stub.share_partitions.states import Acquired, Limits, RecordState
from fencepost.broker_stub.share_partitions.window import Window

LAST_CHANCE_FROM = 3
"""A record's last delivery is alone where it has at least so many."""


class Span(NamedTuple):
    """A batch of the log."""

    first: int
    last: int


class Wanted(NamedTuple):
    """How much a member acquires. `exact`: never more than `records_max`. `batch_size`: the best size of what is acquired together.

    With a `batch_size` below 1 the first piece may be empty, as in Kafka.
    """

    member: str
    records_max: int
    batch_size: int
    exact: bool = False


def acquire(window: Window, wanted: Wanted, spans: Sequence[Span], fetch_offset: int, limits: Limits, now_ms: int) -> list[Acquired]:
    """Acquires from the batches that were fetched at that offset."""
    if wanted.records_max <= 0 or not spans or spans[-1].last < window.start_offset:
        return []
    last, room = spans[-1].last, min(wanted.records_max, limits.locks_max - window.count)
    if room <= 0:  # only what is in flight can be acquired again
        room = min(wanted.records_max, window.end_offset - fetch_offset + 1) if fetch_offset <= window.end_offset else 0
        last = min(last, window.end_offset)
    if room <= 0:
        return []
    return _Acquisition(window, wanted, spans, limits, now_ms).run(fetch_offset, last, room)


class _Acquisition:
    """One run."""

    def __init__(self, window: Window, wanted: Wanted, spans: Sequence[Span], limits: Limits, now_ms: int) -> None:
        self._window = window
        self._wanted = wanted
        self._spans = spans
        self._limits = limits
        self._locked_until_ms = now_ms + limits.lock_ms
        self._acquired: list[Acquired] = []

    @property
    def _count(self) -> int:
        return sum(each.size for each in self._acquired)

    def run(self, fetch_offset: int, last: int, room: int) -> list[Acquired]:
        window, fetched = self._window, self._spans[0].first
        window.archive_stale(fetch_offset, fetched)
        before = window.floor(fetched)
        first = fetched
        if before is None:
            first = max(fetched, window.start_offset)
        elif before.last >= fetched:
            first = before.first
        known = window.between(min(fetched, first), last)
        if not known:
            self._new(first, last, room)
            return self._acquired
        unknown_from, end = first, known[-1].last
        for batch in known:
            if self._count >= room:
                break
            if window.has_gap:
                if unknown_from < batch.first:
                    self._new(unknown_from, batch.first - 1, room - self._count)
                unknown_from = batch.last + 1
                if self._count >= room:
                    break
            if self._known(batch, fetched, last, room):
                room = 0
                break
        if self._count < room and end < last:
            self._new(end + 1, last, room - self._count)
        if self._acquired:
            window.filled_until(self._acquired[-1].last + 1)
        return self._acquired

    def _known(self, batch: InFlightBatch, first: int, last: int, room: int) -> bool:
        """Hands out a known batch again. True: nothing more may follow, because it was delivered often."""
        limits, left = self._limits, room - self._count
        often = max((part.deliveries for part in batch.parts_in(first, last) if part.is_free), default=0) >= limits.throttled_from
        if often and self._acquired:
            return True
        too_many = self._wanted.exact and batch.last - batch.first + 1 > left
        if batch.is_within(first, last) and not batch.is_split and not too_many and not often:
            if batch.whole.is_free:
                self._hand_out(batch.whole)
                self._acquired.append(Acquired(batch.first, batch.last, batch.whole.deliveries))
            return False
        if not batch.is_split and not batch.whole.is_free:
            return False
        batch.split()
        found = self._parts(batch, first, last, left)
        self._acquired += _joined(found)
        return often and bool(found)

    def _parts(self, batch: InFlightBatch, first: int, last: int, left: int) -> list[Part]:
        """Hands out single records of a split batch."""
        limits, most = self._limits, left if self._wanted.exact else None
        alone_at = limits.deliveries_max if limits.deliveries_max >= LAST_CHANCE_FROM else None
        few: int | None = None
        found: list[Part] = []
        for part in batch.parts_in(first, last):
            if not part.is_free:
                continue
            if alone_at is not None and part.deliveries == alone_at - 1 and found:
                break
            if few is None and part.deliveries >= limits.throttled_from:
                few = max(1, len(batch.parts) >> (part.deliveries - limits.throttled_from + 1))
            self._hand_out(part)
            found.append(part)
            if part.deliveries == alone_at or len(found) in (most, few):
                break
        return found

    def _hand_out(self, part: Part) -> None:
        part.acquire(self._wanted.member, self._locked_until_ms)

    def _new(self, first: int, last: int, left: int) -> None:
        """Acquires records that are not in flight."""
        window = self._window
        if not window.batches:
            first = max(first, window.end_offset)
        if left < last - first + 1:
            end = self._end_of_span(first + left - 1)
            last = min(end, last) if window.has_gap else end
        acquired = self._cut(first, last)
        for each in acquired:
            if each.size:
                self._add(each, left)
        if window.batches[0].first == first:
            window.start_offset = first
        window.end_offset = max(window.end_offset, last)
        if self._wanted.exact:
            acquired = [Acquired(first, min(last, first + left - 1), 1)]
        self._acquired += acquired
        window.filled_until(acquired[-1].last + 1 if self._wanted.exact else last + 1)

    def _cut(self, first: int, last: int) -> list[Acquired]:
        """Into pieces of about the best size, at batches of the log."""
        cuts = [first]
        if not self._wanted.exact and last - first + 1 > self._wanted.batch_size:
            for span in self._spans:
                if span.first > last:
                    break
                if span.first - cuts[-1] >= self._wanted.batch_size:
                    cuts.append(span.first)
        return [Acquired(begin, end - 1, 1) for begin, end in zip(cuts, [*cuts[1:], last + 1], strict=True)]

    def _add(self, acquired: Acquired, left: int) -> None:
        """Puts a new batch in flight. An exact member gets only the first records of it."""
        batch = InFlightBatch(Part(acquired.first, acquired.last, RecordState.AVAILABLE, deliveries=0))
        if self._wanted.exact and acquired.size > left:
            batch.split()
        for part in batch.parts_in(acquired.first, acquired.first + left - 1) if batch.is_split else batch.parts:
            self._hand_out(part)
        self._window.add(batch)

    def _end_of_span(self, offset: int) -> int:
        """The last offset of the batch of the log that has this offset, or the offset itself."""
        before = [span for span in self._spans if span.first <= offset]
        return max(offset, before[-1].last) if before else offset


def _joined(parts: Sequence[Part]) -> list[Acquired]:
    """Records that follow each other, with the same delivery count, together."""
    joined: list[Acquired] = []
    for part in parts:
        if joined and joined[-1].last + 1 == part.first and joined[-1].deliveries == part.deliveries:
            joined[-1] = Acquired(joined[-1].first, part.last, part.deliveries)
        else:
            joined.append(Acquired(part.first, part.last, part.deliveries))
    return joined
