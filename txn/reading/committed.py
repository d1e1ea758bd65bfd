"""The batches of one Fetch answer that a consumer sees: no control batches, and with read_committed none of an aborted transaction.

It follows Kafka's consumer (`CompletedFetch`), with the list of aborted transactions in the answer. With read_committed the broker sends
nothing from the last stable offset on, so no batch of an open transaction occurs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from fencepost.producer.wire.messages.fetch import PartitionData
from fencepost.producer.wire.records.batch_header import BatchHeader, iter_batches
from fencepost.producer.wire.records.control_batch import ControlType, read_marker
from fencepost.txn.reading.limits import Isolation


def seen_batches(data: PartitionData, isolation: Isolation) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Raises CorruptBatch."""
    filtering = isolation is Isolation.READ_COMMITTED
    ahead = deque(sorted(data.aborted_transactions or [], key=lambda each: each.first_offset)) if filtering else deque()
    aborted: set[int] = set()
    for header, batch in iter_batches(data.records or b""):
        if filtering and header.producer_id >= 0:
            while ahead and ahead[0].first_offset <= header.last_offset:
                aborted.add(ahead.popleft().producer_id)
        if header.is_control:
            if header.producer_id in aborted and header.records_count and read_marker(batch)[0] == ControlType.ABORT:
                aborted.discard(header.producer_id)
            continue
        if header.is_transactional and header.producer_id in aborted:
            continue
        yield header, batch
