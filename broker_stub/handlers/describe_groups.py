"""DescribeGroups (15), versions 0 to 6.

State, protocol and members of each group. The members' metadata is there only while the group is stable. A missing group is Dead, and from
version 6 on GROUP_ID_NOT_FOUND.

Groups of the consumer protocol (KIP-848) and share groups (KIP-932) are none of these: ConsumerGroupDescribe and ShareGroupDescribe have
them. Every member's host is 127.0.0.1.
"""

from __future__ import annotations

from fencepost.broker_stub.groups.state.classic_group import Group
from fencepost.broker_stub.groups.state.classic_states import State
from fencepost.broker_stub.handlers.group_lookups import find_shard
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer.wire import OPERATIONS_NOT_ASKED_FOR, ErrorCode
from fencepost.producer.wire.messages.group_admin import DescribedGroup, DescribedGroupMember, DescribeGroupsRequest, DescribeGroupsResponse

NOT_FOUND_SINCE = 6


@handles(DescribeGroupsRequest, range(7), group=Operation.DESCRIBE)
def describe_groups(call: Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    with_operations = request.include_authorized_operations
    return DescribeGroupsResponse(groups=[_described(call, group_id, with_operations=with_operations) for group_id in request.groups])


def _described(call: Call, group_id: str, *, with_operations: bool) -> DescribedGroup:
    operations = call.asker.operations(Resource.GROUP, group_id) if with_operations else OPERATIONS_NOT_ASKED_FOR
    shard, code = find_shard(call, group_id, may_be_empty=True)
    if shard is None:
        return DescribedGroup(group_id=group_id, error_code=code)
    group = shard.groups.groups.get(group_id)
    if group is not None:
        return _group(group, operations)
    if call.version < NOT_FOUND_SINCE:
        return DescribedGroup(group_id=group_id, group_state=State.DEAD.value, authorized_operations=operations)
    is_other = group_id in shard.consumers.groups or group_id in shard.shares.groups
    return DescribedGroup(
        group_id=group_id,
        group_state=State.DEAD.value,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} {'is not a classic group' if is_other else 'not found'}.",
    )


def _group(group: Group, operations: int) -> DescribedGroup:
    stable = group.state is State.STABLE
    return DescribedGroup(
        group_id=group.id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol) if stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
        authorized_operations=operations,
    )
