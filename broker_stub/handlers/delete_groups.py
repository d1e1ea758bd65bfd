"""DeleteGroups (42), versions 0 to 2.

Deletes groups without members, and their offsets. A group with members is NON_EMPTY_GROUP, a missing one GROUP_ID_NOT_FOUND; a group
named twice has one result. It responds when every in-sync replica of the groups' partitions has the deletion. The share coordinator deletes
the state of a share group first.
"""

from __future__ import annotations

from functools import partial

from fencepost.broker_stub.cluster.internal_append import Then
from fencepost.broker_stub.groups.state.classic_states import State
from fencepost.broker_stub.handlers.group_lookups import find_shard
from fencepost.broker_stub.handlers.share_group_deletion import delete_share_group
from fencepost.broker_stub.requests.call import Call, Instead
from fencepost.broker_stub.requests.deferred_reply import DeferredReply
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.group_admin import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


@handles(DeleteGroupsRequest, range(3), group=Operation.DELETE)
def delete_groups(call: Call, request: DeleteGroupsRequest) -> DeleteGroupsResponse | Instead:
    deferred: DeferredReply[DeleteGroupsResponse] = DeferredReply(call)
    named = list(dict.fromkeys(request.groups_names))
    codes: dict[str, int] = {}

    def deleted(group_id: str, code: int) -> None:
        codes[group_id] = code
        if len(codes) == len(named):
            results = [DeletableGroupResult(group_id=each, error_code=codes[each]) for each in named]
            deferred(DeleteGroupsResponse(results=results))

    if not named:
        deferred(DeleteGroupsResponse(results=[]))
    for group_id in named:
        _delete(call, group_id, partial(deleted, group_id))
    return deferred.result()


def _delete(call: Call, group_id: str, then: Then) -> None:
    shard, code = find_shard(call, group_id, may_be_empty=True)
    group = shard.groups.groups.get(group_id) if shard is not None else None
    consumer = shard.consumers.groups.get(group_id) if shard is not None else None
    share = shard.shares.groups.get(group_id) if shard is not None else None
    if shard is None:
        then(code)
    elif share is not None:
        if share.members:
            then(ErrorCode.NON_EMPTY_GROUP)
        else:
            delete_share_group(call, shard, share, then)
    elif consumer is not None:
        if consumer.members:
            then(ErrorCode.NON_EMPTY_GROUP)
        else:
            shard.consumers.delete(group_id, then)
    elif group is None:
        then(ErrorCode.GROUP_ID_NOT_FOUND)
    elif group.state is not State.EMPTY:
        then(ErrorCode.NON_EMPTY_GROUP)
    else:
        shard.groups.delete(group_id, then)
