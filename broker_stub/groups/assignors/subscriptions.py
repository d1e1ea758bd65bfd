"""The members of a consumer group with their subscriptions: what every assignor gets, and what it returns.

The members and topics are in the order of Java's hash maps, because some answers of Kafka's assignors depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from fencepost.broker_stub.cluster.coordinator_partition import string_hash
from fencepost.broker_stub.groups.assignors.java_order import HashOrder, string_order

NO_GENERATION: Final = -1


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class Member(NamedTuple):
    """A member as the group's leader sees it. `generation`: the one in which it got the partitions that it owns."""

    id: str
    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    instance_id: str | None = None
    rack: str | None = None


class Assignment(NamedTuple):
    """The partitions of each member. `transferring`: those that another member owned, with their new owner, where an assignor knows it."""

    partitions: dict[str, list[TopicPartition]]
    transferring: Mapping[TopicPartition, str] = {}


Racks = Mapping[TopicPartition, frozenset[str]]
"""The racks of each partition's replicas."""

NO_RACKS: Final[Racks] = {}


class Subscriptions:
    """The members by their ids, and the number of partitions of each topic that a member subscribes to and that exists."""

    def __init__(self, members: Sequence[Member], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> None:
        by_id = {each.id: each for each in members}
        self.members = {each: by_id[each] for each in HashOrder(string_hash, by_id)}
        named = HashOrder(string_hash, (topic for each in self.members.values() for topic in each.topics))
        self.partitions = {topic: partitions[topic] for topic in HashOrder(string_hash, (each for each in named if partitions.get(each)))}
        self.racks = {tp: racks.get(tp, frozenset()) for topic in self.partitions for tp in self.of(topic)}

    def of(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic."""
        return [TopicPartition(topic, number) for number in range(self.partitions[topic])]

    def sorted_topics(self) -> list[str]:
        return sorted(self.partitions, key=string_order)

    def nothing(self) -> dict[str, list[TopicPartition]]:
        """An assignment without partitions."""
        return {each: [] for each in self.members}


def member_order(member: Member) -> tuple[bool, bytes]:
    """Static members first, by instance id; then the others by member id."""
    dynamic = member.instance_id is None
    return dynamic, string_order(member.id if member.instance_id is None else member.instance_id)
