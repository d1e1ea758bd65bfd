"""OffsetFetch (9), versions 1 to 10.

The committed offsets of a group, from version 8 on of several groups; all offsets for null topics. A missing group or a partition without
an offset has offset -1 and no error. From version 10 on topics have ids: an unknown one is UNKNOWN_TOPIC_ID. In a request for all topics,
deleted ones and those that the client may not describe are left out.

A client that requires stable offsets (KIP-447) gets UNSTABLE_OFFSET_COMMIT for a partition with a pending offset of an open transaction.

A member of the consumer protocol (KIP-848) names itself and its epoch from version 9 on. If they are wrong, the group's error is
UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH.
"""

from __future__ import annotations

from uuid import UUID

from fencepost.broker_stub.groups.coordinators import Shard
from fencepost.broker_stub.groups.state.pending_offsets import Committed
from fencepost.broker_stub.handlers.group_lookups import find_shard
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire import ZERO_UUID, ErrorCode
from fencepost.producer.wire.messages.group_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

IN_TOPIC_SINCE = 1  # version 0 looked for offsets in ZooKeeper
GROUP_ERROR_SINCE = 2
BATCHED_SINCE = 8
BY_ID_SINCE = 10
NOTHING = Committed(-1, -1, "", ZERO_UUID)


@handles(OffsetFetchRequest, range(1, 11), group=Operation.DESCRIBE, topic=Operation.DESCRIBE)
def offset_fetch(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    if call.version >= BATCHED_SINCE:
        return OffsetFetchResponse(groups=[_group(call, group, stable=request.require_stable) for group in request.groups])
    if call.version < IN_TOPIC_SINCE:
        return _in_zookeeper(call, request)
    named = None
    if request.topics is not None:
        named = [OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in request.topics]
    group = _group(call, OffsetFetchRequestGroup(group_id=request.group_id, topics=named), stable=request.require_stable)
    if group.error_code and call.version < GROUP_ERROR_SINCE and call.cluster.release.differs.groups_fail_in_offset_fetch_1:
        group = _failed_everywhere(group, named or [])
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=each.partition_index,
                        committed_offset=each.committed_offset,
                        committed_leader_epoch=each.committed_leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error_code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


def _in_zookeeper(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    code = call.group_error(request.group_id) or ErrorCode.UNSUPPORTED_VERSION
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, metadata="", error_code=code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    )


def _group(call: Call, asked: OffsetFetchRequestGroup, *, stable: bool) -> OffsetFetchResponseGroup:
    shard, code = find_shard(call, asked.group_id, may_be_empty=True)
    code = code or (shard.offsets.fetch_error(asked.group_id, asked.member_id, asked.member_epoch) if shard is not None else code)
    if shard is None or code:
        return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=code)
    if asked.topics is None:
        topics = _every(call, shard, asked.group_id, stable=stable)
    else:
        found = [(topic, _resolved(call, topic)) for topic in asked.topics]
        topics = [_topic(call, shard, asked.group_id, topic, name, stable=stable) for topic, name in found if name is not None]
        topics += [_unknown(topic) for topic, name in found if name is None]
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)


def _resolved(call: Call, topic: OffsetFetchRequestTopics) -> str | None:
    return call.cluster.topic_name(topic.topic_id) if call.version >= BY_ID_SINCE else topic.name


def _topic(
    call: Call, shard: Shard, group_id: str, asked: OffsetFetchRequestTopics, name: str, *, stable: bool
) -> OffsetFetchResponseTopics:
    partitions = []
    for index in asked.partition_indexes:
        code = call.error_for(name, index) or _unstable(shard, group_id, name, index, stable=stable)
        found = shard.offsets.find(group_id, name, index, topic_id=asked.topic_id) if not code else None
        partitions.append(_partition(index, found or NOTHING, code))
    return OffsetFetchResponseTopics(name=name, topic_id=asked.topic_id, partitions=partitions)


def _every(call: Call, shard: Shard, group_id: str, *, stable: bool) -> list[OffsetFetchResponseTopics]:
    answers = []
    for name, offsets in shard.offsets.every(group_id):
        if call.topic_refusal(name):
            continue
        topic = call.image.topics.named(name)
        topic_id: UUID = topic.id if topic is not None else ZERO_UUID
        if call.version < BY_ID_SINCE or topic_id != ZERO_UUID:
            partitions = []
            for index, committed in offsets.items():
                code = call.fault_for(name, index) or _unstable(shard, group_id, name, index, stable=stable)
                partitions.append(_partition(index, NOTHING if code else committed, code))
            answers.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions))
    return answers


def _unstable(shard: Shard, group_id: str, topic: str, partition: int, *, stable: bool) -> int:
    pending = stable and shard.offsets.is_pending(group_id, topic, partition)
    return ErrorCode.UNSTABLE_OFFSET_COMMIT if pending else ErrorCode.NONE


def _partition(index: int, committed: Committed, code: int = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=code,
    )


def _unknown(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    partitions = [_partition(index, NOTHING, ErrorCode.UNKNOWN_TOPIC_ID) for index in topic.partition_indexes]
    return OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=partitions)


def _failed_everywhere(group: OffsetFetchResponseGroup, asked: list[OffsetFetchRequestTopics]) -> OffsetFetchResponseGroup:
    """Puts the group's error at every partition, because version 1 has no other place for it."""
    topics = [
        OffsetFetchResponseTopics(
            name=topic.name, partitions=[_partition(index, NOTHING, group.error_code) for index in topic.partition_indexes]
        )
        for topic in asked
    ]
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)
