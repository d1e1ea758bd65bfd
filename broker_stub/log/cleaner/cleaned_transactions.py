"""Which batches and markers of transactions a pass over a log may drop (Kafka's `CleanedTransactionMetadata`).

It is told of each batch in the order of the log. Records of an aborted transaction go at once. A marker may go after all batches of its
transaction are gone: then a pass meets the marker, and none of its batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from fencepost.broker_stub.log.txn_index import AbortedTxn
from fencepost.producer.wire.records import BatchHeader, ControlType, read_marker


class CleanedTransactions:
    """See the module. `aborted`: the aborted transactions of the log. `kept`: those that still have a batch or were not met whole; their
    entries stay in the transaction index."""

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self.kept: list[AbortedTxn] = []
        self._to_come = deque(sorted(aborted, key=lambda txn: txn.first_offset))
        self._aborted: dict[int, AbortedTxn] = {}
        self._met: set[int] = set()  # producers of which a batch of the open aborted transaction was met
        self._committed: set[int] = set()  # the same for transactions that were committed

    def drops_data(self, header: BatchHeader) -> bool:
        """Whether the data batch belongs to an aborted transaction."""
        self._open_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._met.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def drops_marker(self, header: BatchHeader, batch: bytes | memoryview) -> bool:
        """Whether nothing of the control batch's transaction is left, or the batch itself is empty."""
        self._open_up_to(header.last_offset)
        if not header.records_count:
            return True
        kind, _, _ = read_marker(batch)
        pid = header.producer_id
        if kind == ControlType.COMMIT:
            met = pid in self._committed
            self._committed.discard(pid)
            return not met
        if kind != ControlType.ABORT:
            return False
        txn, met = self._aborted.pop(pid, None), pid in self._met
        self._met.discard(pid)
        if txn is not None and met:
            self.kept.append(txn)
        return not met

    def _open_up_to(self, offset: int) -> None:
        while self._to_come and self._to_come[0].first_offset <= offset:
            txn = self._to_come.popleft()
            self._aborted.setdefault(txn.producer_id, txn)
