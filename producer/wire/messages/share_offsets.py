"""DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets: where share groups are in their partitions (KIP-932)."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import ZERO_UUID, WireStruct, i16, i32, i64, ignorable, since


class DescribedTopicRequest(WireStruct):
    """Partitions of one topic."""

    topic_name: str = ""
    partitions: list[i32] = []


class DescribedGroupRequest(WireStruct):
    """One group. Null: all its partitions."""

    group_id: str = ""
    topics: list[DescribedTopicRequest] | None = []


class DescribeShareGroupOffsetsRequest(Message):
    """An administrator asks where groups are."""

    api = Api.DESCRIBE_SHARE_GROUP_OFFSETS
    versions = range(2)
    flexible = 0
    is_request = True

    groups: list[DescribedGroupRequest] = []


class DescribedPartition(WireStruct):
    """The share-partition start offset, -1 if there is none yet, and how many records are left from there on."""

    partition_index: i32 = 0
    start_offset: i64 = 0
    leader_epoch: i32 = 0
    lag: Annotated[i64, since(1), ignorable] = -1
    error_code: i16 = 0
    error_message: str | None = None


class DescribedTopic(WireStruct):
    """Partitions of one topic."""

    topic_name: str = ""
    topic_id: UUID = ZERO_UUID
    partitions: list[DescribedPartition] = []


class DescribedGroupOffsets(WireStruct):
    """One group, or its error."""

    group_id: str = ""
    topics: list[DescribedTopic] = []
    error_code: i16 = 0
    error_message: str | None = None


class DescribeShareGroupOffsetsResponse(Message):
    """The coordinator answers for each group."""

    api = Api.DESCRIBE_SHARE_GROUP_OFFSETS
    versions = range(2)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    groups: list[DescribedGroupOffsets] = []


class AlteredPartition(WireStruct):
    """The new start offset of one partition."""

    partition_index: i32 = 0
    start_offset: i64 = 0


class AlteredTopic(WireStruct):
    """Partitions of one topic."""

    topic_name: str = ""
    partitions: list[AlteredPartition] = []


class AlterShareGroupOffsetsRequest(Message):
    """An administrator moves a group that has no members."""

    api = Api.ALTER_SHARE_GROUP_OFFSETS
    versions = range(1)
    flexible = 0
    is_request = True

    group_id: str = ""
    topics: list[AlteredTopic] = []


class AlteredPartitionResponse(WireStruct):
    """The result for one partition."""

    partition_index: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None


class AlteredTopicResponse(WireStruct):
    """The results for the partitions of one topic."""

    topic_name: str = ""
    topic_id: UUID = ZERO_UUID
    partitions: list[AlteredPartitionResponse] = []


class AlterShareGroupOffsetsResponse(Message):
    """The coordinator answers for each partition."""

    api = Api.ALTER_SHARE_GROUP_OFFSETS
    versions = range(1)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    responses: list[AlteredTopicResponse] = []


class DeletedTopic(WireStruct):
    """One topic."""

    topic_name: str = ""


class DeleteShareGroupOffsetsRequest(Message):
    """An administrator deletes what a group without members knows of topics."""

    api = Api.DELETE_SHARE_GROUP_OFFSETS
    versions = range(1)
    flexible = 0
    is_request = True

    group_id: str = ""
    topics: list[DeletedTopic] = []


class DeletedTopicResponse(WireStruct):
    """The result for one topic."""

    topic_name: str = ""
    topic_id: UUID = ZERO_UUID
    error_code: i16 = 0
    error_message: str | None = None


class DeleteShareGroupOffsetsResponse(Message):
    """The coordinator answers for each topic."""

    api = Api.DELETE_SHARE_GROUP_OFFSETS
    versions = range(1)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    responses: list[DeletedTopicResponse] = []
