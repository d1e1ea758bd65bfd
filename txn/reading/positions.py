"""Topics, partitions, their leaders, and the offsets of timestamps: asked of the brokers until a deadline.

A broker may hear of a topic late. So a named topic that it does not know is asked for a few more times before it counts as missing.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Final, TypeVar

from fencepost.producer.wire.codes import Api, ErrorCode
from fencepost.producer.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic
from fencepost.producer.wire.messages.metadata import MetadataResponse
from fencepost.txn.protocol.cluster_client import ClusterClient, Deadline, Unanswered, refuse
from fencepost.txn.reading.errors import PartitionGone, ReadTimeout
from fencepost.txn.reading.limits import Isolation

T = TypeVar("T")
Place = tuple[str, int]
"""A topic and a partition of it."""

LIST_VERSIONS: Final = range(1, 8)
COMMITTED_LIST_VERSIONS: Final = range(2, 8)
CONSUMER: Final = -1
ATTEMPTS_OF_THE_UNKNOWN: Final = 3
UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Unheard(Unanswered):
    """The brokers do not know the topic or partition, or not yet."""


async def patiently(client: ClusterClient, ask: Callable[[], Awaitable[T]], timeout_s: float, what: str) -> T:
    """The first answer within so many seconds. Raises ReadTimeout with the last reason, and PartitionGone for a partition that no broker
    knows."""
    unheard = 0

    async def attempt() -> T:
        nonlocal unheard
        try:
            return await ask()
        except Unheard as error:
            unheard += 1
            if unheard >= ATTEMPTS_OF_THE_UNKNOWN:
                raise PartitionGone(str(error)) from None
            raise

    try:
        return await client.again(attempt, Deadline(timeout_s))
    except Unanswered as error:
        raise ReadTimeout(f"{what}: nothing usable within {timeout_s:g} s: {error}") from None


async def all_topics(client: ClusterClient) -> list[str]:
    """Every topic that the client may see, without Kafka's own, as in the lists of Java's clients."""
    answer = await client.metadata(None)
    seen = (topic for topic in answer.topics if topic.error_code == ErrorCode.NONE and not topic.is_internal)
    return sorted(topic.name for topic in seen if topic.name is not None)


async def partition_counts(client: ClusterClient, topics: Collection[str]) -> dict[str, int]:
    """The number of partitions of each topic. Raises Unheard for an unknown topic."""
    answer = await client.metadata(sorted(topics))
    counts: dict[str, int] = {}
    for topic in answer.topics:
        _refuse(Api.METADATA, topic.error_code, f"topic {topic.name!r}")
        counts[topic.name or ""] = len(topic.partitions)
    return counts


async def leaders(client: ClusterClient, places: Iterable[Place]) -> dict[Place, int]:
    """The leader of each partition. Raises Unheard for an unknown partition, Unanswered for one without a leader."""
    wanted = set(places)
    answer: MetadataResponse = await client.metadata(sorted({topic for topic, _ in wanted}))
    found: dict[Place, int] = {}
    for topic in answer.topics:
        _refuse(Api.METADATA, topic.error_code, f"topic {topic.name!r}")
        found.update({(topic.name or "", each.partition_index): each.leader_id for each in topic.partitions})
    for topic_name, partition in sorted(wanted):
        leader = found.get((topic_name, partition))
        if leader is None:
            raise Unheard(f"topic {topic_name!r} has no partition {partition}")
        if leader < 0:
            raise Unanswered(f"{topic_name}-{partition} has no leader at the moment")
    return {place: found[place] for place in wanted}


async def list_offsets(client: ClusterClient, asked: Mapping[Place, int], isolation: Isolation) -> dict[Place, int | None]:
    """For each partition the offset of a timestamp in ms, EARLIEST or LATEST: that of the first record that is not older, or None. With
    read_committed, LATEST is the last stable offset."""
    if not asked:
        return {}
    led = await leaders(client, asked)
    by_leader: defaultdict[int, dict[str, list[ListOffsetsPartition]]] = defaultdict(lambda: defaultdict(list))
    for place in sorted(asked):
        topic, partition = place
        by_leader[led[place]][topic].append(ListOffsetsPartition(partition_index=partition, timestamp=asked[place]))
    answers = await asyncio.gather(*(_list_at(client, node, topics, isolation) for node, topics in by_leader.items()))
    return {place: offset for answer in answers for place, offset in answer.items()}


async def _list_at(
    client: ClusterClient, node: int, topics: Mapping[str, list[ListOffsetsPartition]], isolation: Isolation
) -> dict[Place, int | None]:
    request = ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=isolation.code,
        topics=[ListOffsetsTopic(name=topic, partitions=partitions) for topic, partitions in topics.items()],
    )
    versions = COMMITTED_LIST_VERSIONS if isolation.code else LIST_VERSIONS
    answer: ListOffsetsResponse = await client.ask(node, request, versions)
    found: dict[Place, int | None] = {}
    for topic in answer.topics:
        for each in topic.partitions:
            _refuse(Api.LIST_OFFSETS, each.error_code, f"{topic.name}-{each.partition_index}")
            found[topic.name, each.partition_index] = each.offset if each.offset >= 0 else None
    return found


def _refuse(api: Api, code: int, subject: str) -> None:
    if code in UNKNOWN:
        raise Unheard(f"{subject}: the brokers know no such topic or partition")
    refuse(api, code, subject)
