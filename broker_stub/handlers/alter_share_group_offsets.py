"""AlterShareGroupOffsets (91), version 0.

Moves a share group that has no members (KIP-932), and creates it if it is missing: its partitions begin anew at these offsets. A group with
members is NON_EMPTY_GROUP. The response leaves when the share coordinator has kept it.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from fencepost.broker_stub.groups.share.share_protocol import Codes
from fencepost.broker_stub.groups.state.share_group import ShareGroup
from fencepost.broker_stub.handlers.group_lookups import find_shard
from fencepost.broker_stub.requests.call import Call, Result
from fencepost.broker_stub.requests.deferred_reply import DeferredReply
from fencepost.broker_stub.requests.permissions import WORDS
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire import ZERO_UUID, ErrorCode
from fencepost.producer.wire.messages.share_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)

UNKNOWN_WORDS = "This server does not host this topic-partition."
IN_USE_WORDS = "The group is not empty."


@handles(AlterShareGroupOffsetsRequest, range(1), group=Operation.READ, topic=Operation.READ)
def alter_share_group_offsets(call: Call, request: AlterShareGroupOffsetsRequest) -> Result:
    shard, code = find_shard(call, request.group_id)
    if shard is None:
        return AlterShareGroupOffsetsResponse(error_code=code, error_message=WORDS.get(code))
    group_id = request.group_id
    if group_id in shard.groups.groups or group_id in shard.consumers.groups:
        words = f"Group {group_id} is not a share group."
        return AlterShareGroupOffsetsResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=words)
    group = shard.shares.groups.get(group_id) or ShareGroup(group_id)
    if group.members:
        return AlterShareGroupOffsetsResponse(error_code=ErrorCode.NON_EMPTY_GROUP, error_message=IN_USE_WORDS)
    topics = {each.topic_name: each for each in request.topics}
    refusals = {
        (name, part.partition_index): call.error_for(name, part.partition_index)
        for name, each in topics.items()
        for part in each.partitions
    }
    offsets: dict[UUID, tuple[str, Mapping[int, int]]] = {}
    for name, each in topics.items():
        topic = call.image.topics.named(name)
        if (
            topic is None
            or call.topic_refusal(name)
            or (each.partitions and all(refusals[name, part.partition_index] for part in each.partitions))
        ):
            continue
        wanted = {
            part.partition_index: part.start_offset
            for part in each.partitions
            if 0 <= part.partition_index < len(topic.partitions) and not refusals[name, part.partition_index]
        }
        offsets[topic.id] = (name, wanted)  # Kafka writes the topic also if none of these partitions exists
    reply: DeferredReply[AlterShareGroupOffsetsResponse] = DeferredReply(call)

    def altered(codes: Codes) -> None:
        reply(AlterShareGroupOffsetsResponse(responses=[_told(call, each, refusals, codes) for each in topics.values()]))

    if offsets:
        shard.shares.initialize(group, offsets, altered)
    else:
        altered({})
    return reply.result()


def _told(
    call: Call, asked: AlterShareGroupOffsetsRequestTopic, refusals: Mapping[tuple[str, int], int], codes: Codes
) -> AlterShareGroupOffsetsResponseTopic:
    topic = call.image.topics.named(asked.topic_name)
    topic_id = topic.id if topic is not None else ZERO_UUID
    partitions = []
    for each in asked.partitions:
        code = refusals[asked.topic_name, each.partition_index] or codes.get(
            (topic_id, each.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        words = UNKNOWN_WORDS if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else WORDS.get(code)
        partitions.append(
            AlterShareGroupOffsetsResponsePartition(partition_index=each.partition_index, error_code=code, error_message=words)
        )
    return AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name, topic_id=topic_id, partitions=partitions)
