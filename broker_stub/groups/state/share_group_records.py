"""What group coordinators write into `__consumer_offsets` for share groups, in Kafka's own format (KIP-932).

A group is the sum of its records: `share_group` replays them. A record without a value deletes what its key names.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple
from uuid import UUID

from fencepost.broker_stub.cluster.record_format import prefix_of, read, written
from fencepost.broker_stub.groups.state.consumer_group_records import GroupKey, MemberKey
from fencepost.producer.wire.schema.fields import ZERO_UUID, WireStruct, i8, i32, i64, tag


class MemberMetadata(WireStruct):
    """A member and its subscription."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []


class GroupMetadata(WireStruct):
    """The group's epoch, and a hash of the topics to which it subscribes."""

    epoch: i32 = 0
    metadata_hash: i64 = 0


class TargetAssignmentMetadata(WireStruct):
    """The group's epoch when the target assignment was computed, and when that was."""

    assignment_epoch: i32 = 0
    assignment_timestamp: Annotated[i64, tag(0)] = 0


class TopicPartitions(WireStruct):
    """Partitions of one topic."""

    topic_id: UUID = ZERO_UUID
    partitions: list[i32] = []


class TargetAssignment(WireStruct):
    """All that a member will have."""

    topic_partitions: list[TopicPartitions] = []


class CurrentAssignment(WireStruct):
    """The epoch of a member, and what it has. `state` is always 0, for stable."""

    member_epoch: i32 = 0
    previous_member_epoch: i32 = 0
    state: i8 = 0
    assigned_partitions: list[TopicPartitions] = []


class InitializedPartitions(WireStruct):
    """Partitions of one topic, with its name."""

    topic_id: UUID = ZERO_UUID
    topic_name: str = ""
    partitions: list[i32] = []


class DeletedTopic(WireStruct):
    """A topic, with its name."""

    topic_id: UUID = ZERO_UUID
    topic_name: str = ""


class StatePartitions(WireStruct):
    """The share partitions that the share coordinator keeps, is about to keep, or is about to delete."""

    initializing_topics: list[InitializedPartitions] = []
    initialized_topics: list[InitializedPartitions] = []
    deleting_topics: list[DeletedTopic] = []


class _Kind(NamedTuple):
    """The key and the value of one type of record."""

    key: type[GroupKey | MemberKey]
    value: type[WireStruct]


KINDS: Final = {
    10: _Kind(MemberKey, MemberMetadata),
    11: _Kind(GroupKey, GroupMetadata),
    12: _Kind(GroupKey, TargetAssignmentMetadata),
    13: _Kind(MemberKey, TargetAssignment),
    14: _Kind(MemberKey, CurrentAssignment),
    15: _Kind(GroupKey, StatePartitions),
}
"""By the type in the key. Keys and values have version 0; the values are flexible."""

_NUMBERS: Final = {kind.value: number for number, kind in KINDS.items()}


class ShareGroupRecord(NamedTuple):
    """One record. `of`: the type of its value, also where that is deleted."""

    key: GroupKey | MemberKey
    of: type[WireStruct]
    value: WireStruct | None = None

    def entry(self) -> tuple[bytes, bytes | None]:
        """The key and the value as they are written."""
        key = written(self.key, _NUMBERS[self.of], version=0)
        return key, written(self.value, 0, version=0, flexible=True) if self.value is not None else None


def group_record(group_id: str, value: GroupMetadata | TargetAssignmentMetadata | StatePartitions) -> ShareGroupRecord:
    return ShareGroupRecord(GroupKey(group_id=group_id), type(value), value)


def member_record(group_id: str, member_id: str, value: MemberMetadata | TargetAssignment | CurrentAssignment) -> ShareGroupRecord:
    return ShareGroupRecord(MemberKey(group_id=group_id, member_id=member_id), type(value), value)


def no_group(group_id: str, of: type[WireStruct]) -> ShareGroupRecord:
    """Deletes a record of the group itself."""
    return ShareGroupRecord(GroupKey(group_id=group_id), of)


def no_member(group_id: str, member_id: str) -> list[ShareGroupRecord]:
    """Deletes the records of a member."""
    key = MemberKey(group_id=group_id, member_id=member_id)
    return [ShareGroupRecord(key, of) for of in (CurrentAssignment, TargetAssignment, MemberMetadata)]


def read_share_group_record(key: bytes, value: bytes | None) -> ShareGroupRecord | None:
    """The content of a record. None: a record of another type."""
    kind = KINDS.get(prefix_of(key))
    if kind is None:
        return None
    found = read(kind.value, value, version=0, flexible=True) if value is not None else None
    return ShareGroupRecord(read(kind.key, key, version=0), kind.value, found)
