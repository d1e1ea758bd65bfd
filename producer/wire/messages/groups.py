"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: the members of a classic group and its coordinator.

The coordinator passes subscriptions and assignments on as bytes, and does not read them.
"""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i16, i32, ignorable, nullable, since, until


class JoinGroupRequestProtocol(WireStruct):
    """An assignor that the member supports, and the member's subscription in that assignor's form."""

    name: str = ""
    metadata: bytes = b""


class JoinGroupRequest(Message):
    """A consumer asks the group coordinator to become a member, or to stay one in the next generation.

    The coordinator answers when all members have joined, or when the rebalance timeout has passed.
    """

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
    """A member, as the group's leader sees it."""

    member_id: str = ""
    group_instance_id: Annotated[str | None, since(5), ignorable] = None
    metadata: bytes = b""


class JoinGroupResponse(Message):
    """The coordinator answers with the new generation. Only the group's leader gets the list of members: it assigns the partitions."""

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
    """The leader's assignment for one member."""

    member_id: str = ""
    assignment: bytes = b""


class SyncGroupRequest(Message):
    """A member asks the group coordinator for its assignment. The leader's request carries the assignments of all members."""

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
    """The coordinator answers with the member's assignment."""

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
    """A member tells the group coordinator that it is alive."""

    api = Api.HEARTBEAT
    versions = range(5)
    flexible = 4
    is_request = True

    group_id: str = ""
    generation_id: i32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(3)] = None


class HeartbeatResponse(Message):
    """The coordinator answers whether the member still belongs to this generation."""

    api = Api.HEARTBEAT
    versions = range(5)
    flexible = 4
    is_request = False

    throttle_time_ms: Annotated[i32, since(1), ignorable] = 0
    error_code: i16 = 0


class MemberIdentity(WireStruct):
    """A member that leaves. Without a member id, the instance id names it."""

    member_id: Annotated[str, since(3)] = ""
    group_instance_id: Annotated[str | None, since(3)] = None
    reason: Annotated[str | None, since(5), ignorable] = None


class LeaveGroupRequest(Message):
    """A client tells the group coordinator to remove one member, from version 3 on several."""

    api = Api.LEAVE_GROUP
    versions = range(6)
    flexible = 4
    is_request = True

    group_id: str = ""
    member_id: Annotated[str, until(2)] = ""
    members: Annotated[list[MemberIdentity], since(3)] = []


class MemberResponse(WireStruct):
    """Whether the coordinator removed one member; if not, the error."""

    member_id: Annotated[str, since(3)] = ""
    group_instance_id: Annotated[str | None, since(3)] = ""
    error_code: Annotated[i16, since(3)] = 0


class LeaveGroupResponse(Message):
    """The coordinator answers whether the members have left. From version 3 on each member has its own error."""

    api = Api.LEAVE_GROUP
    versions = range(6)
    flexible = 4
    is_request = False

    throttle_time_ms: Annotated[i32, since(1), ignorable] = 0
    error_code: i16 = 0
    members: Annotated[list[MemberResponse], since(3)] = []
