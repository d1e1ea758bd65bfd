"""The aborted transactions that readers must skip (Kafka's transaction index).

They are kept as long as their markers, and in the order of these. It has no bytes. `last_stable_offset` has the transactions that have not
ended.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from msgspec import Struct

from fencepost.producer.wire.records import BatchHeader


class AbortedTxn(Struct, frozen=True):
    """One entry of the transaction index. `last_offset` is the marker's offset, `last_stable_offset` the LSO that followed from it."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def covers(self, batch: BatchHeader) -> bool:
        """Whether the batch is part of the transaction."""
        mine = batch.is_transactional and batch.producer_id == self.producer_id
        return mine and self.first_offset <= batch.base_offset <= self.last_offset


class TransactionIndex:
    """The aborted transactions of one partition, in the order of their markers."""

    __slots__ = ("_aborted", "_ends")

    def __init__(self, aborted: Iterable[AbortedTxn] = ()) -> None:
        self._aborted: list[AbortedTxn] = [*aborted]
        self._ends = [txn.last_offset for txn in self._aborted]

    @property
    def aborted(self) -> tuple[AbortedTxn, ...]:
        """Every aborted transaction, in the order of their markers."""
        return tuple(self._aborted)

    def append(self, txn: AbortedTxn) -> None:
        """Adds the transaction, whose marker is the newest."""
        self._aborted.append(txn)
        self._ends.append(txn.last_offset)

    def forget_before(self, offset: int) -> None:
        """Forgets the aborted transactions whose markers were deleted."""
        count = bisect_left(self._ends, offset)
        del self._aborted[:count], self._ends[:count]

    def keep_between(self, start: int, end: int, kept: list[AbortedTxn]) -> None:
        """Forgets the aborted transactions whose markers lie in [start, end), but not these, which are in the order of their markers."""
        first, last = bisect_left(self._ends, start), bisect_left(self._ends, end)
        self._aborted[first:last] = kept
        self._ends[first:last] = [txn.last_offset for txn in kept]

    def ended_between(self, start: int, end: int) -> list[AbortedTxn]:
        """The aborted transactions whose markers lie in [start, end): the index of a segment."""
        return self._aborted[bisect_left(self._ends, start) : bisect_left(self._ends, end)]

    def aborted_between(self, offset: int, end: int) -> list[AbortedTxn]:
        """The aborted transactions that a reader of [offset, end) must know. Some may lie beyond what it reads."""
        found = []
        for txn in self._aborted[bisect_left(self._ends, offset) :]:
            if txn.first_offset < end:
                found.append(txn)
            if txn.last_stable_offset >= end:
                break
        return found
