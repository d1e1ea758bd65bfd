"""What group coordinators write into `__consumer_offsets` for groups of the consumer protocol, in Kafka's own format (KIP-848).

A group is the sum of its records: `consumer_group` replays them. A record without a value deletes what its key names. This file decides
nothing about groups.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple
from uuid import UUID

from fencepost.broker_stub.cluster.record_format import prefix_of, read, written
from fencepost.producer.wire.schema.fields import ZERO_UUID, WireStruct, i8, i32, i64, tag


class GroupKey(WireStruct):
    """The key of a group's own records."""

    group_id: str = ""


class MemberKey(WireStruct):
    """The key of a member's records."""

    group_id: str = ""
    member_id: str = ""


class RegularExpressionKey(WireStruct):
    """The key of a regular expression."""

    group_id: str = ""
    regular_expression: str = ""


class GroupMetadata(WireStruct):
    """The group's epoch, and a hash of the topics to which it subscribes."""

    epoch: i32 = 0
    metadata_hash: Annotated[i64, tag(0)] = 0


class PartitionMetadata(WireStruct):
    """What was known of the group's topics before Kafka 4.1. It is not read, and only its deletion is written."""


class ClassicProtocol(WireStruct):
    """An assignor of a member of the classic protocol, and its metadata for it."""

    name: str = ""
    metadata: bytes = b""


class ClassicMemberMetadata(WireStruct):
    """What only a member of the classic protocol has."""

    session_timeout_ms: i32 = 0
    supported_protocols: list[ClassicProtocol] = []


class MemberMetadata(WireStruct):
    """A member and its subscription."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: i32 = -1
    server_assignor: str | None = None
    # Kafka writes the null of a member of the consumer protocol, because its default is a struct without content.
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, tag(0)] = ClassicMemberMetadata()


class TargetAssignmentMetadata(WireStruct):
    """The group's epoch when the target assignment was computed, and when that was."""

    assignment_epoch: i32 = 0
    assignment_timestamp: Annotated[i64, tag(0)] = 0


class TargetPartitions(WireStruct):
    """Partitions of one topic that a member will own."""

    topic_id: UUID = ZERO_UUID
    partitions: list[i32] = []


class TargetAssignment(WireStruct):
    """All that a member will own."""

    topic_partitions: list[TargetPartitions] = []


class CurrentPartitions(WireStruct):
    """Partitions of one topic that a member owns, and the epochs since which it does (KIP-1251)."""

    topic_id: UUID = ZERO_UUID
    partitions: list[i32] = []
    assignment_epochs: Annotated[list[i32] | None, tag(0)] = None


class CurrentAssignment(WireStruct):
    """The epoch and the state of a member, what it owns, and what it still has to give up."""

    member_epoch: i32 = 0
    previous_member_epoch: i32 = 0
    state: i8 = 0
    assigned_partitions: list[CurrentPartitions] = []
    partitions_pending_revocation: list[CurrentPartitions] = []


class RegularExpression(WireStruct):
    """The topics that a regular expression matches."""

    topics: list[str] = []
    version: i64 = 0
    timestamp: i64 = 0


Key = GroupKey | MemberKey | RegularExpressionKey


class _Kind(NamedTuple):
    """The key and the value of one type of record."""

    key: type[Key]
    value: type[WireStruct]


KINDS: Final = {
    3: _Kind(GroupKey, GroupMetadata),
    4: _Kind(GroupKey, PartitionMetadata),
    5: _Kind(MemberKey, MemberMetadata),
    6: _Kind(GroupKey, TargetAssignmentMetadata),
    7: _Kind(MemberKey, TargetAssignment),
    8: _Kind(MemberKey, CurrentAssignment),
    16: _Kind(RegularExpressionKey, RegularExpression),
}
"""By the type in the key. Keys and values have version 0; the values are flexible."""

_NUMBERS: Final = {kind.value: number for number, kind in KINDS.items()}


class ConsumerRecord(NamedTuple):
    """One record. `of`: the type of its value, also where that is deleted."""

    key: Key
    of: type[WireStruct]
    value: WireStruct | None = None

    def entry(self) -> tuple[bytes, bytes | None]:
        """The key and the value as they are written."""
        key = written(self.key, _NUMBERS[self.of], version=0)
        return key, written(self.value, 0, version=0, flexible=True) if self.value is not None else None


def group_record(group_id: str, value: GroupMetadata | TargetAssignmentMetadata) -> ConsumerRecord:
    return ConsumerRecord(GroupKey(group_id=group_id), type(value), value)


def member_record(group_id: str, member_id: str, value: MemberMetadata | TargetAssignment | CurrentAssignment) -> ConsumerRecord:
    return ConsumerRecord(MemberKey(group_id=group_id, member_id=member_id), type(value), value)


def regex_record(group_id: str, regex: str, value: RegularExpression) -> ConsumerRecord:
    return ConsumerRecord(RegularExpressionKey(group_id=group_id, regular_expression=regex), RegularExpression, value)


def no_group(group_id: str, of: type[WireStruct]) -> ConsumerRecord:
    """Deletes a record of the group itself."""
    return ConsumerRecord(GroupKey(group_id=group_id), of)


def no_member(group_id: str, member_id: str, of: type[WireStruct]) -> ConsumerRecord:
    """Deletes a record of a member."""
    return ConsumerRecord(MemberKey(group_id=group_id, member_id=member_id), of)


def no_regex(group_id: str, regex: str) -> ConsumerRecord:
    return ConsumerRecord(RegularExpressionKey(group_id=group_id, regular_expression=regex), RegularExpression)


def read_consumer_record(key: bytes, value: bytes | None) -> ConsumerRecord | None:
    """The content of a record. None: a record of another type."""
    kind = KINDS.get(prefix_of(key))
    if kind is None:
        return None
    found = None
    if value is not None:
        found = PartitionMetadata() if kind.value is PartitionMetadata else read(kind.value, value, version=0, flexible=True)
    return ConsumerRecord(read(kind.key, key, version=0), kind.value, found)
