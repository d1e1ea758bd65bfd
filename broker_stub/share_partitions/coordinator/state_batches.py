"""Puts state batches together that overlap (Kafka's PersisterStateBatchCombiner). Pure.

Of two batches, the one with more deliveries says how a record is, and of two with as many the one with the later state.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from heapq import heappop, heappush

from fencepost.broker_stub.share_partitions.states import NO_OFFSET, StateBatch


def combined(known: Iterable[StateBatch], more: Iterable[StateBatch], start_offset: int = NO_OFFSET) -> tuple[StateBatch, ...]:
    """In order, without overlaps, from the start offset on. Neighbours that say the same are one."""
    batches = sorted(
        each._replace(first=max(each.first, start_offset))
        for each in (*known, *more)
        if start_offset == NO_OFFSET or each.last >= start_offset
    )
    cuts = sorted({each.first for each in batches} | {each.last + 1 for each in batches})
    found: list[StateBatch] = []
    open_now: list[tuple[int, int, int]] = []  # the strongest first
    at = 0
    for begin, end in itertools.pairwise(cuts):
        while at < len(batches) and batches[at].first == begin:
            heappush(open_now, (-batches[at].deliveries, -batches[at].state, batches[at].last))
            at += 1
        while open_now and open_now[0][2] < begin:
            heappop(open_now)
        if not open_now:
            continue
        deliveries, state = -open_now[0][0], -open_now[0][1]
        if found and found[-1].last + 1 == begin and found[-1][2:] == (state, deliveries):
            found[-1] = found[-1]._replace(last=end - 1)
        else:
            found.append(StateBatch(begin, end - 1, state, deliveries))
    return tuple(found)
