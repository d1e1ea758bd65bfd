"""ShareGroupHeartbeat and ShareGroupDescribe: the members of a share group, and its coordinator (KIP-932).

Several members may have the same partition. A member says to which topics it subscribes, and the coordinator answers with its partitions.
"""

from __future__ import annotations

from uuid import UUID

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import ZERO_UUID, WireStruct, i16, i32


class TopicPartitions(WireStruct):
    """Partitions of one topic."""

    topic_id: UUID = ZERO_UUID
    partitions: list[i32] = []


class ShareGroupHeartbeatRequest(Message):
    """A member joins with epoch 0, heartbeats with its epoch, and leaves with epoch -1. Null: unchanged since the last heartbeat."""

    api = Api.SHARE_GROUP_HEARTBEAT
    versions = range(1, 2)
    flexible = 0
    is_request = True

    group_id: str = ""
    member_id: str = ""
    member_epoch: i32 = 0
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None


class Assignment(WireStruct):
    """The member's partitions."""

    topic_partitions: list[TopicPartitions] = []


class ShareGroupHeartbeatResponse(Message):
    """The coordinator answers with the member's epoch, and with its assignment if that changed."""

    api = Api.SHARE_GROUP_HEARTBEAT
    versions = range(1, 2)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: i32 = 0
    heartbeat_interval_ms: i32 = 0
    assignment: Assignment | None = None


class ShareGroupDescribeRequest(Message):
    """An administrator asks for share groups, their members and what these have."""

    api = Api.SHARE_GROUP_DESCRIBE
    versions = range(1, 2)
    flexible = 0
    is_request = True

    group_ids: list[str] = []
    include_authorized_operations: bool = False


class DescribedPartitions(WireStruct):
    """Partitions of one topic, with its name."""

    topic_id: UUID = ZERO_UUID
    topic_name: str = ""
    partitions: list[i32] = []


class DescribedAssignment(WireStruct):
    """The partitions of one member."""

    topic_partitions: list[DescribedPartitions] = []


class Member(WireStruct):
    """One member."""

    member_id: str = ""
    rack_id: str | None = None
    member_epoch: i32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    assignment: DescribedAssignment = DescribedAssignment()


class DescribedGroup(WireStruct):
    """One group, or its error."""

    error_code: i16 = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: i32 = 0
    assignment_epoch: i32 = 0
    assignor_name: str = ""
    members: list[Member] = []
    authorized_operations: i32 = -(1 << 31)


class ShareGroupDescribeResponse(Message):
    """The coordinator answers for each group."""

    api = Api.SHARE_GROUP_DESCRIBE
    versions = range(1, 2)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    groups: list[DescribedGroup] = []
