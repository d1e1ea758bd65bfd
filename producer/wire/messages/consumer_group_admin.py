"""ConsumerGroupDescribe: an administrator looks at groups of the consumer protocol (KIP-848)."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import ZERO_UUID, WireStruct, i8, i16, i32, ignorable, since


class ConsumerGroupDescribeRequest(Message):
    """A client asks the coordinator of each group about the group."""

    api = Api.CONSUMER_GROUP_DESCRIBE
    versions = range(2)
    flexible = 0
    is_request = True

    group_ids: list[str] = []
    include_authorized_operations: bool = False


class TopicPartitions(WireStruct):
    """Partitions of one topic, with its name."""

    topic_id: UUID = ZERO_UUID
    topic_name: str = ""
    partitions: list[i32] = []


class Assignment(WireStruct):
    """What a member owns, or what it will own."""

    topic_partitions: list[TopicPartitions] = []


class Member(WireStruct):
    """A member of a group, with its subscription and its assignments."""

    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: i32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    subscribed_topic_regex: str | None = None
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    member_type: Annotated[i8, since(1), ignorable] = -1


class DescribedGroup(WireStruct):
    """A group and its members, or the error."""

    error_code: i16 = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: i32 = 0
    assignment_epoch: i32 = 0
    assignor_name: str = ""
    members: list[Member] = []
    authorized_operations: i32 = -2147483648


class ConsumerGroupDescribeResponse(Message):
    """The coordinator answers with one result per group."""

    api = Api.CONSUMER_GROUP_DESCRIBE
    versions = range(2)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    groups: list[DescribedGroup] = []
