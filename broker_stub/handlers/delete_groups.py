"""DeleteGroups (42), versions 0 to 2.

Deletes groups without members, and their offsets. One with members is NON_EMPTY_GROUP, one that is not there GROUP_ID_NOT_FOUND; a group
named twice is answered once.

Leaves out: groups of the newer protocols.
"""

from __future__ import annotations

from broker_stub.call import Call
from broker_stub.coordinators.states import State
from broker_stub.handlers.group_lookups import find_shard
from broker_stub.operations import Operation
from broker_stub.router import handles
from producer.wire import ErrorCode
from producer.wire.messages.group_admin import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


@handles(DeleteGroupsRequest, range(3), group=Operation.DELETE)
def delete_groups(call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=_delete(call, group_id)) for group_id in dict.fromkeys(request.groups_names)
        ]
    )


def _delete(call: Call, group_id: str) -> int:
    shard, code = find_shard(call, group_id, may_be_empty=True)
    if shard is None:
        return code
    group = shard.groups.groups.get(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not State.EMPTY:
        return ErrorCode.NON_EMPTY_GROUP
    shard.groups.delete(group_id)
    return ErrorCode.NONE
