"""A share partition: one partition as one share group sees it, at the partition's leader (Kafka's SharePartition, KIP-932).

Members acquire records for a while, and say what became of them. What they say is kept by the share coordinator first; until then it is
pending. It does no I/O and reads no clock: the caller fetches, keeps what a `Write` says, and passes the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from fencepost.broker_stub.share_partitions.aborted import AbortedTransaction, LogBatch, aborted_batches, without
from fencepost.broker_stub.share_partitions.acquisition import Span, Wanted, acquire
from fencepost.broker_stub.share_partitions.in_flight import InFlightBatch, Part
from fencepost.broker_stub.share_partitions.states import (
    RENEW,
    STATE_AFTER,
    Acknowledgement,
    Acquired,
    Limits,
    RecordState,
    ShareRefused,
    StateBatch,
)
from fencepost.broker_stub.share_partitions.window import Window
from fencepost.producer.wire import ErrorCode

COUNT_MAX = 2**31 - 1  # what its record has room for
NOT_THE_OWNER = "Member is not the owner of"
NOT_FOUND = "Batch record not found."
IS_PENDING = "The record state is invalid. The acknowledgement of delivery could not be completed."


class Write(NamedTuple):
    """What the share coordinator has to keep, and the records that wait for it."""

    batches: tuple[StateBatch, ...]
    start_offset: int
    done_count: int
    parts: tuple[Part, ...] = ()


class SharePartition:
    """See the module. `state`: what the share coordinator had. A start offset is always known: the caller has found one."""

    def __init__(self, start_offset: int, state: Iterable[StateBatch] = ()) -> None:
        self.window = Window(start_offset, state)

    # Fetching

    def acquire(
        self,
        wanted: Wanted,
        batches: Sequence[LogBatch],
        fetch_offset: int,
        *,
        limits: Limits,
        now_ms: int,
        aborted: Sequence[AbortedTransaction] = (),
    ) -> list[Acquired]:
        """Acquires from batches that were fetched at that offset. `aborted`: of a group that reads only committed records."""
        spans = [Span(each.first, each.last) for each in batches]
        acquired = acquire(self.window, wanted, spans, fetch_offset, limits, now_ms)
        gone = aborted_batches(batches, aborted) if aborted and acquired else []
        for each in gone:
            before = self.window.floor(each.first)
            begin = before.first if before is not None else each.first
            self.window.archive(each.first, each.last, self.window.between(begin, each.last), RecordState.ACQUIRED)
        return without(acquired, gone)

    # What members say

    def acknowledge(self, member: str, acknowledgements: Sequence[Acknowledgement], *, limits: Limits, now_ms: int) -> Write:
        """Begins what the acknowledgements say, all or nothing, but a lock that was renewed before the refusal stays renewed, as in Kafka.
        Raises ShareRefused. The caller has checked their form."""
        changed: list[Part] = []
        try:
            for each in acknowledgements:
                if each.last >= self.window.start_offset:
                    self._acknowledge(member, each, limits, now_ms, changed)
        except ShareRefused:
            for part in changed:
                part.complete(committed=False, now_ms=now_ms)
            raise
        return self._write(changed)

    def release(self, member: str, *, limits: Limits) -> Write:
        """Begins to release everything that the member has: its share session is over."""
        changed: list[Part] = []
        for batch in self.window.batches:
            self._split_at_start(batch, member)
            for part in batch.parts:
                if part.state is RecordState.ACQUIRED and part.member == member:
                    part.begin(self._without_lock(part), limits.deliveries_max)
                    changed.append(part)
        return self._write(changed)

    def complete(self, write: Write, *, committed: bool, now_ms: int) -> bool:
        """The share coordinator has kept it, or not. Returns whether the start has moved."""
        for part in write.parts:
            part.complete(committed=committed, now_ms=now_ms)
        return committed and self.window.advance()

    # Locks

    @property
    def next_expiry_ms(self) -> int | None:
        """When the next lock ends."""
        return min((part.locked_until_ms for part in self._acquired() if part.locked_until_ms is not None), default=None)

    def expire(self, *, limits: Limits, now_ms: int) -> Write:
        """Ends the locks whose time is over. This needs no completion, but it is kept, and the start may move then."""
        changed: list[Part] = []
        for batch in self.window.batches:
            if not any(_is_over(part, now_ms) for part in batch.parts):
                continue
            self._split_at_start(batch)
            for part in batch.parts:
                if _is_over(part, now_ms):
                    part.end(self._without_lock(part), limits.deliveries_max)
                    part.locked_until_ms = None
                    changed.append(part)
        return self._write(changed)._replace(parts=())

    def _acknowledge(self, member: str, asked: Acknowledgement, limits: Limits, now_ms: int, changed: list[Part]) -> None:
        for batch in self._named(asked):
            if batch.last < self.window.start_offset:
                continue
            if not batch.is_split:
                _check_whole(batch.whole, member)
                is_whole = batch.is_within(asked.first, asked.last) and len(asked.types) == 1 and batch.first >= self.window.start_offset
                if batch.whole.state is not RecordState.ACQUIRED:
                    about = "batch is" if is_whole else "subset batch is"
                    raise _invalid(f"The batch cannot be acknowledged. The {about} not in the acquired state.")
                if not is_whole:
                    batch.split()
            for part in batch.parts_in(max(asked.first, self.window.start_offset), asked.last):
                if batch.is_split:
                    _check_record(part, member)
                kind = asked.type_of(part.first) if batch.is_split else asked.types[0]
                if kind != RENEW:
                    part.begin(STATE_AFTER[kind], limits.deliveries_max)
                    changed.append(part)
                elif limits.renews:
                    part.locked_until_ms = now_ms + limits.lock_ms
                else:
                    raise _invalid("Renewing acquisition locks is not enabled for the group.")

    def _named(self, asked: Acknowledgement) -> Sequence[InFlightBatch]:
        """The batches that an acknowledgement is about."""
        window = self.window
        begin = window.floor(asked.first)
        if begin is None and asked.first < window.start_offset <= asked.last:
            begin = window.floor(window.start_offset)
        if begin is None:
            raise _invalid(f"{NOT_FOUND} The request batch offsets are not found in the cache.")
        found = window.between(begin.first, asked.last)
        if found[-1].last < asked.first:
            raise ShareRefused(ErrorCode.INVALID_REQUEST, f"{NOT_FOUND} The first offset in request is past acquired records.")
        if found[-1].last < asked.last:
            raise ShareRefused(ErrorCode.INVALID_REQUEST, f"{NOT_FOUND} The last offset in request is past acquired records.")
        return found

    def _split_at_start(self, batch: InFlightBatch, member: str | None = None) -> None:
        """The records before the start are archived when their lock ends, and the others become available."""
        if batch.is_split or not batch.first < self.window.start_offset <= batch.last:
            return
        if batch.whole.state is RecordState.ACQUIRED and member in (None, batch.whole.member):
            batch.split()

    def _without_lock(self, part: Part) -> RecordState:
        return RecordState.ARCHIVED if part.last < self.window.start_offset else RecordState.AVAILABLE

    def _acquired(self) -> Iterator[Part]:
        return (part for batch in self.window.batches for part in batch.parts if part.state is RecordState.ACQUIRED)

    def _write(self, changed: Sequence[Part]) -> Write:
        batches = tuple(part.state_batch() for part in changed)
        return Write(batches, self.window.start_offset, min(self.window.done_count, COUNT_MAX), tuple(changed))


def _is_over(part: Part, now_ms: int) -> bool:
    return part.state is RecordState.ACQUIRED and part.locked_until_ms is not None and part.locked_until_ms <= now_ms


def _check_whole(part: Part, member: str) -> None:
    if not part.member:
        raise _invalid("The batch cannot be acknowledged. The batch is not in the acquired state.")
    if part.member != member:
        raise _invalid(f"{NOT_THE_OWNER} batch record")
    if part.is_pending:
        raise _invalid(IS_PENDING)


def _check_record(part: Part, member: str) -> None:
    if part.state is not RecordState.ACQUIRED:
        raise _invalid("The offset cannot be acknowledged. The offset is not acquired.")
    if part.is_pending:
        raise _invalid(IS_PENDING)
    if part.member != member:
        raise _invalid(f"{NOT_THE_OWNER} offset")


def _invalid(message: str) -> ShareRefused:
    return ShareRefused(ErrorCode.INVALID_RECORD_STATE, message)
