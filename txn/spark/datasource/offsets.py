"""Offsets of topics' partitions as Spark's Kafka source writes them, the limits of a trigger, and the tasks of a range.

Numbers and JSON only: it sends no requests and does not import pyspark.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Final

from msgspec import Struct

from fencepost.producer.errors import ConfigError
from fencepost.txn.reading.positions import Place

Offsets = dict[Place, int]
OffsetsJson = dict[str, dict[str, int]]
"""As in a checkpoint: {"topic": {"0": 23}}."""

LATEST: Final = -1
EARLIEST: Final = -2


class Range(Struct, frozen=True):
    """Records of one partition, from `start` to before `until`."""

    topic: str
    partition: int
    start: int
    until: int

    @property
    def size(self) -> int:
        return self.until - self.start


def as_json(offsets: Mapping[Place, int]) -> OffsetsJson:
    """Topics and partitions in a fixed order, because Spark compares the texts."""
    found: OffsetsJson = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def from_json(offsets: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Read what `as_json` made."""
    return {(topic, int(partition)): offset for topic, partitions in offsets.items() for partition, offset in partitions.items()}


def read_numbers(option: str, text: str, *, least: int) -> Offsets:
    """Read {"topic": {"0": number}} as a user writes it. Raises ConfigError."""
    example = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
    found: Offsets = {}
    for topic, partitions in _read_object(option, text, example).items():
        if not isinstance(partitions, dict):
            raise ConfigError(f"{option}={text!r}: {topic!r} is followed by no object of partitions: {example}")
        for partition, number in partitions.items():
            if not partition.isdecimal() or type(number) is not int:
                raise ConfigError(f"{option}={text!r}: {partition!r}: {number!r} is no partition with a number: {example}")
            if number < least:
                raise ConfigError(f"{option}={text!r}: {number} for {topic}-{partition} is below {least}")
            found[topic, int(partition)] = number
    return found


def read_assignment(option: str, text: str) -> tuple[Place, ...]:
    """Read {"topic": [0, 1]}. Raises ConfigError."""
    example = '{"topicA":[0,1],"topicB":[2,4]}'
    found: list[Place] = []
    for topic, partitions in _read_object(option, text, example).items():
        if not isinstance(partitions, list) or not all(type(each) is int and each >= 0 for each in partitions):
            raise ConfigError(f"{option}={text!r}: {topic!r} is followed by no list of partitions: {example}")
        found += [(topic, partition) for partition in partitions]
    if not found:
        raise ConfigError(f"{option}={text!r}: no partition: {example}")
    return tuple(sorted(set(found)))


def _read_object(option: str, text: str, example: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{option}={text!r}: {error}; it is written like {example}") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{option}={text!r}: it is written like {example}")
    return found


def limited(start: Mapping[Place, int], end: Mapping[Place, int], most: int) -> Offsets:
    """Ends of at most so many offsets, shared among partitions by their backlogs, and at least one for a partition with a backlog."""
    sizes = {place: max(0, end[place] - start[place]) for place in end}
    total = sum(sizes.values())
    if total <= most:
        return dict(end)
    found: Offsets = {}
    for place, size in sizes.items():
        share = most * (size / total)
        found[place] = min(end[place], start[place] + (math.ceil(share) if share < 1 else math.floor(share)))
    return found


def split(ranges: Iterable[Range], *, parts_min: int | None, records_max: int | None) -> list[Range]:
    """The non-empty ranges, large ones split: about `parts_min` in all or more, and none of more than `records_max` offsets."""
    found = [each for each in ranges if each.size > 0]
    if records_max is not None:
        found = [part for each in found for part in _cut(each, math.ceil(each.size / records_max))]
    if parts_min is None or len(found) >= parts_min:
        return found
    total = sum(each.size for each in found)
    whole = [each for each in found if _parts(each.size, total, parts_min) == 1]
    rest = max(1, total - sum(each.size for each in whole))
    left = max(1, parts_min - len(whole))
    small = set(whole)
    return [part for each in found for part in _cut(each, 1 if each in small else _parts(each.size, rest, left))]


def _parts(size: int, total: int, parts: int) -> int:
    return max(1, round(size / total * parts))


def _cut(whole: Range, parts: int) -> list[Range]:
    parts = min(parts, whole.size)
    marks = [whole.start + whole.size * number // parts for number in range(parts + 1)]
    return [Range(whole.topic, whole.partition, start, until) for start, until in pairwise(marks)]
