"""AlterReplicaLogDirs (34), versions 1 and 2.

Moves a replica to another log directory of its broker. The response comes at once; DescribeLogDirs shows how far the move is. A request for
a third directory replaces the move, one for the present directory cancels it. A path that is no log directory, also a relative one, is
LOG_DIR_NOT_FOUND. A directory or a replica that is offline is KAFKA_STORAGE_ERROR, and so is every move while any directory of the broker
is offline. A partition without a replica on this broker is REPLICA_NOT_AVAILABLE, an unknown one UNKNOWN_TOPIC_OR_PARTITION. The broker
keeps the directory all the same, for the replica that it gets later. A topic whose name is too long for the name of a future log is
INVALID_TOPIC_EXCEPTION. A directory that is cordoned is INVALID_REPLICA_ASSIGNMENT.
"""

from __future__ import annotations

from fencepost.broker_stub.cluster.log_dir import LogDir
from fencepost.broker_stub.replication.replica import Replica
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.broker_stub.storage.disk_state import StorageFailed
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

NAME_CHARS_MAX = 255
SUFFIX_CHARS = 40
"""What `.<uuid>-future` adds to the name of a log's directory."""


@handles(AlterReplicaLogDirsRequest, range(1, 3), cluster=Operation.ALTER)
def alter_replica_log_dirs(call: Call, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    # The last path for a partition counts, as in Kafka.
    paths = {(topic.name, index): each.path for each in request.dirs for topic in each.topics for index in topic.partitions}
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (name, index), path in paths.items():
        code = call.error or call.fault_for(name, index) or _error(call, name, index, path)
        topic = topics.setdefault(name, AlterReplicaLogDirTopicResult(topic_name=name))
        topic.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _error(call: Call, name: str, index: int, path: str) -> int:
    logs, key = call.broker.logs, (name, index)
    target = logs.dir_at(path)
    partition, replica = call.find(name, index)
    if len(f"{name}-{index}") + SUFFIX_CHARS > NAME_CHARS_MAX:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if target is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if target.is_offline or (replica is not None and replica.is_offline):
        return ErrorCode.KAFKA_STORAGE_ERROR
    if target.is_cordoned:
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if replica is not None and replica.future is not None and key not in target.futures:
        call.cluster.logs.moves.cancel(replica)
    if key not in target.logs and key not in target.futures:
        logs.preferred[key] = target
    if replica is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partition is None else ErrorCode.REPLICA_NOT_AVAILABLE
    return ErrorCode.NONE if key in target.logs or key in target.futures else _begin(call, replica, target)


def _begin(call: Call, replica: Replica, target: LogDir) -> int:
    logs = call.broker.logs
    if len(logs.online) < len(logs.dirs):
        return ErrorCode.KAFKA_STORAGE_ERROR
    try:
        call.cluster.logs.moves.begin(replica, target)
    except StorageFailed as failed:
        call.cluster.disk_failed(failed)
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE
