"""DescribeLogDirs (35), versions 1 to 5.

Describes the log directories of this broker: their paths, the sizes of their logs, the space on their disks (from version 4 on), and
whether they are cordoned (from version 5 on). A cluster in memory has made-up paths and no disks: -1. Null is every partition with a log on
this broker; other partitions are left out. The lag is how far a log ends before its own high watermark, as in Kafka: 0. That of a future
log is how far it ends before the current one; -1 if that one is offline. Before version 3 a missing permission leaves the response empty. A
directory that failed is KAFKA_STORAGE_ERROR. If that is the last one, the broker halts.
"""

from __future__ import annotations

from collections.abc import Container

from fencepost.broker_stub.cluster.log_dir import Key, LogDir
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

UNKNOWN_LAG = -1


@handles(DescribeLogDirsRequest, range(1, 6), cluster=Operation.DESCRIBE)
def describe_log_dirs(call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    # The response has no place for a topic's error, so it is the error of the whole response.
    code = call.error or next((action.code for action in call.errors), 0)
    if code:
        return DescribeLogDirsResponse(error_code=code)
    asked = None if request.topics is None else {(each.topic, index) for each in request.topics for index in each.partitions}
    return DescribeLogDirsResponse(results=[_described(call, each, asked) for each in call.broker.logs.dirs])


def _described(call: Call, log_dir: LogDir, asked: Container[Key] | None) -> DescribeLogDirsResult:
    failed = DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=log_dir.path)
    if log_dir.is_offline:
        return failed
    try:
        total, usable = log_dir.space_bytes
    except StorageFailed as error:
        call.cluster.disk_failed(error)
        return failed
    current = call.broker.logs.logs
    found = [(key, log, False) for key, log in log_dir.logs.items()] + [(key, log, True) for key, log in log_dir.futures.items()]
    topics: dict[str, DescribeLogDirsTopic] = {}
    for key, log, is_future in sorted(found, key=lambda each: each[0]):
        if asked is not None and key not in asked:
            continue
        if not is_future:
            lag = max(0, log.high_watermark - log.log_end_offset)
        else:
            lag = current[key].log_end_offset - log.log_end_offset if key in current else UNKNOWN_LAG
        described = DescribeLogDirsPartition(partition_index=key[1], partition_size=log.size, offset_lag=lag, is_future_key=is_future)
        topics.setdefault(key[0], DescribeLogDirsTopic(name=key[0])).partitions.append(described)
    return DescribeLogDirsResult(
        log_dir=log_dir.path,
        topics=list(topics.values()),
        total_bytes=total,
        usable_bytes=usable,
        is_cordoned=log_dir.is_cordoned,
    )
