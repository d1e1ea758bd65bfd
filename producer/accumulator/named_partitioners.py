"""Partitioners by name, and the caller's own: they choose the partition of a record that names none.

A partitioner is called as in kafka-python and aiokafka: `partitioner(key, all_partitions, available_partitions)`. It gets the encoded key
or None, and ascending lists of partition numbers. It runs on the thread that sends. It returns one of the numbers, or None to leave the
choice to the default partitioner.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final

from fencepost.producer.config.settings import Partitioner

Chooser = Callable[[bytes | None, list[int], list[int]], int | None]


def fnv1a(key: bytes) -> int:
    """FNV-1a of the key, its sign taken off."""
    state = 0x811C9DC5
    for byte in key:
        state = ((state ^ byte) * 0x01000193) & 0xFFFFFFFF
    return state if state < 1 << 31 else (1 << 32) - state


HASHES: Final[dict[Partitioner, Callable[[bytes], int]]] = {Partitioner.CRC32: zlib.crc32, Partitioner.FNV1A: fnv1a}
"""librdkafka's consistent_random; and its fnv1a_random, which is Sarama's, too. The partition of a key is the remainder of its hash by the
number of partitions. The accumulator implements the other partitioners."""


def hash_of(partitioner: Partitioner | Chooser) -> Callable[[bytes], int] | None:
    """The hash by which the partitioner chooses; None if it is another kind of partitioner."""
    return HASHES.get(partitioner) if isinstance(partitioner, Partitioner) else None


def chooser(partitioner: Partitioner | Chooser) -> Chooser | None:
    """The function to call for each record; None if the accumulator chooses."""
    hashed = hash_of(partitioner)
    if hashed is None:
        return None if isinstance(partitioner, Partitioner) else partitioner

    def by_hash(key: bytes | None, partitions: list[int], available: list[int]) -> int | None:
        return None if key is None else partitions[hashed(key) % len(partitions)]

    return by_hash


def chosen(choose: Chooser, key: bytes | None, partitions: int, available: list[int]) -> int:
    """The partition that the partitioner chooses, checked; -1 for the sticky partition."""
    # Lists of its own, which it may change.
    choice: object = choose(key, list(range(partitions)), list(available or range(partitions)))
    if choice is None:
        return -1
    if not isinstance(choice, int) or isinstance(choice, bool) or not 0 <= choice < partitions:
        raise ValueError(f"the partitioner chose {choice!r}: partitions are numbers from 0 to {partitions - 1}, or None to have one chosen")
    return choice
