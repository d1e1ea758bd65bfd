"""A LeaveGroup of the classic protocol that removes members of a consumer group, as administrators' tools send it."""

from __future__ import annotations

from collections.abc import Callable

from fencepost.broker_stub.groups.classic.responses import NO_MEMBER_ID, left
from fencepost.broker_stub.groups.consumer.consumer_protocol import ConsumerGroups
from fencepost.broker_stub.groups.consumer.heartbeat_checks import GroupRefused, known_member, known_static_member
from fencepost.broker_stub.groups.state.consumer_group import ConsumerGroup, ConsumerMember
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.groups import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse


def leave(groups: ConsumerGroups, group: ConsumerGroup, request: LeaveGroupRequest, answer: Callable[[LeaveGroupResponse], None]) -> None:
    """Removes the members that there are, static ones also by their instance id alone."""
    responses: list[MemberResponse] = []
    leavers: dict[str, ConsumerMember] = {}
    for each in request.members:
        try:
            member = _member(group, each)
        except GroupRefused as refused:
            responses.append(left(each, refused.code))
        else:
            responses.append(left(each, ErrorCode.NONE))
            leavers[member.id] = member

    def written(code: int) -> None:
        answer(LeaveGroupResponse(error_code=code) if code else LeaveGroupResponse(members=responses))

    groups.remove(group, list(leavers.values()), written)


def _member(group: ConsumerGroup, leaver: MemberIdentity) -> ConsumerMember:
    if leaver.group_instance_id is None:
        return known_member(group, leaver.member_id)
    if leaver.member_id != NO_MEMBER_ID:
        return known_static_member(group, leaver.member_id, leaver.group_instance_id)
    member = group.static_member(leaver.group_instance_id)
    return known_static_member(group, member.id if member is not None else NO_MEMBER_ID, leaver.group_instance_id)
