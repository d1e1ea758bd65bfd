"""The last stable offset (LSO): up to where readers of committed records may read.

Open transactions hold it back, and finished ones do until the high watermark has passed their marker. Aborted transactions are in
`txn_index`.
"""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.broker_stub.log.producer_append_info import CompletedTxn
from fencepost.broker_stub.log.txn_index import AbortedTxn, TransactionIndex


class UnstableTransactions:
    """The transactions of one partition that hold its last stable offset back. `index` gets the aborted ones."""

    __slots__ = ("_index", "_ongoing", "_unreplicated")

    def __init__(self, index: TransactionIndex, ongoing: Iterable[int] = ()) -> None:
        """`ongoing`: the first offsets of the open transactions, in order."""
        self._index = index
        self._ongoing: dict[int, None] = dict.fromkeys(ongoing)  # they only grow, so the first is the lowest
        self._unreplicated: dict[int, int] = {}  # first offset -> marker's offset

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
            self._index.append(AbortedTxn(txn.producer_id, txn.first_offset, txn.last_offset, stable))

    def committed(self, high_watermark: int) -> None:
        """Notes that the high watermark moved: markers below it do not hold the LSO back any more."""
        if self._unreplicated:
            self._unreplicated = {first: last for first, last in self._unreplicated.items() if last >= high_watermark}
