"""ConsumerGroupHeartbeat (68), versions 0 and 1.

A member of the consumer protocol (KIP-848) joins with epoch 0, heartbeats, and leaves with epoch -1, a static one for a while with -2. The
coordinator assigns the partitions, with `uniform` or `range`. A member first gives up partitions, and says so; then others get them. The
response has the assignment where it changed, or where the member told everything. It leaves when every in-sync replica has the records of
the change. From version 1 on a member makes its own id, and can subscribe by a regular expression.

A classic group that it joins becomes a consumer group, and the classic members stay in it. When only classic members are left, the group
becomes a classic one again. `group.consumer.migration.policy` forbids one of the two, or both. A classic group whose assignments have user
data stays as it is, as in Kafka: librdkafka's cooperative-sticky sends such data after its first rebalance.

Leaves out: Kafka's regular expressions are RE2's, these are Python's. Racks are kept, and decide nothing, as in Kafka's own assignors.
"""

from __future__ import annotations

from fencepost.broker_stub.groups.consumer.heartbeat_checks import GroupRefused, check_request
from fencepost.broker_stub.handlers.group_lookups import caller_of, find_shard
from fencepost.broker_stub.requests.call import Call, Result
from fencepost.broker_stub.requests.deferred_reply import DeferredReply
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse


@handles(ConsumerGroupHeartbeatRequest, range(2), group=Operation.READ, topic=Operation.DESCRIBE)
def consumer_group_heartbeat(call: Call, request: ConsumerGroupHeartbeatRequest) -> Result:
    if not call.cluster.release.differs.consumer_protocol:
        return ConsumerGroupHeartbeatResponse(error_code=call.error or ErrorCode.UNSUPPORTED_VERSION)
    code = call.group_error(request.group_id)
    if not code and any(call.topic_refusal(name) for name in request.subscribed_topic_names or ()):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if code:
        return ConsumerGroupHeartbeatResponse(error_code=code)
    try:
        check_request(request, call.version, call.groups.assignors)
    except GroupRefused as refused:
        return ConsumerGroupHeartbeatResponse(error_code=refused.code, error_message=refused.message)
    shard, code = find_shard(call, request.group_id)
    if shard is None:
        return ConsumerGroupHeartbeatResponse(error_code=code)
    answer: DeferredReply[ConsumerGroupHeartbeatResponse] = DeferredReply(call)
    shard.consumers.heartbeat(request, caller_of(call), lambda topic: not call.topic_refusal(topic), answer)
    return answer.result()
