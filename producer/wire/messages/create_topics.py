"""CreateTopics. Only brokers up to Kafka 3.9 accept versions 0 and 1."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import ZERO_UUID, WireStruct, i8, i16, i32, ignorable, nullable, since, tag


class CreatableReplicaAssignment(WireStruct):
    """The brokers that get the replicas of one partition."""

    partition_index: i32 = 0
    broker_ids: list[i32] = []


class CreatableTopicConfig(WireStruct):
    """One config of the topic that the broker must create."""

    name: str = ""
    value: str | None = ""


class CreatableTopic(WireStruct):
    """A topic that the broker must create. Counts of -1 mean the broker's defaults (from version 4 on), or that there are assignments."""

    name: str = ""
    num_partitions: i32 = 0
    replication_factor: i16 = 0
    assignments: list[CreatableReplicaAssignment] = []
    configs: list[CreatableTopicConfig] = []


class CreateTopicsRequest(Message):
    """A client tells a broker to create topics. With `validate_only` the broker only checks the request."""

    api = Api.CREATE_TOPICS
    versions = range(8)
    flexible = 5
    is_request = True

    topics: list[CreatableTopic] = []
    timeout_ms: i32 = 60000
    validate_only: Annotated[bool, since(1)] = False


class CreatableTopicConfigs(WireStruct):
    """One config of a created topic."""

    name: Annotated[str, since(5)] = ""
    value: Annotated[str | None, since(5)] = ""
    read_only: Annotated[bool, since(5)] = False
    config_source: Annotated[i8, since(5), ignorable] = -1
    is_sensitive: Annotated[bool, since(5)] = False


class CreatableTopicResult(WireStruct):
    """A created topic, or the error."""

    name: str = ""
    topic_id: Annotated[UUID, since(7), ignorable] = ZERO_UUID
    error_code: i16 = 0
    error_message: Annotated[str | None, since(1), nullable(0), ignorable] = ""
    topic_config_error_code: Annotated[i16, since(5), tag(0), ignorable] = 0
    num_partitions: Annotated[i32, since(5), ignorable] = -1
    replication_factor: Annotated[i16, since(5), ignorable] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, since(5), ignorable] = []


class CreateTopicsResponse(Message):
    """The broker answers with one result per topic."""

    api = Api.CREATE_TOPICS
    versions = range(8)
    flexible = 5
    is_request = False

    throttle_time_ms: Annotated[i32, since(2), ignorable] = 0
    topics: list[CreatableTopicResult] = []
