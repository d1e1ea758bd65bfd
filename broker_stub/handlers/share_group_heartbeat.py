"""ShareGroupHeartbeat (76), version 1.

A member of a share group (KIP-932) joins with epoch 0 and an id of its own, heartbeats, and leaves with epoch -1. The coordinator assigns
the partitions with Kafka's simple assignor, so that several members may have the same one. A partition is assigned once the share
coordinator has begun to keep its state, which is soon after the first heartbeat. The response leaves when every in-sync replica has the
records of the change.

Leaves out: racks decide nothing, as in Kafka's own assignor.
"""

from __future__ import annotations

from fencepost.broker_stub.groups.consumer.heartbeat_checks import GroupRefused
from fencepost.broker_stub.groups.share.share_protocol import check_request
from fencepost.broker_stub.handlers.group_lookups import caller_of, find_shard
from fencepost.broker_stub.handlers.share_acknowledgements import is_member_id
from fencepost.broker_stub.requests.call import Call, Result
from fencepost.broker_stub.requests.deferred_reply import DeferredReply
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.share_groups import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


@handles(ShareGroupHeartbeatRequest, range(1, 2), group=Operation.READ, topic=Operation.DESCRIBE)
def share_group_heartbeat(call: Call, request: ShareGroupHeartbeatRequest) -> Result:
    code = call.group_error(request.group_id)
    if code:
        return ShareGroupHeartbeatResponse(error_code=code)
    if not is_member_id(request.member_id):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST)
    if any(call.topic_refusal(name) for name in request.subscribed_topic_names or ()):
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    try:
        check_request(request)
    except GroupRefused as refused:
        return ShareGroupHeartbeatResponse(error_code=refused.code, error_message=refused.message)
    shard, code = find_shard(call, request.group_id)
    if shard is None:
        return ShareGroupHeartbeatResponse(error_code=code)
    answer: DeferredReply[ShareGroupHeartbeatResponse] = DeferredReply(call)
    shard.shares.heartbeat(request, caller_of(call), answer)
    return answer.result()
