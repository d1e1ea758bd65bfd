"""The assignors of consumers before Kafka 0.9, which kept their groups in ZooKeeper: partitions go to the consumers' threads.

A consumer has a number of streams for each topic, and a thread for each stream: `<consumer>-<n>`. Threads are sorted by that name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fencepost.broker_stub.cluster.coordinator_partition import string_hash
from fencepost.broker_stub.groups.assignors.java_order import string_order
from fencepost.broker_stub.groups.assignors.subscriptions import TopicPartition


class StreamConsumer(NamedTuple):
    """A consumer, with its number of streams for each topic."""

    id: str
    streams: Mapping[str, int]


class UnequalStreams(ValueError):
    """The round robin over threads is not allowed for these consumers."""


def assign_thread_ranges(consumers: Sequence[StreamConsumer], partitions: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
    """The ranges of each topic over the threads that read it."""
    threads = _threads_by_topic(consumers)
    assigned: dict[str, list[TopicPartition]] = {each: [] for each in _sorted(*threads.values())}
    for topic, readers in threads.items():
        quota, extras = divmod(partitions.get(topic, 0), len(readers))
        for place, thread in enumerate(readers):
            start = quota * place + min(place, extras)
            assigned[thread] += [TopicPartition(topic, number) for number in range(start, start + quota + (place < extras))]
    return assigned


def assign_threads_round_robin(consumers: Sequence[StreamConsumer], partitions: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
    """All partitions, ordered by the hash code of `[topic,partition]`, dealt to the threads in a circle. Raises UnequalStreams."""
    threads = _threads_by_topic(consumers)
    if not threads:
        return {}
    first, circle = next(iter(threads.items()))
    for topic, readers in threads.items():
        if readers != circle:
            raise UnequalStreams(
                "round robin needs consumers that all subscribe to the same topics, each with the same number of streams for every topic: "
                f"topic {first!r} has the threads {', '.join(circle)}; topic {topic!r} has {', '.join(readers)}"
            )
    every = [TopicPartition(topic, number) for topic in threads for number in range(partitions.get(topic, 0))]
    every.sort(key=lambda tp: string_hash(f"[{tp.topic},{tp.partition}]"))
    assigned: dict[str, list[TopicPartition]] = {thread: [] for thread in circle}
    for turn, tp in enumerate(every):
        assigned[circle[turn % len(circle)]].append(tp)
    return assigned


def _threads_by_topic(consumers: Sequence[StreamConsumer]) -> dict[str, list[str]]:
    """The sorted threads of each topic, without topics that have none."""
    topics = _sorted([topic for each in consumers for topic in each.streams])
    threads = {topic: _sorted([f"{each.id}-{n}" for each in consumers for n in range(each.streams.get(topic, 0))]) for topic in topics}
    return {topic: readers for topic, readers in threads.items() if readers}


def _sorted(*names: Sequence[str]) -> list[str]:
    return sorted({name for each in names for name in each}, key=string_order)
