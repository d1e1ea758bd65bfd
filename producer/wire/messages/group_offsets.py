"""OffsetCommit, OffsetFetch and OffsetDelete: the offsets up to which a group has read. From version 10 on a topic has its id (KIP-848).

Only brokers up to Kafka 3.9 accept versions 0 and 1 of OffsetCommit and version 0 of OffsetFetch, which go back to offsets in ZooKeeper.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import NEVER, ZERO_UUID, WireStruct, i16, i32, i64, ignorable, nullable, since, until


class OffsetCommitRequestPartition(WireStruct):
    """The offset of one partition from which the group reads on."""

    partition_index: i32 = 0
    committed_offset: i64 = 0
    committed_leader_epoch: Annotated[i32, since(6), ignorable] = -1
    commit_timestamp: Annotated[i64, since(1), until(1)] = -1
    committed_metadata: str | None = ""


class OffsetCommitRequestTopic(WireStruct):
    """The partitions of one topic in the request."""

    name: Annotated[str, until(9), ignorable] = ""
    topic_id: Annotated[UUID, since(10), ignorable] = ZERO_UUID
    partitions: list[OffsetCommitRequestPartition] = []


class OffsetCommitRequest(Message):
    """A consumer tells the group coordinator to store offsets.

    Generation -1 without a member id is a consumer that assigns its partitions itself.
    """

    api = Api.OFFSET_COMMIT
    versions = range(11)
    flexible = 8
    is_request = True

    group_id: str = ""
    generation_id_or_member_epoch: Annotated[i32, since(1), ignorable] = -1
    member_id: Annotated[str, since(1), ignorable] = ""
    group_instance_id: Annotated[str | None, since(7)] = None
    retention_time_ms: Annotated[i64, since(2), until(4), ignorable] = -1
    topics: list[OffsetCommitRequestTopic] = []


class OffsetCommitResponsePartition(WireStruct):
    """Whether the coordinator stored the offset of one partition; if not, the error."""

    partition_index: i32 = 0
    error_code: i16 = 0


class OffsetCommitResponseTopic(WireStruct):
    """The results for the partitions of one topic."""

    name: Annotated[str, until(9), ignorable] = ""
    topic_id: Annotated[UUID, since(10), ignorable] = ZERO_UUID
    partitions: list[OffsetCommitResponsePartition] = []


class OffsetCommitResponse(Message):
    """The coordinator answers with one result per partition."""

    api = Api.OFFSET_COMMIT
    versions = range(11)
    flexible = 8
    is_request = False

    throttle_time_ms: Annotated[i32, since(3), ignorable] = 0
    topics: list[OffsetCommitResponseTopic] = []


class OffsetFetchRequestTopic(WireStruct):
    """Partitions of one topic, in the versions for one group."""

    name: Annotated[str, until(7)] = ""
    partition_indexes: Annotated[list[i32], until(7)] = []


class OffsetFetchRequestTopics(WireStruct):
    """Partitions of one topic, in the versions for several groups."""

    name: Annotated[str, since(8), until(9), ignorable] = ""
    topic_id: Annotated[UUID, since(10), ignorable] = ZERO_UUID
    partition_indexes: Annotated[list[i32], since(8)] = []


class OffsetFetchRequestGroup(WireStruct):
    """A group and the partitions that the client asks for; null means all that have an offset."""

    group_id: Annotated[str, since(8)] = ""
    member_id: Annotated[str | None, since(9), ignorable] = None
    member_epoch: Annotated[i32, since(9), ignorable] = -1
    topics: Annotated[list[OffsetFetchRequestTopics] | None, since(8)] = []


class OffsetFetchRequest(Message):
    """A client asks the group coordinator for the committed offsets of one group, from version 8 on of several."""

    api = Api.OFFSET_FETCH
    versions = range(11)
    flexible = 6
    is_request = True

    group_id: Annotated[str, until(7)] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, until(7), nullable(2)] = []
    groups: Annotated[list[OffsetFetchRequestGroup], since(8)] = []
    require_stable: Annotated[bool, since(7)] = False


class OffsetFetchResponsePartition(WireStruct):
    """The committed offset of one partition, -1 for none, in the versions for one group."""

    partition_index: Annotated[i32, until(7)] = 0
    committed_offset: Annotated[i64, until(7)] = 0
    committed_leader_epoch: Annotated[i32, since(5), until(7), ignorable] = -1
    metadata: Annotated[str | None, until(7)] = ""
    error_code: Annotated[i16, until(7)] = 0


class OffsetFetchResponseTopic(WireStruct):
    """The offsets of one topic's partitions, in the versions for one group."""

    name: Annotated[str, until(7)] = ""
    partitions: Annotated[list[OffsetFetchResponsePartition], until(7)] = []


class OffsetFetchResponsePartitions(WireStruct):
    """The committed offset of one partition, -1 for none, in the versions for several groups."""

    partition_index: Annotated[i32, since(8)] = 0
    committed_offset: Annotated[i64, since(8)] = 0
    committed_leader_epoch: Annotated[i32, since(8), ignorable] = -1
    metadata: Annotated[str | None, since(8)] = ""
    error_code: Annotated[i16, since(8)] = 0


class OffsetFetchResponseTopics(WireStruct):
    """The offsets of one topic's partitions, in the versions for several groups."""

    name: Annotated[str, since(8), until(9), ignorable] = ""
    topic_id: Annotated[UUID, since(10), ignorable] = ZERO_UUID
    partitions: Annotated[list[OffsetFetchResponsePartitions], since(8)] = []


class OffsetFetchResponseGroup(WireStruct):
    """The offsets of one group, or the error."""

    group_id: Annotated[str, since(8)] = ""
    topics: Annotated[list[OffsetFetchResponseTopics], since(8)] = []
    error_code: Annotated[i16, since(8)] = 0


class OffsetFetchResponse(Message):
    """The coordinator answers with the offsets of one group, from version 8 on of each group."""

    api = Api.OFFSET_FETCH
    versions = range(11)
    flexible = 6
    is_request = False

    throttle_time_ms: Annotated[i32, since(3), ignorable] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], until(7)] = []
    error_code: Annotated[i16, since(2), until(7), ignorable] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], since(8)] = []


class OffsetDeleteRequestPartition(WireStruct):
    """A partition whose offset the coordinator must delete."""

    partition_index: i32 = 0


class OffsetDeleteRequestTopic(WireStruct):
    """The partitions of one topic in the request."""

    name: str = ""
    partitions: list[OffsetDeleteRequestPartition] = []


class OffsetDeleteRequest(Message):
    """A client tells the group coordinator to delete committed offsets."""

    api = Api.OFFSET_DELETE
    versions = range(1)
    flexible = NEVER
    is_request = True

    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = []


class OffsetDeleteResponsePartition(WireStruct):
    """Whether the coordinator deleted the offset of one partition; if not, the error."""

    partition_index: i32 = 0
    error_code: i16 = 0


class OffsetDeleteResponseTopic(WireStruct):
    """The results for the partitions of one topic."""

    name: str = ""
    partitions: list[OffsetDeleteResponsePartition] = []


class OffsetDeleteResponse(Message):
    """The coordinator answers with one result per partition, or one error for all."""

    api = Api.OFFSET_DELETE
    versions = range(1)
    flexible = NEVER
    is_request = False

    error_code: i16 = 0
    throttle_time_ms: Annotated[i32, ignorable] = 0
    topics: list[OffsetDeleteResponseTopic] = []
