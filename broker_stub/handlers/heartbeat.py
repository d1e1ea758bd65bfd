"""Heartbeat (12), versions 0 to 4.

Keeps a member's session alive. While the group prepares a rebalance the response is REBALANCE_IN_PROGRESS, and the session is kept all
the same.

Leaves out: members of the newer protocols (KIP-848).
"""

from __future__ import annotations

from fencepost.broker_stub.handlers.group_lookups import find_shard
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire.messages.groups import HeartbeatRequest, HeartbeatResponse


@handles(HeartbeatRequest, range(5), group=Operation.READ)
def heartbeat(call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
    shard, code = find_shard(call, request.group_id)
    return HeartbeatResponse(error_code=shard.groups.heartbeat(request) if shard is not None else code)
