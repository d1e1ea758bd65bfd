"""A share partition without a cluster: short ways to acquire and acknowledge."""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.broker_stub.share_partitions.aborted import AbortedTransaction, LogBatch
from fencepost.broker_stub.share_partitions.acquisition import Wanted
from fencepost.broker_stub.share_partitions.share_partition import SharePartition, Write
from fencepost.broker_stub.share_partitions.states import ACCEPT, Acknowledgement, Limits, RecordState, StateBatch

LIMITS = Limits()


def log(*sizes: int, first: int = 0) -> list[LogBatch]:
    """Batches of so many records, one after the other."""
    batches = []
    for size in sizes:
        batches.append(LogBatch(first, first + size - 1))
        first += size
    return batches


class Part:
    """A share partition over a log, with its limits and the time."""

    def __init__(
        self, batches: Sequence[LogBatch] = (), *, state: Sequence[StateBatch] = (), start: int = 0, limits: Limits = LIMITS
    ) -> None:
        self.log = list(batches)
        self.limits = limits
        self.core = SharePartition(start, state)
        self.now_ms = 0

    def fetch(
        self,
        member: str = "a",
        records_max: int = 1000,
        *,
        batch_size: int = 1000,
        exact: bool = False,
        batches: int | None = None,
        aborted: Sequence[AbortedTransaction] = (),
    ) -> list[tuple[int, int, int]]:
        """Acquires what a fetch from the next offset on finds. `batches`: so many batches of the log at most."""
        offset = self.core.window.next_fetch_offset
        if not self.core.window.can_acquire(self.limits.locks_max):
            return []
        found = [batch for batch in self.log if batch.last >= offset][:batches]
        wanted = Wanted(member, records_max, batch_size, exact)
        acquired = self.core.acquire(wanted, found, offset, limits=self.limits, now_ms=self.now_ms, aborted=aborted)
        return [(each.first, each.last, each.deliveries) for each in acquired]

    def begin(self, first: int, last: int, *types: int, member: str = "a") -> Write:
        asked = Acknowledgement(first, last, types or (ACCEPT,))
        return self.core.acknowledge(member, [asked], limits=self.limits, now_ms=self.now_ms)

    def acknowledge(self, first: int, last: int, *types: int, member: str = "a") -> Write:
        """Acknowledges, and the share coordinator keeps it."""
        write = self.begin(first, last, *types, member=member)
        self.core.complete(write, committed=True, now_ms=self.now_ms)
        return write

    def expire(self, after_ms: int) -> Write:
        """The time passes, and locks end."""
        self.now_ms += after_ms
        write = self.core.expire(limits=self.limits, now_ms=self.now_ms)
        self.core.complete(write, committed=True, now_ms=self.now_ms)
        return write

    @property
    def window(self) -> tuple[int, int, int]:
        """Start, end, and the next offset to fetch."""
        window = self.core.window
        return window.start_offset, window.end_offset, window.next_fetch_offset

    def states(self) -> str:
        """One letter for each record in flight: a record is free, Held, accepted (+) or archived (x)."""
        letters = {RecordState.AVAILABLE: "f", RecordState.ACQUIRED: "H", RecordState.ACKNOWLEDGED: "+", RecordState.ARCHIVED: "x"}
        return "".join(letters[part.state] * (part.last - part.first + 1) for batch in self.core.window.batches for part in batch.parts)
