"""The requests of brokers to the share coordinator, which keeps the state of share partitions (KIP-932).

Only brokers send them. A share partition is a partition as one share group sees it.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import ZERO_UUID, WireStruct, i8, i16, i32, i64, ignorable, since


class StateBatch(WireStruct):
    """Records with the same delivery state: 0 available, 2 acknowledged, 4 archived."""

    first_offset: i64 = 0
    last_offset: i64 = 0
    delivery_state: i8 = 0
    delivery_count: i16 = 0


class PartitionResult(WireStruct):
    """The result for one partition."""

    partition: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None


class TopicResult(WireStruct):
    """The results for the partitions of one topic."""

    topic_id: UUID = ZERO_UUID
    partitions: list[PartitionResult] = []


class InitializedPartition(WireStruct):
    """A new share partition. A start offset of -1: the first leader decides it."""

    partition: i32 = 0
    state_epoch: i32 = 0
    start_offset: i64 = 0


class InitializedTopic(WireStruct):
    """Partitions of one topic."""

    topic_id: UUID = ZERO_UUID
    partitions: list[InitializedPartition] = []


class InitializeShareGroupStateRequest(Message):
    """The group coordinator begins share partitions, or begins them anew."""

    api = Api.INITIALIZE_SHARE_GROUP_STATE
    versions = range(1)
    flexible = 0
    is_request = True

    group_id: str = ""
    topics: list[InitializedTopic] = []


class InitializeShareGroupStateResponse(Message):
    """The share coordinator answers for each partition."""

    api = Api.INITIALIZE_SHARE_GROUP_STATE
    versions = range(1)
    flexible = 0
    is_request = False

    results: list[TopicResult] = []


class ReadPartition(WireStruct):
    """A share partition, and its leader's epoch."""

    partition: i32 = 0
    leader_epoch: i32 = 0


class ReadTopic(WireStruct):
    """Partitions of one topic."""

    topic_id: UUID = ZERO_UUID
    partitions: list[ReadPartition] = []


class ReadShareGroupStateRequest(Message):
    """A new leader reads its share partitions."""

    api = Api.READ_SHARE_GROUP_STATE
    versions = range(1)
    flexible = 0
    is_request = True

    group_id: str = ""
    topics: list[ReadTopic] = []


class ReadPartitionResult(WireStruct):
    """The whole state of one share partition."""

    partition: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    state_epoch: i32 = 0
    start_offset: i64 = 0
    state_batches: list[StateBatch] = []


class ReadTopicResult(WireStruct):
    """The results for the partitions of one topic."""

    topic_id: UUID = ZERO_UUID
    partitions: list[ReadPartitionResult] = []


class ReadShareGroupStateResponse(Message):
    """The share coordinator answers for each partition."""

    api = Api.READ_SHARE_GROUP_STATE
    versions = range(1)
    flexible = 0
    is_request = False

    results: list[ReadTopicResult] = []


class WrittenPartition(WireStruct):
    """What changed in one share partition."""

    partition: i32 = 0
    state_epoch: i32 = 0
    leader_epoch: i32 = 0
    start_offset: i64 = 0
    delivery_complete_count: Annotated[i32, since(1), ignorable] = -1
    state_batches: list[StateBatch] = []


class WrittenTopic(WireStruct):
    """Partitions of one topic."""

    topic_id: UUID = ZERO_UUID
    partitions: list[WrittenPartition] = []


class WriteShareGroupStateRequest(Message):
    """A leader keeps what changed in its share partitions."""

    api = Api.WRITE_SHARE_GROUP_STATE
    versions = range(2)
    flexible = 0
    is_request = True

    group_id: str = ""
    topics: list[WrittenTopic] = []


class WriteShareGroupStateResponse(Message):
    """The share coordinator answers for each partition."""

    api = Api.WRITE_SHARE_GROUP_STATE
    versions = range(2)
    flexible = 0
    is_request = False

    results: list[TopicResult] = []


class DeletedPartition(WireStruct):
    """A share partition."""

    partition: i32 = 0


class DeletedTopic(WireStruct):
    """Partitions of one topic."""

    topic_id: UUID = ZERO_UUID
    partitions: list[DeletedPartition] = []


class DeleteShareGroupStateRequest(Message):
    """The group coordinator ends share partitions."""

    api = Api.DELETE_SHARE_GROUP_STATE
    versions = range(1)
    flexible = 0
    is_request = True

    group_id: str = ""
    topics: list[DeletedTopic] = []


class DeleteShareGroupStateResponse(Message):
    """The share coordinator answers for each partition."""

    api = Api.DELETE_SHARE_GROUP_STATE
    versions = range(1)
    flexible = 0
    is_request = False

    results: list[TopicResult] = []


class ReadShareGroupStateSummaryRequest(Message):
    """The group coordinator asks where share partitions are."""

    api = Api.READ_SHARE_GROUP_STATE_SUMMARY
    versions = range(2)
    flexible = 0
    is_request = True

    group_id: str = ""
    topics: list[ReadTopic] = []


class SummaryPartitionResult(WireStruct):
    """Where one share partition is. `delivery_complete_count`: how many records from the start offset on need no delivery any more."""

    partition: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    state_epoch: i32 = 0
    leader_epoch: i32 = 0
    start_offset: i64 = 0
    delivery_complete_count: Annotated[i32, since(1), ignorable] = -1


class SummaryTopicResult(WireStruct):
    """The results for the partitions of one topic."""

    topic_id: UUID = ZERO_UUID
    partitions: list[SummaryPartitionResult] = []


class ReadShareGroupStateSummaryResponse(Message):
    """The share coordinator answers for each partition."""

    api = Api.READ_SHARE_GROUP_STATE_SUMMARY
    versions = range(2)
    flexible = 0
    is_request = False

    results: list[SummaryTopicResult] = []
