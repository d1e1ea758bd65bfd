"""The task into which Spark's hash partitioning puts a number. Before Spark 4.1, which has repartitionById, it moves rows into a chosen
task.

`repartition(n, column)` uses pmod(murmur3(value, 42), n). So for each task `keys` searches a number whose hash leads there.
"""

from __future__ import annotations

from itertools import count
from typing import Final

SEED: Final = 42
MASK: Final = 0xFFFFFFFF


def keys(tasks: int) -> list[int]:
    """For each of so many tasks a number that Spark's hash partitioning over `tasks` moves to it."""
    found: dict[int, int] = {}
    for number in count():
        found.setdefault(task_of(number, tasks), number)
        if len(found) == tasks:
            return [found[task] for task in range(tasks)]
    raise AssertionError("there are numbers for every task")


def task_of(number: int, tasks: int) -> int:
    """The task to which hash partitioning over `tasks` moves an int."""
    hashed = murmur3(number)
    return (hashed - (1 << 32) if hashed >> 31 else hashed) % tasks


def murmur3(number: int) -> int:
    """Spark's Murmur3_x86_32.hashInt with its usual seed, unsigned (org.apache.spark.unsafe.hash)."""
    mixed = _rotated(number * 0xCC9E2D51 & MASK, 15) * 0x1B873593 & MASK
    state = (_rotated(SEED ^ mixed, 13) * 5 + 0xE6546B64) & MASK
    state ^= 4
    state = (state ^ state >> 16) * 0x85EBCA6B & MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & MASK
    return state ^ state >> 16


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> (32 - by)) & MASK
