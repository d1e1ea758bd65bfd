"""OffsetCommit (8), versions 2 to 10.

Topics and partitions are checked first, then the sender: a member with its generation, or any client while the group is empty. A sender
without a generation creates a missing group; with one the answer is ILLEGAL_GENERATION, from version 9 on GROUP_ID_NOT_FOUND. From version
10 on topics have ids. A commit counts as a heartbeat.

It responds when every in-sync replica of the group's partition has the offsets. If that takes longer than offsets.commit.timeout.ms, it is
COORDINATOR_NOT_AVAILABLE, though the offsets count once they are replicated. Up to version 4 a client can set their expiry.

A member of the consumer protocol (KIP-848) has its epoch instead of a generation, and needs version 9. An older epoch is
STALE_MEMBER_EPOCH, unless the member has owned all of the partitions since then (KIP-1251).
"""

from __future__ import annotations

from functools import cached_property
from uuid import UUID

from fencepost.broker_stub.groups.coordinators import Shard
from fencepost.broker_stub.groups.state.pending_offsets import Committed, Key
from fencepost.broker_stub.handlers.group_lookups import find_shard
from fencepost.broker_stub.requests.call import Call, Instead
from fencepost.broker_stub.requests.deferred_reply import DeferredReply
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

BY_ID_SINCE = 10
IN_TOPIC_SINCE = 1  # version 0 kept offsets in ZooKeeper
NO_RETENTION = -1


@handles(OffsetCommitRequest, range(2, 11), group=Operation.READ, topic=Operation.READ)
def offset_commit(call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse | Instead:
    commit = _Commit(call, request)
    refusals = [[commit.refusal(asked, each) for each in asked.partitions] for asked in request.topics]
    shard = commit.shard
    if shard is None:
        return _answer(call, request, refusals, ErrorCode.NONE)
    stale = shard.offsets.partitions_error(request, commit.offsets)
    if stale:
        return _answer(call, request, refusals, stale)
    deferred: DeferredReply[OffsetCommitResponse] = DeferredReply(call)
    shard.offsets.commit(commit.offsets, lambda code: deferred(_answer(call, request, refusals, code)))
    return deferred.result()


def _answer(call: Call, request: OffsetCommitRequest, refusals: list[list[int]], code: int) -> OffsetCommitResponse:
    """The response. `code`: of the partitions without an error of their own."""
    apart = call.version < IN_TOPIC_SINCE or call.group_error(request.group_id)
    answers: dict[tuple[str, UUID, int], list[OffsetCommitResponsePartition]] = {}
    for number, (asked, refused) in enumerate(zip(request.topics, refusals, strict=True)):
        if not asked.partitions and call.topic_of(asked, by_id_since=BY_ID_SINCE) is not None:
            continue
        # A topic that is named twice has one result, except in version 0 and where the group is refused.
        answers.setdefault((asked.name, asked.topic_id, number if apart else 0), []).extend(
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=refusal or code)
            for each, refusal in zip(asked.partitions, refused, strict=True)
        )
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=partitions)
            for (name, topic_id, _), partitions in answers.items()
        ]
    )


class _Commit:
    """One request on its way. It asks the coordinator once, at the first existing partition. `offsets` are the ones to write
    to `shard`."""

    def __init__(self, call: Call, request: OffsetCommitRequest) -> None:
        self.offsets: dict[Key, Committed] = {}
        self.shard: Shard | None = None
        self._call = call
        self._request = request
        self._now_ms = call.broker.now_ms()
        retention_ms = request.retention_time_ms
        # A sum of 64 bits, as in Kafka: the largest number overflows, and the offset expires at once.
        self._expires_ms = (self._now_ms + retention_ms + (1 << 63)) % (1 << 64) - (1 << 63) if retention_ms != NO_RETENTION else -1

    def refusal(self, asked: OffsetCommitRequestTopic, each: OffsetCommitRequestPartition) -> int:
        """The code for an offset that is not written; 0 if it is."""
        topic, by_id = self._call.topic_of(asked, by_id_since=BY_ID_SINCE), self._call.version >= BY_ID_SINCE
        group_id = self._request.group_id
        code = self._call.group_error(group_id)
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
        metadata = each.committed_metadata or ""
        code = shard.offsets.metadata_error(metadata)
        if not code:
            self.shard = shard
            self.offsets[group_id, topic.name, each.partition_index] = Committed(
                each.committed_offset, each.committed_leader_epoch, metadata, topic.id, self._now_ms, self._expires_ms
            )
        return code

    @cached_property
    def _coordinator(self) -> tuple[Shard | None, int]:
        """The group's shard if this request may commit, or the error code."""
        shard, code = find_shard(self._call, self._request.group_id, may_be_empty=True)
        if shard is not None:
            code = shard.offsets.commit_error(self._request, self._call.version)
            if code == ErrorCode.GROUP_ID_NOT_FOUND and not self._call.cluster.release.differs.committing_needs_the_group:
                code = ErrorCode.ILLEGAL_GENERATION
        return (None, code) if code else (shard, code)
