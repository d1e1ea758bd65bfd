"""ListGroups, DescribeGroups and DeleteGroups: groups as an administrator sees them."""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i16, i32, ignorable, since


class ListGroupsRequest(Message):
    """Asks a broker for the groups that it coordinates. Empty filters let all through."""

    api = Api.LIST_GROUPS
    versions = range(6)
    flexible = 3
    is_request = True

    states_filter: Annotated[list[str], since(4)] = []
    types_filter: Annotated[list[str], since(5)] = []


class ListedGroup(WireStruct):
    """A group, and what kind of group it is."""

    group_id: str = ""
    protocol_type: str = ""
    group_state: Annotated[str, since(4), ignorable] = ""
    group_type: Annotated[str, since(5), ignorable] = ""


class ListGroupsResponse(Message):
    """The groups of one broker."""

    api = Api.LIST_GROUPS
    versions = range(6)
    flexible = 3
    is_request = False

    throttle_time_ms: Annotated[i32, since(1), ignorable] = 0
    error_code: i16 = 0
    groups: list[ListedGroup] = []


class DescribeGroupsRequest(Message):
    """Must go to the coordinator of each group."""

    api = Api.DESCRIBE_GROUPS
    versions = range(7)
    flexible = 5
    is_request = True

    groups: list[str] = []
    include_authorized_operations: Annotated[bool, since(3)] = False


class DescribedGroupMember(WireStruct):
    """A member of a group, with what it told and was told."""

    member_id: str = ""
    group_instance_id: Annotated[str | None, since(4), ignorable] = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


class DescribedGroup(WireStruct):
    """A group and its members."""

    error_code: i16 = 0
    error_message: Annotated[str | None, since(6)] = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribedGroupMember] = []
    authorized_operations: Annotated[i32, since(3)] = -2147483648


class DescribeGroupsResponse(Message):
    """One answer per group."""

    api = Api.DESCRIBE_GROUPS
    versions = range(7)
    flexible = 5
    is_request = False

    throttle_time_ms: Annotated[i32, since(1), ignorable] = 0
    groups: list[DescribedGroup] = []


class DeleteGroupsRequest(Message):
    """Deletes groups that have no members, with their offsets."""

    api = Api.DELETE_GROUPS
    versions = range(3)
    flexible = 2
    is_request = True

    groups_names: list[str] = []


class DeletableGroupResult(WireStruct):
    """What became of one group."""

    group_id: str = ""
    error_code: i16 = 0


class DeleteGroupsResponse(Message):
    """One result per group."""

    api = Api.DELETE_GROUPS
    versions = range(3)
    flexible = 2
    is_request = False

    throttle_time_ms: i32 = 0
    results: list[DeletableGroupResult] = []
