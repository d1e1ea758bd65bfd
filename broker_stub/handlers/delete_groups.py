"""DeleteGroups (42), versions 0 to 2.

Deletes groups without members, and their offsets. One with members is NON_EMPTY_GROUP, one that is not there GROUP_ID_NOT_FOUND; a group
named twice is answered once. Answered when every in-sync replica of the groups' partitions knows.

Leaves out: groups of the newer protocols.
"""

from __future__ import annotations

from functools import partial

from broker_stub.call import Call
from broker_stub.coordinators.appends import Then
from broker_stub.coordinators.states import State
from broker_stub.handlers.group_lookups import find_shard
from broker_stub.operations import Operation
from broker_stub.parked import Parked
from broker_stub.router import Instead, handles
from producer.wire import ErrorCode
from producer.wire.messages.group_admin import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


@handles(DeleteGroupsRequest, range(3), group=Operation.DELETE)
def delete_groups(call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse | Instead:
    parked: Parked[DeleteGroupsResponse] = Parked(call)
    named = list(dict.fromkeys(request.groups_names))
    codes: dict[str, int] = {}

    def deleted(group_id: str, code: int) -> None:
        codes[group_id] = code
        if len(codes) == len(named):
            results = [DeletableGroupResult(group_id=each, error_code=codes[each]) for each in named]
            parked(DeleteGroupsResponse(results=results))

    if not named:
        parked(DeleteGroupsResponse(results=[]))
    for group_id in named:
        _delete(call, group_id, partial(deleted, group_id))
    return parked.result()


def _delete(call: Call, group_id: str, then: Then) -> None:
    shard, code = find_shard(call, group_id, may_be_empty=True)
    group = shard.groups.groups.get(group_id) if shard is not None else None
    if shard is None:
        then(code)
    elif group is None:
        then(ErrorCode.GROUP_ID_NOT_FOUND)
    elif group.state is not State.EMPTY:
        then(ErrorCode.NON_EMPTY_GROUP)
    else:
        shard.groups.delete(group_id, then)
