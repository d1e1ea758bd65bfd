"""The assignor of share groups (Kafka's SimpleAssignor). A pure function from subscriptions to a target assignment.

Every partition has members, and as far as possible the same number of them; every member has a partition. Members keep what they can.
Members come in the order of Kafka's hash tables, topics in the order of their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil
from typing import Final, NamedTuple
from uuid import UUID

from fencepost.broker_stub.cluster.coordinator_partition import string_hash
from fencepost.broker_stub.groups.assignors.java_order import HashOrder
from fencepost.broker_stub.groups.state.share_group import Partitions

NAME: Final = "simple"

TopicPartition = tuple[UUID, int]


class Subscriber(NamedTuple):
    """A member: the topics to which it subscribes, and what it would have by the last target assignment."""

    topics: frozenset[UUID]
    target: Partitions


def assign_simple(members: Mapping[str, Subscriber], assignable: Mapping[UUID, frozenset[int]]) -> dict[str, Partitions]:
    """`assignable`: the partitions that may be given away, of every topic."""
    order = [*HashOrder(string_hash, members)]
    if len({members[each].topics for each in order}) == 1:
        topics = members[order[0]].topics
        wanted = [(topic_id, index) for topic_id in sorted(topics) for index in sorted(assignable.get(topic_id, ()))]
        kept = {each: [*_partitions_of(members[each].target, topics.__contains__)] for each in order}
        shares = _share_out(order, wanted, kept)
        return {each: _by_topic(shares[each]) for each in order}
    assigned: dict[str, list[TopicPartition]] = {each: [] for each in order}
    for topic_id in sorted({topic_id for each in order for topic_id in members[each].topics}):
        readers = [each for each in order if topic_id in members[each].topics]
        wanted = [(topic_id, index) for index in sorted(assignable.get(topic_id, ()))]
        kept = {each: [*_partitions_of(members[each].target, topic_id.__eq__)] for each in readers}
        for each, share in _share_out(readers, wanted, kept).items():
            assigned[each] += share
    return {each: _by_topic(assigned[each]) for each in order}


def _share_out(
    members: Sequence[str], wanted: Sequence[TopicPartition], kept: Mapping[str, Sequence[TopicPartition]]
) -> dict[str, list[TopicPartition]]:
    """Gives each partition the same number of members. `kept`: what each member has."""
    each_has = -(-len(members) // len(wanted)) if wanted else 0
    share = each_has * len(wanted) / len(members)
    room = {member: ceil(share * (at + 1)) - ceil(share * at) for at, member in enumerate(members)}
    owners: dict[TopicPartition, list[str]] = {}
    shares: dict[str, list[TopicPartition]] = {}
    for member in members:
        surplus = len(kept[member]) - room[member]
        shares[member] = [*kept[member][max(surplus, 0) :]]  # a member with too many gives up its first ones
        for each in shares[member]:
            owners.setdefault(each, []).append(member)
    for each, having in owners.items():
        for member in having[: max(len(having) - each_has, 0)]:
            shares[member].remove(each)
        del having[: max(len(having) - each_has, 0)]
    for each in wanted:
        owners.setdefault(each, [])
    _fill({each: owners[each] for each in owners if each in set(wanted)}, each_has, room, shares)
    return shares


def _fill(
    owners: Mapping[TopicPartition, list[str]], each_has: int, room: Mapping[str, int], shares: Mapping[str, list[TopicPartition]]
) -> None:
    """Goes round the members with room until every partition has its members."""
    waiting = [member for member in shares if len(shares[member]) < room[member]]
    turn = 0
    for each, having in owners.items():
        passed = 0
        while len(having) < each_has and waiting and passed < len(waiting):
            turn %= len(waiting)
            member = waiting[turn]
            if member in having:
                turn, passed = turn + 1, passed + 1
                continue
            having.append(member)
            shares[member].append(each)
            passed = 0
            if len(shares[member]) >= room[member]:
                del waiting[turn]
            else:
                turn += 1


def _partitions_of(target: Partitions, counts: Callable[[UUID], bool]) -> Iterable[TopicPartition]:
    return ((topic_id, index) for topic_id in sorted(target) if counts(topic_id) for index in sorted(target[topic_id]))


def _by_topic(partitions: Iterable[TopicPartition]) -> Partitions:
    found: dict[UUID, set[int]] = {}
    for topic_id, index in partitions:
        found.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in found.items()}
