"""OffsetDelete (47), version 0.

Deletes committed offsets of a group, but not of topics that a member may be reading (GROUP_SUBSCRIBED_TO_TOPIC). A group with members that
does not use the consumer protocol is NON_EMPTY_GROUP, a missing one GROUP_ID_NOT_FOUND; these are the error of the whole response.

Pending offsets of open transactions are deleted too. It responds when every in-sync replica of the group's partition has the deletion.
"""

from __future__ import annotations

from fencepost.broker_stub.groups.coordinators import Shard
from fencepost.broker_stub.handlers.group_lookups import find_shard
from fencepost.broker_stub.requests.call import Call, Instead
from fencepost.broker_stub.requests.deferred_reply import DeferredReply
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.group_offsets import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


@handles(OffsetDeleteRequest, range(1), group=Operation.DELETE, topic=Operation.READ)
def offset_delete(call: Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse | Instead:
    shard, code = find_shard(call, request.group_id)
    code = code or (shard.offsets.delete_error(request.group_id) if shard is not None else code)
    if shard is None or code:
        return OffsetDeleteResponse(error_code=code)
    group_id = request.group_id
    refusals = {
        (group_id, topic.name, each.partition_index): _refusal(call, shard, group_id, topic.name, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    }
    answer = OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=each.partition_index, error_code=refusals[group_id, topic.name, each.partition_index]
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
            if topic.partitions
        ]
    )
    deferred: DeferredReply[OffsetDeleteResponse] = DeferredReply(call)
    wanted = [key for key, refused in refusals.items() if not refused]
    shard.offsets.delete(wanted, lambda code: deferred(OffsetDeleteResponse(error_code=code) if code else answer))
    return deferred.result()


def _refusal(call: Call, shard: Shard, group_id: str, topic: str, partition: int) -> int:
    code = call.error_for(topic, partition)
    if not code and call.find(topic, partition)[0] is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return code or shard.offsets.deletion_error(group_id, topic)
