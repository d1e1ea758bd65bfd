"""DeleteTopics, CreatePartitions and DeleteRecords. Only brokers up to Kafka 3.9 accept version 0 of DeleteTopics."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import ZERO_UUID, WireStruct, i16, i32, i64, ignorable, nullable, since, until


class DeleteTopicState(WireStruct):
    """A topic to delete, by its name or its id."""

    name: Annotated[str | None, since(6)] = None
    topic_id: Annotated[UUID, since(6)] = ZERO_UUID


class DeleteTopicsRequest(Message):
    """A client tells a broker to delete topics, by name, from version 6 on also by id."""

    api = Api.DELETE_TOPICS
    versions = range(7)
    flexible = 4
    is_request = True

    topics: Annotated[list[DeleteTopicState], since(6)] = []
    topic_names: Annotated[list[str], until(5), ignorable] = []
    timeout_ms: i32 = 0


class DeletableTopicResult(WireStruct):
    """Whether the broker deleted one topic; if not, the error."""

    name: Annotated[str | None, nullable(6)] = ""
    topic_id: Annotated[UUID, since(6), ignorable] = ZERO_UUID
    error_code: i16 = 0
    error_message: Annotated[str | None, since(5), ignorable] = None


class DeleteTopicsResponse(Message):
    """The broker answers with one result per topic."""

    api = Api.DELETE_TOPICS
    versions = range(7)
    flexible = 4
    is_request = False

    throttle_time_ms: Annotated[i32, since(1), ignorable] = 0
    responses: list[DeletableTopicResult] = []


class CreatePartitionsAssignment(WireStruct):
    """The brokers that get the replicas of one new partition."""

    broker_ids: list[i32] = []


class CreatePartitionsTopic(WireStruct):
    """A topic and its new number of partitions. Without assignments the broker places the new ones."""

    name: str = ""
    count: i32 = 0
    assignments: list[CreatePartitionsAssignment] | None = []


class CreatePartitionsRequest(Message):
    """A client tells a broker to add partitions to topics. With `validate_only` the broker only checks the request."""

    api = Api.CREATE_PARTITIONS
    versions = range(4)
    flexible = 2
    is_request = True

    topics: list[CreatePartitionsTopic] = []
    timeout_ms: i32 = 0
    validate_only: bool = False


class CreatePartitionsTopicResult(WireStruct):
    """Whether the broker added the partitions of one topic; if not, the error."""

    name: str = ""
    error_code: i16 = 0
    error_message: str | None = None


class CreatePartitionsResponse(Message):
    """The broker answers with one result per topic."""

    api = Api.CREATE_PARTITIONS
    versions = range(4)
    flexible = 2
    is_request = False

    throttle_time_ms: i32 = 0
    results: list[CreatePartitionsTopicResult] = []


class DeleteRecordsPartition(WireStruct):
    """The leader deletes all records before this offset; -1 is the high watermark."""

    partition_index: i32 = 0
    offset: i64 = 0


class DeleteRecordsTopic(WireStruct):
    """The partitions of one topic in the request."""

    name: str = ""
    partitions: list[DeleteRecordsPartition] = []


class DeleteRecordsRequest(Message):
    """A client tells the leader of each partition to move the start of its log."""

    api = Api.DELETE_RECORDS
    versions = range(3)
    flexible = 2
    is_request = True

    topics: list[DeleteRecordsTopic] = []
    timeout_ms: i32 = 0


class DeleteRecordsPartitionResult(WireStruct):
    """The offset at which the log starts now, or the error."""

    partition_index: i32 = 0
    low_watermark: i64 = 0
    error_code: i16 = 0


class DeleteRecordsTopicResult(WireStruct):
    """The results for the partitions of one topic."""

    name: str = ""
    partitions: list[DeleteRecordsPartitionResult] = []


class DeleteRecordsResponse(Message):
    """The leader answers with one result per partition."""

    api = Api.DELETE_RECORDS
    versions = range(3)
    flexible = 2
    is_request = False

    throttle_time_ms: i32 = 0
    topics: list[DeleteRecordsTopicResult] = []
