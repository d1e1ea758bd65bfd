"""ListOffsets: the offset that belongs to a time, or to one of the special places.

Version 0, which returned several offsets per partition, is not spoken here.
"""

from __future__ import annotations

from typing import Annotated

from producer.wire.codes import Api
from producer.wire.fields import WireStruct, i8, i16, i32, i64, ignorable, since
from producer.wire.message import Message


class ListOffsetsPartition(WireStruct):
    """Which offset is asked for: a timestamp, or -1 latest, -2 earliest, -3 of the largest timestamp, -4 earliest local, -5 last tiered."""

    partition_index: i32 = 0
    current_leader_epoch: Annotated[i32, since(4), ignorable] = -1
    timestamp: i64 = 0


class ListOffsetsTopic(WireStruct):
    """The partitions of one topic."""

    name: str = ""
    partitions: list[ListOffsetsPartition] = []


class ListOffsetsRequest(Message):
    """Asks for one offset per partition."""

    api = Api.LIST_OFFSETS
    versions = range(1, 12)
    flexible = 6
    is_request = True

    replica_id: i32 = 0
    isolation_level: Annotated[i8, since(2)] = 0
    topics: list[ListOffsetsTopic] = []
    timeout_ms: Annotated[i32, since(10), ignorable] = 0


class ListOffsetsPartitionResponse(WireStruct):
    """The offset found and the timestamp of its record; -1 where there is none."""

    partition_index: i32 = 0
    error_code: i16 = 0
    timestamp: Annotated[i64, since(1)] = -1
    offset: Annotated[i64, since(1)] = -1
    leader_epoch: Annotated[i32, since(4)] = -1


class ListOffsetsTopicResponse(WireStruct):
    """The partitions of one topic."""

    name: str = ""
    partitions: list[ListOffsetsPartitionResponse] = []


class ListOffsetsResponse(Message):
    """One offset per partition."""

    api = Api.LIST_OFFSETS
    versions = range(1, 12)
    flexible = 6
    is_request = False

    throttle_time_ms: Annotated[i32, since(2), ignorable] = 0
    topics: list[ListOffsetsTopicResponse] = []
