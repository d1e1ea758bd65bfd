"""OffsetCommit (8), versions 2 to 10.

Topics and partitions are checked first, then whether the committer belongs to the group as it says: a member with its generation, or
anybody while the group is empty. A group that is not there is made for one that names no generation; else it is ILLEGAL_GENERATION, from
version 9 on GROUP_ID_NOT_FOUND. From version 10 on topics go by id. A commit counts as a heartbeat.

Leaves out: retention (`retention_time_ms` is passed over and offsets never expire) and members of the newer protocols.
"""

from __future__ import annotations

from functools import cached_property
from uuid import UUID

from broker_stub.call import Call
from broker_stub.coordinators.groups import Shard
from broker_stub.coordinators.pending_offsets import Committed
from broker_stub.handlers.group_lookups import find_shard
from broker_stub.operations import Operation
from broker_stub.router import handles
from producer.wire import ErrorCode
from producer.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

BY_ID_SINCE = 10
IN_TOPIC_SINCE = 1  # version 0 kept offsets in ZooKeeper


@handles(OffsetCommitRequest, range(2, 11), group=Operation.READ, topic=Operation.READ)
def offset_commit(call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse:
    commit = _Commit(call, request)
    apart = call.version < IN_TOPIC_SINCE or call.group_error(request.group_id)
    answers: dict[tuple[str, UUID, int], list[OffsetCommitResponsePartition]] = {}
    for number, asked in enumerate(request.topics):
        # A topic that is named twice is answered once, but not by version 0 and not where the group is refused.
        answers.setdefault((asked.name, asked.topic_id, number if apart else 0), []).extend(
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=commit.partition(asked, each))
            for each in asked.partitions
        )
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=partitions)
            for (name, topic_id, _), partitions in answers.items()
        ]
    )


class _Commit:
    """One request on its way. The coordinator is asked when the first partition that exists is met, and once."""

    def __init__(self, call: Call, request: OffsetCommitRequest) -> None:
        self._call = call
        self._request = request

    def partition(self, asked: OffsetCommitRequestTopic, each: OffsetCommitRequestPartition) -> int:
        topics, by_id = self._call.cluster.topics, self._call.version >= BY_ID_SINCE
        topic = topics.with_id(asked.topic_id) if by_id else topics.named(asked.name)
        code = self._call.group_error(self._request.group_id)
        if code:
            return code
        if self._call.version < IN_TOPIC_SINCE:
            return self._call.topic_refusal(asked.name) or ErrorCode.UNSUPPORTED_VERSION
        if topic is None and by_id:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if topic is None:
            return self._call.topic_refusal(asked.name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        code = self._call.error_for(topic.name, each.partition_index)
        if not code and topic.partition(each.partition_index) is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if code:
            return code
        shard, code = self._coordinator
        if shard is None:
            return code
        committed = Committed(each.committed_offset, each.committed_leader_epoch, each.committed_metadata or "", topic.id)
        return shard.offsets.commit(self._request.group_id, topic.name, each.partition_index, committed)

    @cached_property
    def _coordinator(self) -> tuple[Shard | None, int]:
        """The group's shard if it lets this request commit, or why not."""
        shard, code = find_shard(self._call, self._request.group_id, may_be_empty=True)
        if shard is not None:
            code = shard.offsets.commit_error(self._request, self._call.version)
            if code == ErrorCode.GROUP_ID_NOT_FOUND and not self._call.cluster.release.differs.committing_needs_the_group:
                code = ErrorCode.ILLEGAL_GENERATION
        return (None, code) if code else (shard, code)
