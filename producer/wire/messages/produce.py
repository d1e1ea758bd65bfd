"""Produce: a producer appends record batches.

In versions 0 to 2, which only brokers up to Kafka 3.9 accept, the records are message sets of formats v0 and v1. This module passes them on
as bytes: `producer.wire.records` reads and writes only format v2, which version 3 and later carry.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.messages.common import LeaderIdAndEpoch, NodeEndpoint
from fencepost.producer.wire.schema.fields import ZERO_UUID, Records, WireStruct, i16, i32, i64, ignorable, since, tag, until


class PartitionProduceData(WireStruct):
    """One batch for one partition."""

    index: i32 = 0
    records: Records | None = None


class TopicProduceData(WireStruct):
    """The partitions of one topic. From version 13 on the topic has its id instead of its name."""

    name: Annotated[str, until(12), ignorable] = ""
    topic_id: Annotated[UUID, since(13), ignorable] = ZERO_UUID
    partition_data: list[PartitionProduceData] = []


class ProduceRequest(Message):
    """A producer tells the partitions' leader to append batches. With acks 0 the leader does not respond.

    Inside a transaction, version 12 and later also add the partitions to it (KIP-890).
    """

    api = Api.PRODUCE
    versions = range(14)
    flexible = 9
    is_request = True

    transactional_id: Annotated[str | None, since(3)] = None
    acks: i16 = 0
    timeout_ms: i32 = 0
    topic_data: list[TopicProduceData] = []


class BatchIndexAndErrorMessage(WireStruct):
    """A record because of which the leader refused the whole batch."""

    batch_index: Annotated[i32, since(8)] = 0
    batch_index_error_message: Annotated[str | None, since(8)] = None


class PartitionProduceResponse(WireStruct):
    """The offset of the batch of one partition, or the error."""

    index: i32 = 0
    error_code: i16 = 0
    base_offset: i64 = 0
    log_append_time_ms: Annotated[i64, since(2), ignorable] = -1
    log_start_offset: Annotated[i64, since(5), ignorable] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], since(8), ignorable] = []
    error_message: Annotated[str | None, since(8), ignorable] = None
    current_leader: Annotated[LeaderIdAndEpoch, since(10), tag(0)] = LeaderIdAndEpoch()


class TopicProduceResponse(WireStruct):
    """The results for the partitions of one topic."""

    name: Annotated[str, until(12), ignorable] = ""
    topic_id: Annotated[UUID, since(13), ignorable] = ZERO_UUID
    partition_responses: list[PartitionProduceResponse] = []


class ProduceResponse(Message):
    """The leader answers with one result per partition, and with the addresses of new leaders."""

    api = Api.PRODUCE
    versions = range(14)
    flexible = 9
    is_request = False

    responses: list[TopicProduceResponse] = []
    throttle_time_ms: Annotated[i32, since(1), ignorable] = 0
    node_endpoints: Annotated[list[NodeEndpoint], since(10), tag(0)] = []
