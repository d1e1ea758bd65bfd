"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: the life of a member of a classic group.

Metadata and assignments are bytes, which the coordinator passes on unread."""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i16, i32, ignorable, nullable, since, until


class JoinGroupRequestProtocol(WireStruct):
    """An assignor that the member knows, and what it tells that assignor."""

    name: str = ""
    metadata: bytes = b""


class JoinGroupRequest(Message):
    """Asks to be a member, or to stay one in the next generation. Its answer comes when the whole group has joined."""

    api = Api.JOIN_GROUP
    versions = range(10)
    flexible = 6
    is_request = True

    group_id: str = ""
    session_timeout_ms: i32 = 0
    rebalance_timeout_ms: Annotated[i32, since(1), ignorable] = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(5)] = None
    protocol_type: str = ""
    protocols: list[JoinGroupRequestProtocol] = []
    reason: Annotated[str | None, since(8), ignorable] = None


class JoinGroupResponseMember(WireStruct):
    """A member, as its group's leader sees it."""

    member_id: str = ""
    group_instance_id: Annotated[str | None, since(5), ignorable] = None
    metadata: bytes = b""


class JoinGroupResponse(Message):
    """The new generation. Only its leader is told the members; what it assigns to them goes into its SyncGroup."""

    api = Api.JOIN_GROUP
    versions = range(10)
    flexible = 6
    is_request = False

    throttle_time_ms: Annotated[i32, since(2), ignorable] = 0
    error_code: i16 = 0
    generation_id: i32 = -1
    protocol_type: Annotated[str | None, since(7), ignorable] = None
    protocol_name: Annotated[str | None, nullable(7)] = ""
    leader: str = ""
    skip_assignment: Annotated[bool, since(9)] = False
    member_id: str = ""
    members: list[JoinGroupResponseMember] = []


class SyncGroupRequestAssignment(WireStruct):
    """What the leader assigns to one member."""

    member_id: str = ""
    assignment: bytes = b""


class SyncGroupRequest(Message):
    """Asks for the member's assignment. The leader's request has the assignments of all members."""

    api = Api.SYNC_GROUP
    versions = range(6)
    flexible = 4
    is_request = True

    group_id: str = ""
    generation_id: i32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(3)] = None
    protocol_type: Annotated[str | None, since(5), ignorable] = None
    protocol_name: Annotated[str | None, since(5), ignorable] = None
    assignments: list[SyncGroupRequestAssignment] = []


class SyncGroupResponse(Message):
    """The member's assignment."""

    api = Api.SYNC_GROUP
    versions = range(6)
    flexible = 4
    is_request = False

    throttle_time_ms: Annotated[i32, since(1), ignorable] = 0
    error_code: i16 = 0
    protocol_type: Annotated[str | None, since(5), ignorable] = None
    protocol_name: Annotated[str | None, since(5), ignorable] = None
    assignment: bytes = b""


class HeartbeatRequest(Message):
    """Tells that the member is alive."""

    api = Api.HEARTBEAT
    versions = range(5)
    flexible = 4
    is_request = True

    group_id: str = ""
    generation_id: i32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(3)] = None


class HeartbeatResponse(Message):
    """Whether it still belongs to this generation."""

    api = Api.HEARTBEAT
    versions = range(5)
    flexible = 4
    is_request = False

    throttle_time_ms: Annotated[i32, since(1), ignorable] = 0
    error_code: i16 = 0


class MemberIdentity(WireStruct):
    """A member that leaves; without a member id it is named by its instance id."""

    member_id: Annotated[str, since(3)] = ""
    group_instance_id: Annotated[str | None, since(3)] = None
    reason: Annotated[str | None, since(5), ignorable] = None


class LeaveGroupRequest(Message):
    """Takes one member, from version 3 on several, out of the group."""

    api = Api.LEAVE_GROUP
    versions = range(6)
    flexible = 4
    is_request = True

    group_id: str = ""
    member_id: Annotated[str, until(2)] = ""
    members: Annotated[list[MemberIdentity], since(3)] = []


class MemberResponse(WireStruct):
    """What became of one of them."""

    member_id: Annotated[str, since(3)] = ""
    group_instance_id: Annotated[str | None, since(3)] = ""
    error_code: Annotated[i16, since(3)] = 0


class LeaveGroupResponse(Message):
    """Whether they have left; from version 3 on the error is each member's own."""

    api = Api.LEAVE_GROUP
    versions = range(6)
    flexible = 4
    is_request = False

    throttle_time_ms: Annotated[i32, since(1), ignorable] = 0
    error_code: i16 = 0
    members: Annotated[list[MemberResponse], since(3)] = []
