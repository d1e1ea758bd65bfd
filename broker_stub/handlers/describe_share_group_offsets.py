"""DescribeShareGroupOffsets (90), versions 0 and 1.

Where share groups are (KIP-932): the start offset of each partition, -1 where nothing is known, and from version 1 on how many records are
left (KIP-1226). Null topics mean all partitions that the group has. The group's coordinator asks the share coordinator. A missing group
has no partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple
from uuid import UUID

from fencepost.broker_stub.handlers.group_lookups import find_shard
from fencepost.broker_stub.replication.partition_state import NO_LEADER
from fencepost.broker_stub.requests.call import Call, Result
from fencepost.broker_stub.requests.deferred_reply import DeferredReply
from fencepost.broker_stub.requests.permissions import WORDS
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.broker_stub.share_partitions.coordinator.records import NO_COUNT, Key
from fencepost.broker_stub.share_partitions.coordinator.shard import Answer
from fencepost.broker_stub.share_partitions.states import NO_OFFSET
from fencepost.producer.wire import ZERO_UUID, ErrorCode
from fencepost.producer.wire.messages.share_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

NO_LAG = -1
LAG_MAX = 2**63 - 1


class _Topic(NamedTuple):
    """A topic that is asked for."""

    name: str
    topic_id: UUID
    partitions: list[int]


@handles(DescribeShareGroupOffsetsRequest, range(2), group=Operation.DESCRIBE, topic=Operation.DESCRIBE)
def describe_share_group_offsets(call: Call, request: DescribeShareGroupOffsetsRequest) -> Result:
    reply: DeferredReply[DescribeShareGroupOffsetsResponse] = DeferredReply(call)
    found: dict[int, DescribeShareGroupOffsetsResponseGroup] = {}

    def described(place: int, group: DescribeShareGroupOffsetsResponseGroup) -> None:
        found[place] = group
        if len(found) == len(request.groups):
            reply(DescribeShareGroupOffsetsResponse(groups=[found[each] for each in sorted(found)]))

    if not request.groups:
        reply(DescribeShareGroupOffsetsResponse())
    for place, asked in enumerate(request.groups):
        _describe(call, asked, partial(described, place))
    return reply.result()


def _describe(
    call: Call, asked: DescribeShareGroupOffsetsRequestGroup, then: Callable[[DescribeShareGroupOffsetsResponseGroup], None]
) -> None:
    group_id = asked.group_id
    code = call.group_error(group_id)
    if code:
        then(DescribeShareGroupOffsetsResponseGroup(group_id=group_id, error_code=code))
        return
    told: list[DescribeShareGroupOffsetsResponseTopic] = []
    if asked.topics is None:
        shard, code = find_shard(call, group_id, may_be_empty=True)
        if shard is None:
            then(DescribeShareGroupOffsetsResponseGroup(group_id=group_id, error_code=code))
            return
        group = shard.shares.groups.get(group_id)
        kept = group.initialized if group is not None else {}
        wanted = [
            _Topic(each.name, topic_id, sorted(each.partitions)) for topic_id, each in kept.items() if not call.topic_refusal(each.name)
        ]
    else:
        wanted = []
        for topic in asked.topics:
            known = call.image.topics.named(topic.topic_name)
            refusal = call.topic_refusal(topic.topic_name)
            if refusal:
                told.append(_refused(topic.topic_name, topic.partitions, refusal))
            elif known is None:
                told.append(_unknown(topic.topic_name, topic.partitions))
            else:
                wanted.append(_Topic(topic.topic_name, known.id, topic.partitions))
    _ask(call, group_id, wanted, lambda topics: then(DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=[*topics, *told])))


def _ask(call: Call, group_id: str, wanted: list[_Topic], then: Callable[[list[DescribeShareGroupOffsetsResponseTopic]], None]) -> None:
    """Asks the share coordinator for each partition."""
    found: dict[tuple[int, int], DescribeShareGroupOffsetsResponsePartition] = {}
    count = sum(len(topic.partitions) for topic in wanted)

    def answered(place: tuple[int, int], topic: str, index: int, answer: Answer) -> None:
        found[place] = _partition(call, topic, index, answer)
        if len(found) == count:
            then(
                [
                    DescribeShareGroupOffsetsResponseTopic(
                        topic_name=each.name,
                        topic_id=each.topic_id,
                        partitions=[found[at, within] for within in range(len(each.partitions))],
                    )
                    for at, each in enumerate(wanted)
                ]
            )

    if not count:
        then([DescribeShareGroupOffsetsResponseTopic(topic_name=each.name, topic_id=each.topic_id) for each in wanted])
    for at, topic in enumerate(wanted):
        for within, index in enumerate(topic.partitions):
            key = Key(group_id, topic.topic_id, index)
            call.persister.summary(call.broker.node_id, key, then=partial(answered, (at, within), topic.name, index))


def _partition(call: Call, topic: str, index: int, answer: Answer) -> DescribeShareGroupOffsetsResponsePartition:
    state = answer.found
    if answer.code:
        return DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=NO_OFFSET)
    if state.start_offset == NO_OFFSET or state.done_count == NO_COUNT:
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=index, start_offset=state.start_offset, leader_epoch=state.leader_epoch
        )
    partition, _ = call.find(topic, index)
    leader = call.cluster.led_by(call.broker.node_id, topic, index)
    if partition is None or leader == NO_LEADER:
        return DescribeShareGroupOffsetsResponsePartition(partition_index=index, error_code=ErrorCode.LEADER_NOT_AVAILABLE)
    end = partition.leading.log.high_watermark
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=state.start_offset,
        leader_epoch=state.leader_epoch,
        lag=max(-LAG_MAX, min(end - state.start_offset - state.done_count, LAG_MAX)),
    )


def _refused(topic: str, partitions: list[int], code: int) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic,
        topic_id=ZERO_UUID,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index, start_offset=NO_OFFSET, lag=NO_LAG, error_code=code, error_message=WORDS.get(code)
            )
            for index in partitions
        ],
    )


def _unknown(topic: str, partitions: list[int]) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic,
        topic_id=ZERO_UUID,
        partitions=[DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=NO_OFFSET) for index in partitions],
    )
