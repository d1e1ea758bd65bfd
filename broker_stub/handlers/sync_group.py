"""SyncGroup (14), versions 0 to 5.

A member asks for its assignment, and waits until the leader has sent it. Members that the leader left out get an empty one. An assignment
from another member is ignored. From version 5 on protocol type and name are mandatory and checked. Members that do not ask within the
rebalance timeout are removed.

In a group of the consumer protocol (KIP-848) a member of this one waits for no other. If the group has moved on since it joined it is
REBALANCE_IN_PROGRESS.
"""

from __future__ import annotations

from fencepost.broker_stub.handlers.group_lookups import find_shard
from fencepost.broker_stub.requests.call import Call, Result
from fencepost.broker_stub.requests.deferred_reply import DeferredReply
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.groups import SyncGroupRequest, SyncGroupResponse

PROTOCOL_SINCE = 5


@handles(SyncGroupRequest, range(6), group=Operation.READ)
def sync_group(call: Call, request: SyncGroupRequest) -> Result:
    if call.version >= PROTOCOL_SINCE and (request.protocol_type is None or request.protocol_name is None):
        return SyncGroupResponse(error_code=call.error or ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    shard, code = find_shard(call, request.group_id)
    if shard is None:
        return SyncGroupResponse(error_code=code)
    consumer = shard.consumers.groups.get(request.group_id)
    if consumer is not None:
        return (
            shard.classic_members.sync(consumer, request) if consumer.members else SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        )
    answer: DeferredReply[SyncGroupResponse] = DeferredReply(call)
    shard.groups.sync(request, answer)
    return answer.result()
