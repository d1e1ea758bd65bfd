"""Which batches of the log belong to aborted transactions. A share group that reads only committed records never delivers them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fencepost.broker_stub.share_partitions.states import Acquired


class LogBatch(NamedTuple):
    """A batch of the log. `producer_id`: -1 without one. `aborts`: it is the marker that ends an aborted transaction."""

    first: int
    last: int
    producer_id: int = -1
    is_transactional: bool = False
    aborts: bool = False


class AbortedTransaction(NamedTuple):
    """A producer's transaction that was aborted, and its first offset."""

    producer_id: int
    first_offset: int


def aborted_batches(batches: Iterable[LogBatch], aborted: Iterable[AbortedTransaction]) -> list[LogBatch]:
    """The batches of aborted transactions, as a consumer finds them."""
    waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    open_now: set[int] = set()
    found = []
    for batch in batches:
        if batch.producer_id < 0:
            continue
        while waiting and waiting[-1].first_offset <= batch.last:
            open_now.add(waiting.pop().producer_id)
        if batch.aborts:
            open_now.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in open_now:
            found.append(batch)
    return found


def without(acquired: Iterable[Acquired], batches: Sequence[LogBatch]) -> list[Acquired]:
    """What is left of acquired ranges without these batches."""
    left = list(acquired)
    for batch in batches:
        left = [piece for each in left for piece in _around(each, batch)]
    return left


def _around(acquired: Acquired, batch: LogBatch) -> list[Acquired]:
    if batch.last < acquired.first or acquired.last < batch.first:
        return [acquired]
    pieces = Acquired(acquired.first, batch.first - 1, acquired.deliveries), Acquired(batch.last + 1, acquired.last, acquired.deliveries)
    return [piece for piece in pieces if piece.size > 0]
