"""The last stable offset, and the aborted transactions that readers must skip.

Open transactions hold the last stable offset (LSO) back, and finished ones do until the high watermark has passed their marker. As in
Kafka's transaction index, aborted transactions are kept as long as their markers, and in the order of these. It decides nothing about
producers and has no bytes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from msgspec import Struct

from fencepost.broker_stub.log.producer_append_info import CompletedTxn
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


class Transactions:
    """The transactions of one partition."""

    __slots__ = ("_aborted", "_aborted_ends", "_ongoing", "_unreplicated")

    def __init__(self, ongoing: Iterable[int] = (), aborted: Iterable[AbortedTxn] = ()) -> None:
        """`ongoing`: the first offsets of the open transactions, in order. `aborted`: in the order of their markers."""
        self._ongoing: dict[int, None] = dict.fromkeys(ongoing)  # they only grow, so the first is the lowest
        self._unreplicated: dict[int, int] = {}  # first offset -> marker's offset
        self._aborted: list[AbortedTxn] = [*aborted]
        self._aborted_ends = [txn.last_offset for txn in self._aborted]

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of the oldest open transaction."""
        return next(iter(self._ongoing), None)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction that is open or whose marker is not replicated."""
        starts = [*self._unreplicated] if self._unreplicated else []
        if self._ongoing:
            starts.append(next(iter(self._ongoing)))
        return min(starts, default=None)

    @property
    def aborted(self) -> tuple[AbortedTxn, ...]:
        """Every aborted transaction, in the order of their markers."""
        return tuple(self._aborted)

    def last_stable_offset(self, high_watermark: int) -> int:
        first = self.first_unstable_offset
        return high_watermark if first is None else min(first, high_watermark)

    def begin(self, first_offset: int) -> None:
        self._ongoing[first_offset] = None

    def complete(self, txn: CompletedTxn) -> None:
        """Ends the transaction, whose marker is written and not yet replicated."""
        del self._ongoing[txn.first_offset]
        self._unreplicated[txn.first_offset] = txn.last_offset
        if txn.aborted:
            undecided = self.first_undecided_offset
            stable = txn.last_offset + 1 if undecided is None else undecided
            self._aborted.append(AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, stable))
            self._aborted_ends.append(txn.last_offset)

    def committed(self, high_watermark: int) -> None:
        """Notes that the high watermark moved: markers below it do not hold the LSO back any more."""
        if self._unreplicated:
            self._unreplicated = {first: last for first, last in self._unreplicated.items() if last >= high_watermark}

    def forget_before(self, offset: int) -> None:
        """Forgets the aborted transactions whose markers were deleted."""
        count = bisect_left(self._aborted_ends, offset)
        del self._aborted[:count], self._aborted_ends[:count]

    def keep_between(self, start: int, end: int, kept: list[AbortedTxn]) -> None:
        """Forgets the aborted transactions whose markers lie in [start, end), but not these, which are in the order of their markers."""
        first, last = bisect_left(self._aborted_ends, start), bisect_left(self._aborted_ends, end)
        self._aborted[first:last] = kept
        self._aborted_ends[first:last] = [txn.last_offset for txn in kept]

    def ended_between(self, start: int, end: int) -> list[AbortedTxn]:
        """The aborted transactions whose markers lie in [start, end): the index of a segment."""
        return self._aborted[bisect_left(self._aborted_ends, start) : bisect_left(self._aborted_ends, end)]

    def aborted_between(self, offset: int, end: int) -> list[AbortedTxn]:
        """The aborted transactions that a reader of [offset, end) must know. Some may lie beyond what it reads."""
        found = []
        for txn in self._aborted[bisect_left(self._aborted_ends, offset) :]:
            if txn.first_offset < end:
                found.append(txn)
            if txn.last_stable_offset >= end:
                break
        return found
