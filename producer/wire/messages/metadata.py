"""Metadata: brokers, topics, partitions and their leaders."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import ZERO_UUID, WireStruct, i16, i32, ignorable, nullable, since, until

OPERATIONS_NOT_ASKED_FOR: Final = -(1 << 31)
"""The broker sends this value if the request did not ask for the authorized operations."""


class MetadataRequestTopic(WireStruct):
    """A topic by its name or, from version 12 on, by its id."""

    topic_id: Annotated[UUID, since(10), ignorable] = ZERO_UUID
    name: Annotated[str | None, nullable(10)] = ""


class MetadataRequest(Message):
    """A client asks a broker about topics. In version 0 an empty list means all topics. Later null means all, and an empty list none."""

    api = Api.METADATA
    versions = range(14)
    flexible = 9
    is_request = True

    topics: Annotated[list[MetadataRequestTopic] | None, nullable(1)] = []
    allow_auto_topic_creation: Annotated[bool, since(4)] = True
    include_cluster_authorized_operations: Annotated[bool, since(8), until(10)] = False
    include_topic_authorized_operations: Annotated[bool, since(8)] = False


class MetadataResponseBroker(WireStruct):
    """A live broker and its address."""

    node_id: i32 = 0
    host: str = ""
    port: i32 = 0
    rack: Annotated[str | None, since(1), ignorable] = None


class MetadataResponsePartition(WireStruct):
    """A partition, its leader and its replicas. Leader -1 means that it has no leader now."""

    error_code: i16 = 0
    partition_index: i32 = 0
    leader_id: i32 = 0
    leader_epoch: Annotated[i32, since(7), ignorable] = -1
    replica_nodes: list[i32] = []
    isr_nodes: list[i32] = []
    offline_replicas: Annotated[list[i32], since(5), ignorable] = []


class MetadataResponseTopic(WireStruct):
    """A topic, or the error. The name is null if the client asked for an unknown id."""

    error_code: i16 = 0
    name: Annotated[str | None, nullable(12)] = ""
    topic_id: Annotated[UUID, since(10), ignorable] = ZERO_UUID
    is_internal: Annotated[bool, since(1), ignorable] = False
    partitions: list[MetadataResponsePartition] = []
    topic_authorized_operations: Annotated[i32, since(8)] = OPERATIONS_NOT_ASKED_FOR


class MetadataResponse(Message):
    """The broker answers with its view of the cluster."""

    api = Api.METADATA
    versions = range(14)
    flexible = 9
    is_request = False

    throttle_time_ms: Annotated[i32, since(3), ignorable] = 0
    brokers: list[MetadataResponseBroker] = []
    cluster_id: Annotated[str | None, since(2), ignorable] = None
    controller_id: Annotated[i32, since(1), ignorable] = -1
    topics: list[MetadataResponseTopic] = []
    cluster_authorized_operations: Annotated[i32, since(8), until(10)] = OPERATIONS_NOT_ASKED_FOR
    error_code: Annotated[i16, since(13), ignorable] = 0
