"""Sequence numbers live on a ring of 2^31."""

from __future__ import annotations

import random

from fencepost.producer.core.idempotence.sequence import SEQUENCE_RING, advance, distance
from fencepost.producer.wire.records import PRODUCER_EPOCH_MAX, decrement_sequence, increment_sequence

LAST = SEQUENCE_RING - 1


def test_the_last_sequence_is_followed_by_zero() -> None:
    """2147483647 is followed by 0, and a batch that crosses the end goes on from the start (`incrementSequence`)."""
    assert advance(LAST, 1) == 0
    assert advance(LAST - 2, 5) == 2
    assert advance(0, LAST) == LAST


def test_advancing_is_what_the_record_format_says() -> None:
    """The producer and the record codec count alike, everywhere on the ring."""
    rng = random.Random(31)
    starts = [0, 1, LAST, LAST - 1, *(rng.randrange(SEQUENCE_RING) for _ in range(200))]
    for start in starts:
        for count in (0, 1, 2, 1000, LAST):
            assert advance(start, count) == increment_sequence(start, count)
            assert decrement_sequence(advance(start, count), count) == start


def test_distance_sees_across_the_wrap() -> None:
    """What comes after the wrap is later, not 2^31 earlier: sequences are compared by distance and never by size."""
    assert distance(LAST, 0) == 1
    assert distance(0, LAST) == -1
    assert distance(LAST - 1, 3) == 5
    assert distance(7, 7) == 0


def test_distance_undoes_advance() -> None:
    """Within half the ring, in both directions, distance gives back what was added."""
    for start in (0, 5, 2**30, LAST):
        for step in (0, 1, 2**30 - 1):
            assert distance(start, advance(start, step)) == step
            assert distance(advance(start, step), start) == -step


def test_the_last_epoch_is_a_short() -> None:
    """Epochs are signed 16 bits on the wire: after 32767 there is none."""
    assert PRODUCER_EPOCH_MAX == 2**15 - 1
