"""DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets: where share groups are in their partitions (KIP-932)."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import ZERO_UUID, WireStruct, i16, i32, i64, ignorable, since


class DescribeShareGroupOffsetsRequestTopic(WireStruct):
    """Partitions of one topic."""

    topic_name: str = ""
    partitions: list[i32] = []


class DescribeShareGroupOffsetsRequestGroup(WireStruct):
    """One group. Null: all its partitions."""

    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = []


class DescribeShareGroupOffsetsRequest(Message):
    """An administrator asks where groups are."""

    api = Api.DESCRIBE_SHARE_GROUP_OFFSETS
    versions = range(2)
    flexible = 0
    is_request = True

    groups: list[DescribeShareGroupOffsetsRequestGroup] = []


class DescribeShareGroupOffsetsResponsePartition(WireStruct):
    """The share-partition start offset, -1 if there is none yet, and how many records are left from there on."""

    partition_index: i32 = 0
    start_offset: i64 = 0
    leader_epoch: i32 = 0
    lag: Annotated[i64, since(1), ignorable] = -1
    error_code: i16 = 0
    error_message: str | None = None


class DescribeShareGroupOffsetsResponseTopic(WireStruct):
    """Partitions of one topic."""

    topic_name: str = ""
    topic_id: UUID = ZERO_UUID
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = []


class DescribeShareGroupOffsetsResponseGroup(WireStruct):
    """One group, or its error."""

    group_id: str = ""
    topics: list[DescribeShareGroupOffsetsResponseTopic] = []
    error_code: i16 = 0
    error_message: str | None = None


class DescribeShareGroupOffsetsResponse(Message):
    """The coordinator answers for each group."""

    api = Api.DESCRIBE_SHARE_GROUP_OFFSETS
    versions = range(2)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = []


class AlterShareGroupOffsetsRequestPartition(WireStruct):
    """The new start offset of one partition."""

    partition_index: i32 = 0
    start_offset: i64 = 0


class AlterShareGroupOffsetsRequestTopic(WireStruct):
    """Partitions of one topic."""

    topic_name: str = ""
    partitions: list[AlterShareGroupOffsetsRequestPartition] = []


class AlterShareGroupOffsetsRequest(Message):
    """An administrator moves a group that has no members."""

    api = Api.ALTER_SHARE_GROUP_OFFSETS
    versions = range(1)
    flexible = 0
    is_request = True

    group_id: str = ""
    topics: list[AlterShareGroupOffsetsRequestTopic] = []


class AlterShareGroupOffsetsResponsePartition(WireStruct):
    """The result for one partition."""

    partition_index: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None


class AlterShareGroupOffsetsResponseTopic(WireStruct):
    """The results for the partitions of one topic."""

    topic_name: str = ""
    topic_id: UUID = ZERO_UUID
    partitions: list[AlterShareGroupOffsetsResponsePartition] = []


class AlterShareGroupOffsetsResponse(Message):
    """The coordinator answers for each partition."""

    api = Api.ALTER_SHARE_GROUP_OFFSETS
    versions = range(1)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = []


class DeleteShareGroupOffsetsRequestTopic(WireStruct):
    """One topic."""

    topic_name: str = ""


class DeleteShareGroupOffsetsRequest(Message):
    """An administrator deletes what a group without members knows of topics."""

    api = Api.DELETE_SHARE_GROUP_OFFSETS
    versions = range(1)
    flexible = 0
    is_request = True

    group_id: str = ""
    topics: list[DeleteShareGroupOffsetsRequestTopic] = []


class DeleteShareGroupOffsetsResponseTopic(WireStruct):
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
    responses: list[DeleteShareGroupOffsetsResponseTopic] = []
