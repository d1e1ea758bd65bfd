"""The response to DescribeQuorum. Its structs have Kafka's names, which the request has for others."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import ZERO_UUID, WireStruct, i16, i32, i64, ignorable, since, u16


class ReplicaState(WireStruct):
    """A node, the end of its log, and when it last fetched and last had everything, in milliseconds since 1970."""

    replica_id: i32 = 0
    replica_directory_id: Annotated[UUID, since(2)] = ZERO_UUID
    log_end_offset: i64 = 0
    last_fetch_timestamp: Annotated[i64, since(1), ignorable] = -1
    last_caught_up_timestamp: Annotated[i64, since(1), ignorable] = -1


class PartitionData(WireStruct):
    """A partition, its leader, and the nodes that read it: controllers vote, brokers observe."""

    partition_index: i32 = 0
    error_code: i16 = 0
    error_message: Annotated[str | None, since(2), ignorable] = ""
    leader_id: i32 = 0
    leader_epoch: i32 = 0
    high_watermark: i64 = 0
    current_voters: list[ReplicaState] = []
    observers: list[ReplicaState] = []


class TopicData(WireStruct):
    """A topic and its described partitions."""

    topic_name: str = ""
    partitions: list[PartitionData] = []


class Listener(WireStruct):
    """A listener of a controller."""

    name: Annotated[str, since(2)] = ""
    host: Annotated[str, since(2)] = ""
    port: Annotated[u16, since(2)] = 0


class Node(WireStruct):
    """A controller and its listeners."""

    node_id: Annotated[i32, since(2)] = 0
    listeners: Annotated[list[Listener], since(2)] = []


class DescribeQuorumResponse(Message):
    """The active controller answers."""

    api = Api.DESCRIBE_QUORUM
    versions = range(3)
    flexible = 0
    is_request = False

    error_code: i16 = 0
    error_message: Annotated[str | None, since(2), ignorable] = ""
    topics: list[TopicData] = []
    nodes: Annotated[list[Node], since(2)] = []
