"""Partitioners by name, and the caller's own: they choose the partition of a record that names none.

A partitioner is called as in kafka-python and aiokafka: `partitioner(key, all_partitions, available_partitions)`. It gets the encoded key
or None, and ascending lists of partition numbers. It runs on the thread that sends. It returns one of the numbers, or None to leave the
choice to the default partitioner.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from fencepost.producer.config.settings import Partitioner

Chooser = Callable[[bytes | None, list[int], list[int]], int | None]


def crc32(key: bytes | None, partitions: list[int], available: list[int]) -> int | None:
    """librdkafka's consistent_random: CRC-32 of the key."""
    return partitions[zlib.crc32(key) % len(partitions)] if key is not None else None


def fnv1a(key: bytes | None, partitions: list[int], available: list[int]) -> int | None:
    """librdkafka's fnv1a_random, and Sarama's: FNV-1a of the key, its sign taken off."""
    if key is None:
        return None
    state = 0x811C9DC5
    for byte in key:
        state = ((state ^ byte) * 0x01000193) & 0xFFFFFFFF
    return partitions[(state if state < 1 << 31 else (1 << 32) - state) % len(partitions)]


CHOOSERS: dict[Partitioner, Chooser] = {Partitioner.CRC32: crc32, Partitioner.FNV1A: fnv1a}
"""The partitioners that are functions. The accumulator implements the others."""


def chooser(partitioner: Partitioner | Chooser) -> Chooser | None:
    """The function to call for each record; None if the accumulator chooses."""
    return CHOOSERS.get(partitioner) if isinstance(partitioner, Partitioner) else partitioner


def chosen(choose: Chooser, key: bytes | None, partitions: int, available: list[int]) -> int:
    """The partition that the partitioner chooses, checked; -1 for the sticky partition."""
    # Lists of its own, which it may change.
    choice: object = choose(key, list(range(partitions)), list(available or range(partitions)))
    if choice is None:
        return -1
    if not isinstance(choice, int) or isinstance(choice, bool) or not 0 <= choice < partitions:
        raise ValueError(f"the partitioner chose {choice!r}: partitions are numbers from 0 to {partitions - 1}, or None to have one chosen")
    return choice
