"""ConsumerGroupDescribe (69), versions 0 and 1.

State, epochs and members of each group of the consumer protocol (KIP-848), with what each member owns and will own. Another group, or a
missing one, is GROUP_ID_NOT_FOUND. A client that may not DESCRIBE one of the topics gets TOPIC_AUTHORIZATION_FAILED for the whole group.
A member may use the classic protocol. Every member's host is 127.0.0.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from msgspec.structs import replace

from fencepost.broker_stub.groups.state.consumer_group import ConsumerGroup, ConsumerMember
from fencepost.broker_stub.handlers.group_lookups import find_shard
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.consumer_group_admin import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

CLASSIC_MEMBER, CONSUMER_MEMBER = range(2)


@handles(ConsumerGroupDescribeRequest, range(2), group=Operation.DESCRIBE, topic=Operation.DESCRIBE)
def consumer_group_describe(call: Call, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    with_operations = request.include_authorized_operations
    groups = [_described(call, group_id, with_operations=with_operations) for group_id in request.group_ids]
    return ConsumerGroupDescribeResponse(groups=sorted(groups, key=lambda each: each.error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED))


def _described(call: Call, group_id: str, *, with_operations: bool) -> DescribedGroup:
    code = call.error
    if not code and not call.cluster.release.differs.consumer_protocol:
        code = ErrorCode.UNSUPPORTED_VERSION
    if code:
        return DescribedGroup(group_id=group_id, error_code=code)
    shard, code = find_shard(call, group_id)
    if shard is None:
        return DescribedGroup(group_id=group_id, error_code=code)
    group = shard.consumers.groups.get(group_id)
    if group is None:
        is_other = group_id in shard.groups.groups or group_id in shard.shares.groups
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} is not a consumer group." if is_other else f"Group {group_id} not found.",
        )
    described = _group(call, group, shard.consumers.default_assignor)
    if any(call.topic_refusal(topic) for topic in _topics(described)):
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message="The group has described topic(s) that the client is not authorized to describe.",
        )
    if not with_operations:
        return described
    return replace(described, authorized_operations=call.asker.operations(Resource.GROUP, group_id))


def _group(call: Call, group: ConsumerGroup, default_assignor: str) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor() or default_assignor,
        members=[_member(call, group, member) for member in group.members.values()],
    )


def _member(call: Call, group: ConsumerGroup, member: ConsumerMember) -> Member:
    owned = {
        topic_id: [*member.assigned.get(topic_id, ()), *member.pending_revocation.get(topic_id, ())]
        for topic_id in dict.fromkeys((*member.assigned, *member.pending_revocation))
    }
    return Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(call, owned),
        target_assignment=_assignment(call, group.target.get(member.id, {})),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(call: Call, partitions: Mapping[UUID, Iterable[int]]) -> Assignment:
    """Without topics that are deleted."""
    found = [(call.image.topics.with_id(topic_id), indexes) for topic_id, indexes in partitions.items()]
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic.id, topic_name=topic.name, partitions=sorted(indexes))
            for topic, indexes in found
            if topic is not None
        ]
    )


def _topics(group: DescribedGroup) -> set[str]:
    return {
        each.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for each in assignment.topic_partitions
    }
