"""DeleteRecords (21), versions 0 to 2.

Moves the start of a log, up to the high watermark (-1). Then a Fetch before it is OFFSET_OUT_OF_RANGE, and ListOffsets names it as the
earliest offset. An offset beyond the high watermark is OFFSET_OUT_OF_RANGE; a topic that is only compacted is POLICY_VIOLATION, an internal
one INVALID_TOPIC_EXCEPTION. Only the leader takes the request. It responds when every live replica has the new start, which followers learn
from their fetches, with the smallest one; after `timeout_ms` with REQUEST_TIMED_OUT. A later retention check
deletes the segments before the start.
"""

from __future__ import annotations

from fencepost.broker_stub.cluster.current_leader import leadership_error
from fencepost.broker_stub.cluster.topics import INTERNAL
from fencepost.broker_stub.configs.values import listed
from fencepost.broker_stub.log.errors import OffsetOutOfRange
from fencepost.broker_stub.requests.call import Call, Instead, Result
from fencepost.broker_stub.requests.delayed_delete_records import NOWHERE, DelayedDeleteRecords, Raised
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.broker_stub.storage.disk_state import StorageFailed
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.topic_admin import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

HIGH_WATERMARK = -1


@handles(DeleteRecordsRequest, range(3), topic=Operation.DELETE)
def delete_records(call: Call, request: DeleteRecordsRequest) -> Result:
    # For a partition that is named twice the last offset counts; a topic without partitions has no result.
    wanted: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in request.topics:
        for each in topic.partitions:
            wanted.setdefault(topic.name, {})[each.partition_index] = each
    raised: list[Raised] = []
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name=name, partitions=[_delete(call, name, each, raised) for each in partitions.values()])
            for name, partitions in wanted.items()
        ]
    )
    if not raised:
        return response
    DelayedDeleteRecords(call, response, raised).start(request.timeout_ms)
    return Instead.LATER


def _delete(call: Call, topic: str, asked: DeleteRecordsPartition, raised: list[Raised]) -> DeleteRecordsPartitionResult:
    partition, replica = call.find(topic, asked.partition_index)
    code = call.error_for(topic, asked.partition_index)
    if not code and partition is not None and topic in INTERNAL:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    code = code or leadership_error(partition, replica)
    if not code and partition is not None and set(listed(partition.topic_config["cleanup.policy"])) == {"compact"}:
        code = ErrorCode.POLICY_VIOLATION
    if code or replica is None:
        return _refused(asked, code)
    log = replica.log
    offset = log.high_watermark if asked.offset == HIGH_WATERMARK else asked.offset
    try:
        if offset < 0:
            return _refused(asked, ErrorCode.OFFSET_OUT_OF_RANGE)
        replica.advance_log_start(offset)
    except OffsetOutOfRange:
        return _refused(asked, ErrorCode.OFFSET_OUT_OF_RANGE)
    except StorageFailed as failed:
        call.cluster.disk_failed(failed)
        return _refused(asked, ErrorCode.KAFKA_STORAGE_ERROR)
    result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=log.log_start_offset)
    raised.append(Raised(replica, result, offset, replica.leader_epoch, replica.low_watermark))
    return result


def _refused(asked: DeleteRecordsPartition, code: int) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=NOWHERE, error_code=code)
