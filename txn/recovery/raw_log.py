"""Two questions about a partition's raw log, to its leader: the offset of a position, and the bytes at an offset.

The caller decides what an error code means. An answer without the partition counts as none. It reads no records.
"""

from __future__ import annotations

from typing import Final

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from fencepost.producer.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from fencepost.txn.protocol.cluster_client import ClusterClient, Unanswered, refuse, the_one
from fencepost.txn.shared.participation import TP, name

FETCH_VERSIONS: Final = range(4, 13)
"""Versions with topic names."""
LIST_VERSIONS: Final = range(2, 12)
"""Versions with an isolation level."""
EARLIEST: Final = -2
LATEST: Final = -1
CONSUMER: Final = -1


async def fetch(client: ClusterClient, leader: int, tp: TP, offset: int, *, bytes_max: int) -> PartitionData:
    """The bytes from the offset on (read_uncommitted), or the error code. A broker that delays answers for a quota leaves the partition
    out; then this raises Unanswered."""
    topic, partition = tp
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=bytes_max)
    request = FetchRequest(max_bytes=bytes_max, topics=[FetchTopic(topic=topic, partitions=[asked])])
    answer: FetchResponse = await client.ask(leader, request, FETCH_VERSIONS)
    refuse(Api.FETCH, answer.error_code, name(tp))
    if not answer.responses or not answer.responses[0].partitions:
        raise Unanswered(f"{name(tp)} cannot be read at the moment: the broker delays answers for a quota")
    return answer.responses[0].partitions[0]


async def offset_of(client: ClusterClient, leader: int, tp: TP, timestamp: int) -> ListOffsetsPartitionResponse:
    """The beginning (EARLIEST) or the end of the log (LATEST, the high watermark), or the error code."""
    topic, partition = tp
    asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=CONSUMER, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
    answer: ListOffsetsResponse = await client.ask(leader, request, LIST_VERSIONS)
    return the_one(the_one(answer.topics, name(tp)).partitions, name(tp))
