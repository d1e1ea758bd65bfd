"""ListGroups, DescribeGroups and DeleteGroups: an administrator looks at groups and deletes them."""

from __future__ import annotations

from typing import Annotated

from fencepost.producer.wire.codes import Api
from fencepost.producer.wire.message import Message
from fencepost.producer.wire.schema.fields import WireStruct, i16, i32, ignorable, since


class ListGroupsRequest(Message):
    """A client asks a broker for the groups that it coordinates. An empty filter lets all groups pass."""

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
    """The broker answers with its groups."""

    api = Api.LIST_GROUPS
    versions = range(6)
    flexible = 3
    is_request = False

    throttle_time_ms: Annotated[i32, since(1), ignorable] = 0
    error_code: i16 = 0
    groups: list[ListedGroup] = []


class DescribeGroupsRequest(Message):
    """A client asks the coordinator of each group about the group."""

    api = Api.DESCRIBE_GROUPS
    versions = range(7)
    flexible = 5
    is_request = True

    groups: list[str] = []
    include_authorized_operations: Annotated[bool, since(3)] = False


class DescribedGroupMember(WireStruct):
    """A member of a group, with its subscription and its assignment."""

    member_id: str = ""
    group_instance_id: Annotated[str | None, since(4), ignorable] = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


class DescribedGroup(WireStruct):
    """A group and its members, or the error."""

    error_code: i16 = 0
    error_message: Annotated[str | None, since(6)] = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribedGroupMember] = []
    authorized_operations: Annotated[i32, since(3)] = -2147483648


class DescribeGroupsResponse(Message):
    """The coordinator answers with one result per group."""

    api = Api.DESCRIBE_GROUPS
    versions = range(7)
    flexible = 5
    is_request = False

    throttle_time_ms: Annotated[i32, since(1), ignorable] = 0
    groups: list[DescribedGroup] = []


class DeleteGroupsRequest(Message):
    """A client tells the coordinator to delete groups that have no members, with their offsets."""

    api = Api.DELETE_GROUPS
    versions = range(3)
    flexible = 2
    is_request = True

    groups_names: list[str] = []


class DeletableGroupResult(WireStruct):
    """Whether the coordinator deleted one group; if not, the error."""

    group_id: str = ""
    error_code: i16 = 0


class DeleteGroupsResponse(Message):
    """The coordinator answers with one result per group."""

    api = Api.DELETE_GROUPS
    versions = range(3)
    flexible = 2
    is_request = False

    throttle_time_ms: i32 = 0
    results: list[DeletableGroupResult] = []
