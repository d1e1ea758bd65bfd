"""A share group: its members, its epochs, what each member has, and which partitions the share coordinator keeps for it (KIP-932).

The group is what its records say: `replay` makes every change, while a coordinator runs and when one loads the log. It waits for nothing,
sets no timer and answers no request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from fencepost.broker_stub.groups.state.consumer_group_records import MemberKey
from fencepost.broker_stub.groups.state.share_group_records import (
    CurrentAssignment,
    DeletedTopic,
    GroupMetadata,
    InitializedPartitions,
    MemberMetadata,
    ShareGroupRecord,
    StatePartitions,
    TargetAssignment,
    TargetAssignmentMetadata,
    TopicPartitions,
    group_record,
    no_group,
    no_member,
)

PROTOCOL_TYPE: Final = "share"
JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
FIRST_EPOCH: Final = 1

Partitions = Mapping[UUID, frozenset[int]]
"""Partitions by topic id."""


class GroupState(Enum):
    """The values are the names in ShareGroupDescribe and ListGroups."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareMember(Struct, frozen=True, kw_only=True):
    """One member."""

    id: str
    epoch: int = JOIN_EPOCH
    previous_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    assigned: Partitions = {}


class Kept(NamedTuple):
    """Partitions of a topic that the share coordinator keeps or is about to keep. `since_ms`: when that was written."""

    name: str
    partitions: frozenset[int]
    since_ms: int = 0


class KeptTopics(NamedTuple):
    """The share partitions of a group, by topic id. `deleting`: names."""

    initializing: Mapping[UUID, Kept] = {}
    initialized: Mapping[UUID, Kept] = {}
    deleting: Mapping[UUID, str] = {}

    def record(self, group_id: str) -> ShareGroupRecord:
        value = StatePartitions(
            initializing_topics=_listed(self.initializing),
            initialized_topics=_listed(self.initialized),
            deleting_topics=[DeletedTopic(topic_id=topic_id, topic_name=name) for topic_id, name in self.deleting.items()],
        )
        return group_record(group_id, value)


class ShareGroup:
    """One group, with its members in the order of their joining."""

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assigned_at_ms = 0
        self.members: dict[str, ShareMember] = {}
        self.target: dict[str, Partitions] = {}  # by member id
        self.kept: KeptTopics | None = None

    @property
    def state(self) -> GroupState:
        return GroupState.STABLE if self.members else GroupState.EMPTY

    @property
    def initialized(self) -> Mapping[UUID, Kept]:
        """The partitions that can be assigned."""
        return self.kept.initialized if self.kept is not None else {}

    def subscribed(self, *, without: str | None = None, more: ShareMember | None = None) -> set[str]:
        """Every topic to which a member subscribes, without one member, and with one as it will be."""
        gone = {without, more.id if more is not None else None}
        names = {name for member in self.members.values() if member.id not in gone for name in member.topics}
        return names | more.topics if more is not None else names

    @property
    def lacks_assignment(self) -> bool:
        """Whether a topic to which it subscribes has initialized partitions that no member is going to have."""
        targeted: dict[UUID, frozenset[int]] = {}
        for target in self.target.values():
            for topic_id, indexes in target.items():
                targeted[topic_id] = targeted.get(topic_id, frozenset()) | indexes
        names = self.subscribed()
        return any(each.name in names and targeted.get(topic_id) != each.partitions for topic_id, each in self.initialized.items())

    def tombstones(self) -> list[ShareGroupRecord]:
        """Deletes all records of the group."""
        by_type = zip(*(no_member(self.id, member_id) for member_id in self.members), strict=True)
        current, target, metadata = [list(each) for each in by_type] or ([], [], [])
        return [
            *current,
            *target,
            no_group(self.id, TargetAssignmentMetadata),
            *metadata,
            no_group(self.id, StatePartitions),
            no_group(self.id, GroupMetadata),
        ]


class ShareGroupStates:
    """The groups of one shard, by their ids."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.groups: dict[str, ShareGroup] = {}
        self._now_ms = now_ms

    def replay(self, record: ShareGroupRecord) -> None:
        """Makes the change that the record says. What a compacted log has lost is no error."""
        group = self.groups.get(record.key.group_id)
        if group is None:
            if record.value is None:
                return
            group = self.groups[record.key.group_id] = ShareGroup(record.key.group_id)
        _CHANGES[record.of](self, group, record)

    def _group_metadata(self, group: ShareGroup, record: ShareGroupRecord) -> None:
        if record.value is None:
            del self.groups[group.id]
            return
        assert isinstance(record.value, GroupMetadata)
        group.epoch, group.metadata_hash = record.value.epoch, record.value.metadata_hash

    def _member_metadata(self, group: ShareGroup, record: ShareGroupRecord) -> None:
        assert isinstance(record.key, MemberKey)
        value = record.value
        if value is None:
            group.members.pop(record.key.member_id, None)
            return
        assert isinstance(value, MemberMetadata)
        group.members[record.key.member_id] = replace(
            group.members.get(record.key.member_id) or ShareMember(id=record.key.member_id),
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
        )

    def _target_metadata(self, group: ShareGroup, record: ShareGroupRecord) -> None:
        value = record.value
        assert value is None or isinstance(value, TargetAssignmentMetadata)
        group.assignment_epoch = value.assignment_epoch if value is not None else -1
        group.assigned_at_ms = value.assignment_timestamp if value is not None else 0

    def _target(self, group: ShareGroup, record: ShareGroupRecord) -> None:
        assert isinstance(record.key, MemberKey)
        if record.value is None:
            group.target.pop(record.key.member_id, None)
            return
        assert isinstance(record.value, TargetAssignment)
        group.target[record.key.member_id] = _partitions(record.value.topic_partitions)

    def _current(self, group: ShareGroup, record: ShareGroupRecord) -> None:
        assert isinstance(record.key, MemberKey)
        member = group.members.get(record.key.member_id)
        value = record.value
        if value is None:
            if member is not None:
                nothing: Partitions = {}
                group.members[member.id] = replace(member, epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned=nothing)
            return
        assert isinstance(value, CurrentAssignment)
        group.members[record.key.member_id] = replace(
            member or ShareMember(id=record.key.member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=_partitions(value.assigned_partitions),
        )

    def _state_partitions(self, group: ShareGroup, record: ShareGroupRecord) -> None:
        value = record.value
        if value is None:
            group.kept = None
            return
        assert isinstance(value, StatePartitions)
        group.kept = KeptTopics(
            self._kept(value.initializing_topics),
            self._kept(value.initialized_topics),
            {each.topic_id: each.topic_name for each in value.deleting_topics},
        )

    def _kept(self, topics: Iterable[InitializedPartitions]) -> dict[UUID, Kept]:
        now_ms = self._now_ms()
        return {each.topic_id: Kept(each.topic_name, frozenset(each.partitions), now_ms) for each in topics}


_CHANGES: Final[dict[type, Callable[[ShareGroupStates, ShareGroup, ShareGroupRecord], None]]] = {
    MemberMetadata: ShareGroupStates._member_metadata,
    GroupMetadata: ShareGroupStates._group_metadata,
    TargetAssignmentMetadata: ShareGroupStates._target_metadata,
    TargetAssignment: ShareGroupStates._target,
    CurrentAssignment: ShareGroupStates._current,
    StatePartitions: ShareGroupStates._state_partitions,
}


def _listed(kept: Mapping[UUID, Kept]) -> list[InitializedPartitions]:
    return [
        InitializedPartitions(topic_id=topic_id, topic_name=each.name, partitions=sorted(each.partitions))
        for topic_id, each in kept.items()
    ]


def _partitions(topics: Iterable[TopicPartitions]) -> Partitions:
    return {each.topic_id: frozenset(each.partitions) for each in topics}


# The values of records


def member_metadata(member: ShareMember) -> MemberMetadata:
    return MemberMetadata(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
    )


def target_assignment(target: Partitions) -> TargetAssignment:
    return TargetAssignment(topic_partitions=topic_partitions(target))


def current_assignment(member: ShareMember) -> CurrentAssignment:
    return CurrentAssignment(
        member_epoch=member.epoch, previous_member_epoch=member.previous_epoch, assigned_partitions=topic_partitions(member.assigned)
    )


def topic_partitions(partitions: Partitions) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=topic_id, partitions=sorted(indexes)) for topic_id, indexes in partitions.items()]
