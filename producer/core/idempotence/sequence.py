"""Sequence numbers: a ring of 2^31 values, compared by distance and never by size.

Source: `DefaultRecordBatch.incrementSequence`. In places the Java client compares raw integers, which is wrong around the wrap. A distance
is always right here, because at most five batches lie between two sequences that the producer compares.
"""

from __future__ import annotations

from typing import Final

SEQUENCE_RING: Final = 1 << 31


def advance(sequence: int, count: int) -> int:
    """The sequence `count` records after `sequence`: 2147483647 is followed by 0."""
    return (sequence + count) % SEQUENCE_RING


def distance(start: int, end: int) -> int:
    """How many records after `start` the sequence `end` lies, from -2^30 (before it) to 2^30 - 1."""
    return (end - start + SEQUENCE_RING // 2) % SEQUENCE_RING - SEQUENCE_RING // 2
