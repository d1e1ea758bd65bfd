"""Computes what every member of a consumer group will own, with one of the server's assignors (Kafka's `TargetAssignmentBuilder`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from fencepost.broker_stub.cluster.topics import Topics
from fencepost.broker_stub.groups.consumer.server_assignors import ASSIGNORS, Subscriber, Subscriptions
from fencepost.broker_stub.groups.state.consumer_group import ConsumerGroup, ConsumerMember, Target, target_assignment
from fencepost.broker_stub.groups.state.consumer_group_records import ConsumerRecord, TargetAssignmentMetadata, group_record, member_record


class NewTarget(NamedTuple):
    """The new assignment, and its records: of the members whose assignment is another one, then of the group."""

    of_members: Mapping[str, Target]
    records: list[ConsumerRecord]


def new_target(group: ConsumerGroup, member: ConsumerMember, epoch: int, topics: Topics, *, assignor: str, now_ms: int) -> NewTarget:
    """Assigns the partitions to the group's members, with this member as it is now. A static member under a new id replaces itself."""
    before = group.static_member(member.instance_id)
    members = {each.id: each for each in group.members.values() if before is None or each.id != before.id}
    members[member.id] = member
    subscribers = {
        each.id: Subscriber(each.instance_id, topic_ids(group, each, topics), group.target_of(each.id, each.instance_id))
        for each in members.values()
    }
    sizes = {topic.id: len(topic.partitions) for topic in topics}
    found = ASSIGNORS[assignor](
        Subscriptions(subscribers, sizes, frozenset(group.targeted()), are_equal=_are_equal(group, list(members.values())))
    )
    of_members = {member_id: found.get(member_id, {}) for member_id in members}
    records = [
        member_record(group.id, member_id, target_assignment(target))
        for member_id, target in of_members.items()
        if group.target.get(member_id) != target
    ]
    records.append(group_record(group.id, TargetAssignmentMetadata(assignment_epoch=epoch, assignment_timestamp=now_ms)))
    return NewTarget(of_members, records)


def topic_ids(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> frozenset[UUID]:
    """The topics of a member that exist."""
    found = (topics.named(name) for name in group.subscription_of(member))
    return frozenset(topic.id for topic in found if topic is not None)


def _are_equal(group: ConsumerGroup, members: list[ConsumerMember]) -> bool:
    """Whether all members subscribe to the same topics, as far as Kafka sees it: all by name, or all by one regular expression."""
    names = Counter(name for member in members for name in member.topics)
    regexes = {member.regex for member in members if member.regex}
    if not regexes:
        return all(count == len(members) for count in names.values())
    if len(regexes) > 1 or not all(member.regex for member in members):
        return False
    return not names
