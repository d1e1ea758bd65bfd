"""DescribeQuorum: the controllers, and how far each node has read the log of the cluster's metadata (KIP-595, KIP-836, KIP-853)."""

from __future__ import annotations

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.messages.quorum_state import DescribeQuorumResponse
from fencepost.producer.wire.schema.fields import WireStruct, i32

__all__ = ["DescribeQuorumRequest", "DescribeQuorumResponse", "PartitionData", "TopicData"]


class PartitionData(WireStruct):
    """A partition to describe."""

    partition_index: i32 = 0


class TopicData(WireStruct):
    """A topic and its partitions to describe. Kafka has only `__cluster_metadata`, partition 0."""

    topic_name: str = ""
    partitions: list[PartitionData] = []


class DescribeQuorumRequest(Message):
    """A client asks a broker, which forwards it to the active controller."""

    api = Api.DESCRIBE_QUORUM
    versions = range(3)
    flexible = 0
    is_request = True

    topics: list[TopicData] = []
