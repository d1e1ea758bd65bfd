"""ListOffsets: the offset for a timestamp, or for a special position such as the start of the log.

In version 0, which only brokers up to Kafka 3.9 accept, the response is a list of offsets at which segments begin, without timestamps.
"""

from __future__ import annotations

from typing import Annotated, Final

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i8, i16, i32, i64, ignorable, since, until

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6


class ListOffsetsPartition(WireStruct):
    """The timestamp, in milliseconds since 1970, whose offset the client asks for, or one of the special positions above."""

    partition_index: i32 = 0
    current_leader_epoch: Annotated[i32, since(4), ignorable] = -1
    timestamp: i64 = 0
    max_num_offsets: Annotated[i32, until(0)] = 1


class ListOffsetsTopic(WireStruct):
    """The partitions of one topic in the request."""

    name: str = ""
    partitions: list[ListOffsetsPartition] = []


class ListOffsetsRequest(Message):
    """A client asks the leader for one offset per partition, in version 0 for up to `max_num_offsets` of them."""

    api = Api.LIST_OFFSETS
    versions = range(12)
    flexible = 6
    is_request = True

    replica_id: i32 = 0
    isolation_level: Annotated[i8, since(2)] = 0
    topics: list[ListOffsetsTopic] = []
    timeout_ms: Annotated[i32, since(10), ignorable] = 0


class ListOffsetsPartitionResponse(WireStruct):
    """The offset that the leader found, and the timestamp of its record; -1 if it found none. Version 0 has only the list."""

    partition_index: i32 = 0
    error_code: i16 = 0
    old_style_offsets: Annotated[list[i64], until(0)] = []
    timestamp: Annotated[i64, since(1)] = -1
    offset: Annotated[i64, since(1)] = -1
    leader_epoch: Annotated[i32, since(4)] = -1


class ListOffsetsTopicResponse(WireStruct):
    """The results for the partitions of one topic."""

    name: str = ""
    partitions: list[ListOffsetsPartitionResponse] = []


class ListOffsetsResponse(Message):
    """The leader answers with one offset per partition, in version 0 with several."""

    api = Api.LIST_OFFSETS
    versions = range(12)
    flexible = 6
    is_request = False

    throttle_time_ms: Annotated[i32, since(2), ignorable] = 0
    topics: list[ListOffsetsTopicResponse] = []
