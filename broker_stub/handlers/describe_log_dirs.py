"""DescribeLogDirs (35), versions 1 to 5.

Describes the one directory of this broker: its path, the sizes of its logs, and the space on its disk (from version 4 on). A cluster in
memory has a made-up path and no disk: -1. Null is every partition with a log on this broker; other partitions are left out. The lag is how
far a log ends before its own high watermark, as in Kafka: 0. Before version 3 a missing permission leaves the response empty. A directory
that was removed is KAFKA_STORAGE_ERROR, and the broker halts.

Leaves out: more directories than one, and so future logs; directories that are cordoned.
"""

from __future__ import annotations

from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.broker_stub.storage.disk_state import StorageFailed
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


@handles(DescribeLogDirsRequest, range(1, 6), cluster=Operation.DESCRIBE)
def describe_log_dirs(call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    # The response has no place for a topic's error, so it is the error of the whole response.
    code = call.error or next((action.code for action in call.errors), 0)
    if code:
        return DescribeLogDirsResponse(error_code=code)
    log_dir = call.broker.logs
    logs = log_dir.logs
    asked = logs.keys() if request.topics is None else {(each.topic, index) for each in request.topics for index in each.partitions}
    topics: dict[str, DescribeLogDirsTopic] = {}
    for name, index in sorted(logs.keys() & asked):
        log = logs[name, index]
        lag = max(0, log.high_watermark - log.log_end_offset)
        topic = topics.setdefault(name, DescribeLogDirsTopic(name=name))
        topic.partitions.append(DescribeLogDirsPartition(partition_index=index, partition_size=log.size, offset_lag=lag))
    try:
        total, usable = log_dir.space_bytes
    except StorageFailed as failed:
        call.cluster.halt(failed)
        return DescribeLogDirsResponse(results=[DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=log_dir.path)])
    described = DescribeLogDirsResult(log_dir=log_dir.path, topics=list(topics.values()), total_bytes=total, usable_bytes=usable)
    return DescribeLogDirsResponse(results=[described])
