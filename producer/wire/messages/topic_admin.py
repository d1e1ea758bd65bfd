"""DeleteTopics, CreatePartitions and DeleteRecords. Only brokers up to Kafka 3.9 take version 0 of DeleteTopics."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import ZERO_UUID, WireStruct, i16, i32, i64, ignorable, nullable, since, until


class DeleteTopicState(WireStruct):
    """A topic to delete, by name or by id."""

    name: Annotated[str | None, since(6)] = None
    topic_id: Annotated[UUID, since(6)] = ZERO_UUID


class DeleteTopicsRequest(Message):
    """Deletes topics, by name; from version 6 on also by id."""

    api = Api.DELETE_TOPICS
    versions = range(7)
    flexible = 4
    is_request = True

    topics: Annotated[list[DeleteTopicState], since(6)] = []
    topic_names: Annotated[list[str], until(5), ignorable] = []
    timeout_ms: i32 = 0


class DeletableTopicResult(WireStruct):
    """What became of one topic."""

    name: Annotated[str | None, nullable(6)] = ""
    topic_id: Annotated[UUID, since(6), ignorable] = ZERO_UUID
    error_code: i16 = 0
    error_message: Annotated[str | None, since(5), ignorable] = None


class DeleteTopicsResponse(Message):
    """One result per topic."""

    api = Api.DELETE_TOPICS
    versions = range(7)
    flexible = 4
    is_request = False

    throttle_time_ms: Annotated[i32, since(1), ignorable] = 0
    responses: list[DeletableTopicResult] = []


class CreatePartitionsAssignment(WireStruct):
    """Which brokers shall hold one new partition."""

    broker_ids: list[i32] = []


class CreatePartitionsTopic(WireStruct):
    """A topic, and how many partitions it shall have in the end. Without assignments the broker places them."""

    name: str = ""
    count: i32 = 0
    assignments: list[CreatePartitionsAssignment] | None = []


class CreatePartitionsRequest(Message):
    """Adds partitions, or with `validate_only` says whether it would."""

    api = Api.CREATE_PARTITIONS
    versions = range(4)
    flexible = 2
    is_request = True

    topics: list[CreatePartitionsTopic] = []
    timeout_ms: i32 = 0
    validate_only: bool = False


class CreatePartitionsTopicResult(WireStruct):
    """What became of one topic."""

    name: str = ""
    error_code: i16 = 0
    error_message: str | None = None


class CreatePartitionsResponse(Message):
    """One result per topic."""

    api = Api.CREATE_PARTITIONS
    versions = range(4)
    flexible = 2
    is_request = False

    throttle_time_ms: i32 = 0
    results: list[CreatePartitionsTopicResult] = []


class DeleteRecordsPartition(WireStruct):
    """The offset before which everything shall go; -1 for the high watermark."""

    partition_index: i32 = 0
    offset: i64 = 0


class DeleteRecordsTopic(WireStruct):
    """The partitions of one topic."""

    name: str = ""
    partitions: list[DeleteRecordsPartition] = []


class DeleteRecordsRequest(Message):
    """Moves the start of logs. Must go to the leader of each partition."""

    api = Api.DELETE_RECORDS
    versions = range(3)
    flexible = 2
    is_request = True

    topics: list[DeleteRecordsTopic] = []
    timeout_ms: i32 = 0


class DeleteRecordsPartitionResult(WireStruct):
    """Where the log starts now."""

    partition_index: i32 = 0
    low_watermark: i64 = 0
    error_code: i16 = 0


class DeleteRecordsTopicResult(WireStruct):
    """The partitions of one topic."""

    name: str = ""
    partitions: list[DeleteRecordsPartitionResult] = []


class DeleteRecordsResponse(Message):
    """One result per partition."""

    api = Api.DELETE_RECORDS
    versions = range(3)
    flexible = 2
    is_request = False

    throttle_time_ms: i32 = 0
    topics: list[DeleteRecordsTopicResult] = []
