"""The partition of a record: by murmur2 of its key as in Java, sticky-adaptive without a key (KIP-794), or round-robin.

It knows numbers of partitions and queue sizes, not topics or brokers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from fencepost.producer.foundations.runtime import read_i32_le

STICKY_BYTES: Final = 16384
"""Bytes after which the sticky partition changes: Java's default batch.size, so that a slow producer still spreads its records."""


def murmur2(data: bytes, start: i64, length: i64) -> i64:
    """32-bit murmur2 with Kafka's seed, of `length` bytes from `start` on; unsigned (`Utils.murmur2`; Java shows the same bits signed)."""
    h: i64 = 0x9747B28C ^ length
    m: i64 = 0x5BD1E995
    mask: i64 = 0xFFFFFFFF
    i: i64 = start
    end: i64 = start + length
    while i + 4 <= end:
        k: i64 = i64(read_i32_le(data, i)) & mask
        k = (k * m) & mask
        k ^= k >> 24
        k = (k * m) & mask
        h = (h * m) & mask
        h ^= k
        i += 4
    left: i64 = end - i
    if left > 0:
        if left == 3:
            h ^= i64(data[i + 2]) << 16
        if left >= 2:
            h ^= i64(data[i + 1]) << 8
        h ^= i64(data[i])
        h = (h * m) & mask
    h ^= h >> 13
    h = (h * m) & mask
    h ^= h >> 15
    return h


def partition_for_key(key: bytes, partitions: int) -> int:
    """`BuiltInPartitioner.partitionForKey`: over all partitions of the topic, available or not."""
    return int(partition_for_range(key, 0, len(key), partitions))


def partition_for_range(data: bytes, start: i64, length: i64, partitions: i64) -> i64:
    """`partition_for_key` of a key that is `length` bytes of `data` from `start` on."""
    return (murmur2(data, start, length) & 0x7FFFFFFF) % partitions


class RoundRobin:
    """Cycles over the partitions that have a leader, or over all if none has (`RoundRobinPartitioner`)."""

    def __init__(self) -> None:
        self._next = 0

    def choose(self, available: list[int], partitions: int) -> int:
        turn = self._next
        self._next = turn + 1
        return available[turn % len(available)] if available else turn % partitions


class Sticky:
    """One partition at a time, for `STICKY_BYTES`. The next one is drawn, with more weight for shorter queues (KIP-794)."""

    def __init__(self, *, draw: Callable[[], int], sticky_bytes: int = STICKY_BYTES) -> None:
        self.current: i64 = -1
        self._room: i64 = 0
        self._draw = draw
        self._sticky_bytes: i64 = sticky_bytes

    def copy(self) -> Sticky:
        """An independent copy."""
        other = Sticky(draw=self._draw, sticky_bytes=int(self._sticky_bytes))
        other.follow(self)
        return other

    def follow(self, other: Sticky) -> None:
        """Take over the state of a copy."""
        self.current = other.current
        self._room = other._room

    def spend(self, size: i64) -> None:
        """Count bytes that were appended to the current partition. After `sticky_bytes` the next record takes another one."""
        self._room -= size
        if self._room <= 0:
            self.current = -1

    def choose(self, available: list[int], partitions: int, queued_bytes: list[int]) -> int:
        """Draw the next partition. `queued_bytes` has one entry a partition. If all are equal, the draw is uniform."""
        candidates = available if available else list(range(partitions))
        loads = [queued_bytes[p] // STICKY_BYTES for p in candidates]
        self.current = candidates[draw_weighted(loads, self._draw())]
        self._room = self._sticky_bytes
        return int(self.current)


def draw_weighted(loads: list[int], draw: int) -> int:
    """The index that `draw` draws with weights max+1−load (`BuiltInPartitioner.nextPartition`); uniform if all loads are equal."""
    most = max(loads)
    if most == min(loads):
        return (draw & 0x7FFFFFFF) % len(loads)
    total = 0
    table: list[int] = []
    for load in loads:
        total += most + 1 - load
        table.append(total)
    point = (draw & 0x7FFFFFFF) % total
    for index, upper in enumerate(table):
        if point < upper:
            return index
    raise AssertionError("the last entry of the table is above every point")
