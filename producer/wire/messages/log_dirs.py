"""DescribeLogDirs describes the directories in which a broker keeps its logs. AlterReplicaLogDirs moves logs between them."""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i16, i32, i64, ignorable, since


class AlterReplicaLogDirTopic(WireStruct):
    """The partitions of one topic that shall move."""

    name: str = ""
    partitions: list[i32] = []


class AlterReplicaLogDir(WireStruct):
    """A directory, and the partitions that shall move to it."""

    path: str = ""
    topics: list[AlterReplicaLogDirTopic] = []


class AlterReplicaLogDirsRequest(Message):
    """A client tells a broker in which of its directories the logs of partitions shall be."""

    api = Api.ALTER_REPLICA_LOG_DIRS
    versions = range(1, 3)
    flexible = 2
    is_request = True

    dirs: list[AlterReplicaLogDir] = []


class AlterReplicaLogDirPartitionResult(WireStruct):
    """Whether the log of one partition moves; if not, the error."""

    partition_index: i32 = 0
    error_code: i16 = 0


class AlterReplicaLogDirTopicResult(WireStruct):
    """The results for the partitions of one topic."""

    topic_name: str = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = []


class AlterReplicaLogDirsResponse(Message):
    """The broker answers with one result per partition."""

    api = Api.ALTER_REPLICA_LOG_DIRS
    versions = range(1, 3)
    flexible = 2
    is_request = False

    throttle_time_ms: i32 = 0
    results: list[AlterReplicaLogDirTopicResult] = []


class DescribableLogDirTopic(WireStruct):
    """The partitions of one topic in the request."""

    topic: str = ""
    partitions: list[i32] = []


class DescribeLogDirsRequest(Message):
    """A client asks a broker for its directories, and for the logs of some partitions there. A null list means every partition."""

    api = Api.DESCRIBE_LOG_DIRS
    versions = range(1, 6)
    flexible = 2
    is_request = True

    topics: list[DescribableLogDirTopic] | None = []


class DescribeLogDirsPartition(WireStruct):
    """The log of one partition. A future log is one that is being copied from another directory."""

    partition_index: i32 = 0
    partition_size: i64 = 0
    offset_lag: i64 = 0
    is_future_key: bool = False


class DescribeLogDirsTopic(WireStruct):
    """The logs of one topic."""

    name: str = ""
    partitions: list[DescribeLogDirsPartition] = []


class DescribeLogDirsResult(WireStruct):
    """A directory of the broker, its logs, and the space on its disk; -1 where that is not known."""

    error_code: i16 = 0
    log_dir: str = ""
    topics: list[DescribeLogDirsTopic] = []
    total_bytes: Annotated[i64, since(4), ignorable] = -1
    usable_bytes: Annotated[i64, since(4), ignorable] = -1
    is_cordoned: Annotated[bool, since(5), ignorable] = False


class DescribeLogDirsResponse(Message):
    """The broker answers with one result per directory."""

    api = Api.DESCRIBE_LOG_DIRS
    versions = range(1, 6)
    flexible = 2
    is_request = False

    throttle_time_ms: i32 = 0
    error_code: Annotated[i16, since(3), ignorable] = 0
    results: list[DescribeLogDirsResult] = []
