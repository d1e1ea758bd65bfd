"""DescribeProducers: the producers that the leader of a partition remembers."""

from __future__ import annotations

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i16, i32, i64


class TopicRequest(WireStruct):
    """The partitions of one topic that the client asks about."""

    name: str = ""
    partition_indexes: list[i32] = []


class DescribeProducersRequest(Message):
    """A client asks the leader of each partition for the partition's producers. Other replicas answer for their own log."""

    api = Api.DESCRIBE_PRODUCERS
    versions = range(1)
    flexible = 0
    is_request = True

    topics: list[TopicRequest] = []


class ProducerState(WireStruct):
    """What the broker remembers of one producer. Timestamps are in milliseconds since 1970. The epoch is 32 bits wide here."""

    producer_id: i64 = 0
    producer_epoch: i32 = 0
    last_sequence: i32 = -1
    last_timestamp: i64 = -1
    coordinator_epoch: i32 = 0
    current_txn_start_offset: i64 = -1


class PartitionResponse(WireStruct):
    """The producers of one partition, or the error."""

    partition_index: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    active_producers: list[ProducerState] = []


class TopicResponse(WireStruct):
    """The results for the partitions of one topic."""

    name: str = ""
    partitions: list[PartitionResponse] = []


class DescribeProducersResponse(Message):
    """The broker answers with one result per partition."""

    api = Api.DESCRIBE_PRODUCERS
    versions = range(1)
    flexible = 0
    is_request = False

    throttle_time_ms: i32 = 0
    topics: list[TopicResponse] = []
