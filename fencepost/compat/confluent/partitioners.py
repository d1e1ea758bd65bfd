"""librdkafka's partitioners by name, as the values of our `partitioner`: each key goes to the partition that confluent-kafka chooses.

A message without a key goes to our sticky partition where librdkafka's goes to a random one.
"""

from __future__ import annotations

import random
import zlib
from typing import Final

from fencepost.producer.accumulator import named_partitioners
from fencepost.producer.accumulator.named_partitioners import Chooser

MURMUR2_OF_NOTHING: Final = 275646681
"""murmur2 of an empty key, its sign taken off."""


def any_partition(key: bytes | None, partitions: list[int], available: list[int]) -> int | None:
    """`random`: the key does not matter."""
    return random.choice(available or partitions)


def consistent(key: bytes | None, partitions: list[int], available: list[int]) -> int | None:
    """`consistent`: CRC-32 of the key; all messages without one go to one partition."""
    return partitions[zlib.crc32(key or b"") % len(partitions)]


def murmur2(key: bytes | None, partitions: list[int], available: list[int]) -> int | None:
    """`murmur2`: as in Java, and all messages without a key go to one partition."""
    return partitions[MURMUR2_OF_NOTHING % len(partitions)] if key is None else None


def fnv1a(key: bytes | None, partitions: list[int], available: list[int]) -> int | None:
    """`fnv1a`: FNV-1a of the key; all messages without one go to one partition."""
    return partitions[named_partitioners.fnv1a(key or b"") % len(partitions)]


PARTITIONERS: Final[dict[str, str | Chooser]] = {
    "consistent_random": "crc32",
    "consistent": consistent,
    "murmur2_random": "default",
    "murmur2": murmur2,
    "fnv1a_random": "fnv1a",
    "fnv1a": fnv1a,
    "random": any_partition,
}
"""librdkafka's name -> the value of our setting `partitioner`."""
