"""DescribeCluster and DescribeTopicPartitions: the contents of Metadata, in the form that administrators need."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import ZERO_UUID, WireStruct, i8, i16, i32, ignorable, since


class DescribeClusterRequest(Message):
    """A client asks for the brokers of the cluster, or, with endpoint type 2, asks a controller for the controllers."""

    api = Api.DESCRIBE_CLUSTER
    versions = range(3)
    flexible = 0
    is_request = True

    include_cluster_authorized_operations: bool = False
    endpoint_type: Annotated[i8, since(1)] = 1
    include_fenced_brokers: Annotated[bool, since(2)] = False


class DescribeClusterBroker(WireStruct):
    """A broker and its address."""

    broker_id: i32 = 0
    host: str = ""
    port: i32 = 0
    rack: str | None = None
    is_fenced: Annotated[bool, since(2)] = False


class DescribeClusterResponse(Message):
    """The broker answers with the cluster's id, its controller and its brokers."""

    api = Api.DESCRIBE_CLUSTER
    versions = range(3)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    endpoint_type: Annotated[i8, since(1)] = 1
    cluster_id: str = ""
    controller_id: i32 = -1
    brokers: list[DescribeClusterBroker] = []
    cluster_authorized_operations: i32 = -2147483648


class TopicRequest(WireStruct):
    """A topic that the client asks about."""

    name: str = ""


class Cursor(WireStruct):
    """The topic and partition at which a page begins."""

    topic_name: str = ""
    partition_index: i32 = 0


class DescribeTopicPartitionsRequest(Message):
    """A client asks a broker for the partitions of topics, page by page. Without topic names it asks for all topics."""

    api = Api.DESCRIBE_TOPIC_PARTITIONS
    versions = range(1)
    flexible = 0
    is_request = True

    topics: list[TopicRequest] = []
    response_partition_limit: i32 = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(WireStruct):
    """A partition, its leader and its replicas."""

    error_code: i16 = 0
    partition_index: i32 = 0
    leader_id: i32 = 0
    leader_epoch: Annotated[i32, ignorable] = -1
    replica_nodes: list[i32] = []
    isr_nodes: list[i32] = []
    eligible_leader_replicas: list[i32] | None = None
    last_known_elr: list[i32] | None = None
    offline_replicas: Annotated[list[i32], ignorable] = []


class DescribeTopicPartitionsResponseTopic(WireStruct):
    """A topic, with the partitions that fit on this page."""

    error_code: i16 = 0
    name: str | None = ""
    topic_id: Annotated[UUID, ignorable] = ZERO_UUID
    is_internal: Annotated[bool, ignorable] = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = []
    topic_authorized_operations: i32 = -2147483648


class DescribeTopicPartitionsResponse(Message):
    """The broker answers with one page. If there is a cursor, the client asks for the next page with it."""

    api = Api.DESCRIBE_TOPIC_PARTITIONS
    versions = range(1)
    flexible = 0
    is_request = False

    throttle_time_ms: Annotated[i32, ignorable] = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    next_cursor: Cursor | None = None
