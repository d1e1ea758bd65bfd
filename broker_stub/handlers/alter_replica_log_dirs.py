"""AlterReplicaLogDirs (34), versions 1 and 2.

Each broker has one directory, and its logs are there already: that path changes nothing. Any other is LOG_DIR_NOT_FOUND. A partition
without a replica on this broker is REPLICA_NOT_AVAILABLE, an unknown one UNKNOWN_TOPIC_OR_PARTITION. A topic whose name is too long for the
name of a future log is INVALID_TOPIC_EXCEPTION.

Leaves out: more directories than one, and so the move between them.
"""

from __future__ import annotations

from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
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
    logs = call.broker.logs
    if len(f"{name}-{index}") + SUFFIX_CHARS > NAME_CHARS_MAX:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if path != logs.path:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if (name, index) in logs.logs:
        return ErrorCode.NONE
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if call.cluster.find(name, index) is None else ErrorCode.REPLICA_NOT_AVAILABLE
