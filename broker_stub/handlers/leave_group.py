"""LeaveGroup (13), versions 0 to 5.

Removes a member, from version 3 on several, also static ones by their instance id alone; the others rebalance. Up to version 2 the
response has one error, later each member has its own. When the last member leaves, the response waits until that is written.

Administrators also remove members of the consumer protocol (KIP-848) with it.
"""

from __future__ import annotations

from msgspec.structs import replace

from fencepost.broker_stub.groups.consumer.consumer_leave import leave
from fencepost.broker_stub.handlers.group_lookups import find_shard
from fencepost.broker_stub.requests.call import Call, Result
from fencepost.broker_stub.requests.deferred_reply import DeferredReply
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire.messages.groups import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

BATCHED_SINCE = 3


@handles(LeaveGroupRequest, range(6), group=Operation.READ)
def leave_group(call: Call, request: LeaveGroupRequest) -> Result:
    shard, code = find_shard(call, request.group_id)
    if shard is None:
        return LeaveGroupResponse(error_code=code)
    if call.version < BATCHED_SINCE:
        request = replace(request, members=[MemberIdentity(member_id=request.member_id)])
    deferred: DeferredReply[LeaveGroupResponse] = DeferredReply(call)

    def answer(response: LeaveGroupResponse) -> None:
        alone = call.version < BATCHED_SINCE and not response.error_code
        deferred(LeaveGroupResponse(error_code=response.members[0].error_code) if alone else response)

    consumer = shard.consumers.groups.get(request.group_id)
    if consumer is not None:
        leave(shard.consumers, consumer, request, answer)
    else:
        shard.groups.leave(request, answer)
    return deferred.result()
