"""The responses of the classic group protocol, made from a group; and the errors of a SyncGroup.

Nothing here changes a group.
"""

from __future__ import annotations

from typing import NamedTuple

from fencepost.broker_stub.groups.state.classic_group import Group, Member, Protocols
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.groups import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

NO_MEMBER_ID = ""


class Caller(NamedTuple):
    """The client of a request, and the request's version."""

    client_id: str
    client_host: str
    version: int


def protocols_of(request: JoinGroupRequest) -> Protocols:
    return tuple((protocol.name, protocol.metadata) for protocol in request.protocols)


def member_of(request: JoinGroupRequest, member_id: str, caller: Caller) -> Member:
    return Member(
        member_id,
        instance_id=request.group_instance_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=protocols_of(request),
    )


def no_join(code: int, member_id: str = NO_MEMBER_ID) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=member_id, protocol_name=None)


def joined(
    group: Group, member_id: str, *, with_members: bool, skip_assignment: bool = False, leader: str | None = None
) -> JoinGroupResponse:
    """The response to a member that joined this generation. Only the leader gets the list of members."""
    tells = with_members and group.leader == member_id
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=leader if leader is not None else group.leader or NO_MEMBER_ID,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=[
            JoinGroupResponseMember(member_id=each.id, group_instance_id=each.instance_id, metadata=each.metadata(group.protocol))
            for each in (group.members.values() if tells else ())
        ],
    )


def synced(group: Group, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment)


def sync_error(group: Group, request: SyncGroupRequest) -> int:
    code = group.member_error(request.member_id, request.group_instance_id)
    if code:
        return code
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    told = ((request.protocol_type, group.protocol_type), (request.protocol_name, group.protocol))
    if any(theirs is not None and ours is not None and theirs != ours for theirs, ours in told):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def left(leaver: MemberIdentity, code: int) -> MemberResponse:
    return MemberResponse(member_id=leaver.member_id, group_instance_id=leaver.group_instance_id, error_code=code)
