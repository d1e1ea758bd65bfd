"""ShareGroupDescribe (77), version 1.

State, epochs and members of each share group (KIP-932), with the partitions of each member. Another group, or a missing one, is
GROUP_ID_NOT_FOUND. A client that may not DESCRIBE one of the topics gets TOPIC_AUTHORIZATION_FAILED for the whole group. Every member's
host is 127.0.0.1.
"""

from __future__ import annotations

from msgspec.structs import replace

from fencepost.broker_stub.groups.consumer.heartbeat_checks import GroupRefused
from fencepost.broker_stub.groups.share.simple_assignor import NAME
from fencepost.broker_stub.groups.state.share_group import ShareGroup, ShareMember
from fencepost.broker_stub.handlers.group_lookups import find_shard
from fencepost.broker_stub.handlers.share_state_requests import COORDINATOR_WORDS
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.share_groups import (
    DescribedAssignment,
    DescribedGroup,
    DescribedPartitions,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


@handles(ShareGroupDescribeRequest, range(1, 2), group=Operation.DESCRIBE, topic=Operation.DESCRIBE)
def share_group_describe(call: Call, request: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
    with_operations = request.include_authorized_operations
    groups = [_described(call, group_id, with_operations=with_operations) for group_id in request.group_ids]
    return ShareGroupDescribeResponse(groups=sorted(groups, key=lambda each: each.error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED))


def _described(call: Call, group_id: str, *, with_operations: bool) -> DescribedGroup:
    shard, code = find_shard(call, group_id)
    if shard is None:
        return DescribedGroup(group_id=group_id, error_code=code, error_message=COORDINATOR_WORDS.get(code))
    try:
        described = _group(call, shard.shares.find(group_id))
    except GroupRefused as refused:
        return DescribedGroup(group_id=group_id, error_code=refused.code, error_message=refused.message)
    topics = {each.topic_name for member in described.members for each in member.assignment.topic_partitions}
    if any(map(call.topic_refusal, topics)):
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            error_message="The group has described topic(s) that the client is not authorized to describe.",
        )
    if not with_operations:
        return described
    return replace(described, authorized_operations=call.asker.operations(Resource.GROUP, group_id))


def _group(call: Call, group: ShareGroup) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=NAME,
        members=[_member(call, member) for member in group.members.values()],
    )


def _member(call: Call, member: ShareMember) -> Member:
    found = [(call.image.topics.with_id(topic_id), indexes) for topic_id, indexes in member.assigned.items()]
    return Member(
        member_id=member.id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=DescribedAssignment(
            topic_partitions=[
                DescribedPartitions(topic_id=topic.id, topic_name=topic.name, partitions=sorted(indexes))
                for topic, indexes in found
                if topic is not None
            ]
        ),
    )
