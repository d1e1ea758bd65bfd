"""Heartbeat (12), versions 0 to 4.

Keeps a member's session alive. While the group prepares a rebalance the response is REBALANCE_IN_PROGRESS, and the session is kept all
the same.

In a group of the consumer protocol (KIP-848) it is also REBALANCE_IN_PROGRESS when the member must give partitions up, and when those that
it waits for are free.
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
    if shard is not None:
        consumer = shard.consumers.groups.get(request.group_id)
        code = shard.groups.heartbeat(request) if consumer is None else shard.classic_members.heartbeat(consumer, request)
    return HeartbeatResponse(error_code=code)
