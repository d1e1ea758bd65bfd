"""Batches of records in flight: what a share partition knows of records that it has handed out.

A batch has one state for all its records until they differ. Then it is split, and each record has its own. A change that has to be kept by
the share coordinator first is pending: it is completed or rolled back later. No clock: the time is passed in.
"""

from __future__ import annotations

from collections.abc import Iterator

from fencepost.broker_stub.share_partitions.states import NO_MEMBER, RecordState, StateBatch


class Part:
    """The state of a whole batch, or of one record of a split one."""

    __slots__ = ("_before", "_is_final", "_limit", "deliveries", "first", "last", "locked_until_ms", "member", "state")

    def __init__(
        self,
        first: int,
        last: int,
        state: RecordState,
        *,
        deliveries: int,
        member: str = NO_MEMBER,
        locked_until_ms: int | None = None,
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.deliveries = deliveries
        self.member = member
        self.locked_until_ms = locked_until_ms
        self._before: tuple[RecordState, str] | None = None
        self._limit = 0
        self._is_final = False

    @property
    def is_pending(self) -> bool:
        """Whether a change of its state has not been kept yet."""
        return self._before is not None

    @property
    def is_free(self) -> bool:
        """Whether a member can acquire it."""
        return self.state is RecordState.AVAILABLE and not self.is_pending

    @property
    def is_done(self) -> bool:
        """Whether the start offset can pass it."""
        return self.state.is_terminal and not self.is_pending

    def state_batch(self) -> StateBatch:
        return StateBatch(self.first, self.last, self.state, self.deliveries)

    def acquire(self, member: str, locked_until_ms: int) -> None:
        """Hands it out once more. It must be free."""
        assert self.is_free
        self.state, self.member, self.locked_until_ms = RecordState.ACQUIRED, member, locked_until_ms
        self.deliveries += 1

    def end(self, state: RecordState, deliveries_max: int) -> None:
        """The member has it no longer. At the limit of deliveries it is archived instead of becoming available."""
        assert self.state is RecordState.ACQUIRED
        spent = state is RecordState.AVAILABLE and self.deliveries >= deliveries_max
        self.state, self.member = RecordState.ARCHIVED if spent else state, NO_MEMBER

    def begin(self, state: RecordState, deliveries_max: int) -> None:
        """The same as `end`, pending. It keeps its lock until the change is completed."""
        before = self.state, self.member
        self.end(state, deliveries_max)
        self._before, self._limit = before, deliveries_max

    def complete(self, *, committed: bool, now_ms: int) -> None:
        """Completes the pending change, or rolls it back. A lock that has ended in the meantime ends now."""
        before, self._before = self._before, None
        if before is None or committed or self._is_final:
            self.locked_until_ms = None
            return
        if self.locked_until_ms is not None and self.locked_until_ms <= now_ms:
            spent = self.deliveries >= self._limit
            self.state, self.member, self.locked_until_ms = RecordState.ARCHIVED if spent else RecordState.AVAILABLE, NO_MEMBER, None
        else:
            self.state, self.member = before

    def archive(self) -> None:
        """Ends it for good: the record is no longer in the log, or was aborted. A rollback does not change that."""
        self.state, self.member, self.locked_until_ms, self._is_final = RecordState.ARCHIVED, NO_MEMBER, None, True


class InFlightBatch:
    """A range of offsets. `parts`: one for all of them, or one for each once it is split."""

    __slots__ = ("first", "is_split", "last", "parts")

    def __init__(self, part: Part) -> None:
        self.first = part.first
        self.last = part.last
        self.parts = [part]
        self.is_split = False

    @property
    def whole(self) -> Part:
        """The state of all its records. It must not be split."""
        assert not self.is_split
        return self.parts[0]

    def is_within(self, first: int, last: int) -> bool:
        return first <= self.first and self.last <= last

    def split(self) -> None:
        """From now on each record has its own state. Does nothing if that is so already."""
        if self.is_split:
            return
        one = self.parts[0]
        self.parts = [
            Part(offset, offset, one.state, deliveries=one.deliveries, member=one.member, locked_until_ms=one.locked_until_ms)
            for offset in range(self.first, self.last + 1)
        ]
        self.is_split = True

    def parts_in(self, first: int, last: int) -> Iterator[Part]:
        """Its parts that begin in that range: of a batch that is not split, the whole one."""
        if not self.is_split:
            return iter(self.parts)
        return (part for part in self.parts if first <= part.first <= last)
