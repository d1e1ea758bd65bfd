"""ListOffsets (2), versions 1 to 11.

The offset for a time, or for one of these special times:

- -1: the latest. With read_committed this is the last stable offset.
- -2: the earliest.
- -3, from version 7 on: the record with the largest timestamp.
- -4, from version 8 on: the earliest local offset.
- -5, from version 9 on: the latest tiered offset.
- -6, from version 11 on: the earliest pending upload.

For a special time that the version does not have the answer is UNSUPPORTED_VERSION, for a partition named twice INVALID_REQUEST. Leader
epochs are checked (KIP-320).

A new leader whose high watermark is before the start of its epoch does not know the latest offset: OFFSET_NOT_AVAILABLE, before version 5
LEADER_NOT_AVAILABLE.

Leaves out: tiered storage (-5 and -6 find no offset), and requests of followers and for debugging (they get a consumer's result).
"""

from __future__ import annotations

from collections import Counter

from fencepost.broker_stub.cluster.current_leader import leadership_error
from fencepost.broker_stub.replication.replica import Replica
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.broker_stub.storage.disk_state import StorageFailed
from fencepost.producer.wire import (
    ErrorCode,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from fencepost.producer.wire.messages.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
SPECIAL_SINCE = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
TIERED = (LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
EPOCH_SINCE = 4
NOT_AVAILABLE_SINCE = 5
TIMESTAMPS_SINCE = 1


@handles(ListOffsetsRequest, range(1, 12), topic=Operation.DESCRIBE)
def list_offsets(call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    topics = [topic for topic in request.topics if topic.partitions or not call.cluster.release.differs.offsets_once]
    named = Counter((topic.name, partition.partition_index) for topic in topics for partition in topic.partitions)
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return ListOffsetsResponse(topics=[_refused(topic, ErrorCode.UNKNOWN_SERVER_ERROR) for topic in topics])
    committed = request.isolation_level == READ_COMMITTED
    return ListOffsetsResponse(topics=[_topic(call, topic, named, committed=committed) for topic in topics])


def _topic(call: Call, topic: ListOffsetsTopic, named: Counter[tuple[str, int]], *, committed: bool) -> ListOffsetsTopicResponse:
    refusal = call.topic_refusal(topic.name)
    if refusal:
        return _refused(topic, refusal)
    once = call.cluster.release.differs.offsets_once
    return ListOffsetsTopicResponse(
        name=topic.name,
        partitions=[
            _failed(index, ErrorCode.INVALID_REQUEST)
            if named[topic.name, index] > 1
            else _partition(call, topic.name, asked, committed=committed)
            for index, asked in (_once(topic.partitions) if once else [(each.partition_index, each) for each in topic.partitions])
        ],
    )


def _refused(topic: ListOffsetsTopic, code: int) -> ListOffsetsTopicResponse:
    return ListOffsetsTopicResponse(name=topic.name, partitions=[_failed(each.partition_index, code) for each in topic.partitions])


def _once(partitions: list[ListOffsetsPartition]) -> list[tuple[int, ListOffsetsPartition]]:
    return list({each.partition_index: each for each in partitions}.items())


def _partition(call: Call, topic: str, asked: ListOffsetsPartition, *, committed: bool) -> ListOffsetsPartitionResponse:
    partition, replica = call.find(topic, asked.partition_index)
    code = call.error_for(topic, asked.partition_index)
    if not code and asked.timestamp < 0 and call.version < SPECIAL_SINCE.get(asked.timestamp, call.version + 1):
        code = ErrorCode.UNSUPPORTED_VERSION
    code = code or leadership_error(partition, replica, asked.current_leader_epoch)
    if code or replica is None:
        return _failed(asked.partition_index, code)
    if asked.timestamp in TIERED:
        return ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    if call.version < TIMESTAMPS_SINCE:
        return ListOffsetsPartitionResponse(partition_index=asked.partition_index, old_style_offsets=_segments(call, replica, asked))
    try:
        found = replica.log.offset_for_timestamp(asked.timestamp, read_committed=committed)
    except StorageFailed as failed:
        call.cluster.disk_failed(failed)
        return _failed(asked.partition_index, ErrorCode.KAFKA_STORAGE_ERROR)
    if replica.high_watermark_lags and (asked.timestamp == LATEST or found.offset < 0):
        unknown = ErrorCode.OFFSET_NOT_AVAILABLE if call.version >= NOT_AVAILABLE_SINCE else ErrorCode.LEADER_NOT_AVAILABLE
        return _failed(asked.partition_index, unknown)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch if call.version >= EPOCH_SINCE else -1,
    )


def _segments(call: Call, replica: Replica, asked: ListOffsetsPartition) -> list[int]:
    """The starts of the segments that were last changed before the time, newest first, and the end of the log before them."""
    log = replica.log
    times = [(max(segment.base_offset, log.log_start_offset), segment.modified_ms) for segment in log.segments]
    if log.segments[-1].size:
        times.append((log.high_watermark, call.broker.now_ms()))
    if asked.timestamp == EARLIEST:
        times = times[:1]
    elif asked.timestamp != LATEST:
        times = [each for each in times if each[1] <= asked.timestamp]
    return list(dict.fromkeys(offset for offset, _ in reversed(times)))[: asked.max_num_offsets]


def _failed(index: int, code: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=code)
