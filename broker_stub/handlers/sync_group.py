"""SyncGroup (14), versions 0 to 5.

A member asks for its assignment and waits until the leader has brought it; members that the leader forgot get an empty one. What a member
that does not lead assigns is passed over. From version 5 on protocol type and name are mandatory, and checked. Members that do not ask
within the rebalance timeout are out.

Leaves out: groups of the newer protocols (KIP-848).
"""

from __future__ import annotations

from broker_stub.call import Call
from broker_stub.handlers.group_lookups import find_shard
from broker_stub.operations import Operation
from broker_stub.parked import Parked
from broker_stub.router import Result, handles
from producer.wire import ErrorCode
from producer.wire.messages.groups import SyncGroupRequest, SyncGroupResponse

PROTOCOL_SINCE = 5


@handles(SyncGroupRequest, range(6), group=Operation.READ)
def sync_group(call: Call, request: SyncGroupRequest) -> Result:
    if call.version >= PROTOCOL_SINCE and (request.protocol_type is None or request.protocol_name is None):
        return SyncGroupResponse(error_code=call.error or ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    shard, code = find_shard(call, request.group_id)
    if shard is None:
        return SyncGroupResponse(error_code=code)
    answer: Parked[SyncGroupResponse] = Parked(call)
    shard.groups.sync(request, answer)
    return answer.result()
