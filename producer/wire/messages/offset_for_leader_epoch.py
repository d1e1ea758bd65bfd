"""OffsetForLeaderEpoch: the offset at which a leader epoch ended. Only brokers up to Kafka 3.9 accept versions 0 and 1."""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i16, i32, i64, ignorable, since


class OffsetForLeaderPartition(WireStruct):
    """The leader epoch whose end offset is asked for."""

    partition: i32 = 0
    current_leader_epoch: Annotated[i32, since(2), ignorable] = -1
    leader_epoch: i32 = 0


class OffsetForLeaderTopic(WireStruct):
    """The partitions of one topic in the request."""

    topic: str = ""
    partitions: list[OffsetForLeaderPartition] = []


class OffsetForLeaderEpochRequest(Message):
    """A follower or consumer asks the leader of each partition where a leader epoch ended. A consumer sends replica id -1."""

    api = Api.OFFSET_FOR_LEADER_EPOCH
    versions = range(5)
    flexible = 4
    is_request = True

    replica_id: Annotated[i32, since(3), ignorable] = -2
    topics: list[OffsetForLeaderTopic] = []


class EpochEndOffset(WireStruct):
    """The largest epoch that is not above the requested one, and the first offset after it."""

    error_code: i16 = 0
    partition: i32 = 0
    leader_epoch: Annotated[i32, since(1), ignorable] = -1
    end_offset: i64 = -1


class OffsetForLeaderTopicResult(WireStruct):
    """The results for the partitions of one topic."""

    topic: str = ""
    partitions: list[EpochEndOffset] = []


class OffsetForLeaderEpochResponse(Message):
    """The leader answers with one result per partition."""

    api = Api.OFFSET_FOR_LEADER_EPOCH
    versions = range(5)
    flexible = 4
    is_request = False

    throttle_time_ms: Annotated[i32, since(2), ignorable] = 0
    topics: list[OffsetForLeaderTopicResult] = []
