"""JoinGroup (11), versions 0 to 9.

A member joins, and waits until the whole group has joined. Only the leader gets the list of members. From version 4 on a new dynamic member
first gets an id to join again with (MEMBER_ID_REQUIRED, KIP-394). A static member keeps its place under a new id, and the client
with the old id is fenced (KIP-345). If the group is stable and its protocol stays, there is no rebalance. From version 9 on a static leader
is told to skip the assignment. The first members of an empty group wait `group.initial.rebalance.delay.ms` for more, 0 by default in the
stub. Members that do not join within the rebalance timeout are removed.

A group of the consumer protocol (KIP-848) without members becomes a classic one, and keeps its offsets. A group with members takes the
member in: it waits for no other, gets its epoch for a generation, and joins again for each step towards what it will own. With
`group.consumer.migration.policy=disabled` it is INCONSISTENT_GROUP_PROTOCOL. When the last member of the consumer protocol is replaced by
a static member of the classic one, the group becomes a classic one, if the policy allows that.
"""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from fencepost.broker_stub.groups.classic.responses import no_join
from fencepost.broker_stub.handlers.group_lookups import caller_of, find_shard
from fencepost.broker_stub.requests.call import Call, Result
from fencepost.broker_stub.requests.deferred_reply import DeferredReply
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.groups import JoinGroupRequest, JoinGroupResponse

REBALANCE_TIMEOUT_SINCE = 1
NO_PROTOCOL_IS_NULL_SINCE = 7


@handles(JoinGroupRequest, range(10), group=Operation.READ)
def join_group(call: Call, request: JoinGroupRequest) -> Result:
    config = call.cluster.config
    shortest_ms, longest_ms = int(config["group.min.session.timeout.ms"]), int(config["group.max.session.timeout.ms"])
    shard, code = find_shard(call, request.group_id)
    differs = call.cluster.release.differs
    early = (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR) if differs.sessions_before_coordinator else (ErrorCode.NONE,)
    if code in early and not shortest_ms <= request.session_timeout_ms <= longest_ms:
        code = ErrorCode.INVALID_SESSION_TIMEOUT
    if shard is None or code:
        # Kafka names the member only in errors from before the group's lookup, but not in those of permissions.
        unnamed = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
        unnamed += [ErrorCode.NOT_COORDINATOR] if differs.sessions_before_coordinator else []
        member_id = "" if code in unnamed else request.member_id
        return _in_version(call, no_join(code, member_id))
    if request.group_id in shard.shares.groups:
        return _in_version(call, no_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""))
    consumer = shard.consumers.groups.get(request.group_id)
    if consumer is not None and not consumer.members:
        shard.consumers.make_way(request.group_id)
    if call.version < REBALANCE_TIMEOUT_SINCE:
        request = replace(request, rebalance_timeout_ms=request.session_timeout_ms)
    answer: DeferredReply[JoinGroupResponse] = DeferredReply(call)

    def joined(response: JoinGroupResponse) -> None:
        answer(_in_version(call, response))

    if consumer is not None and consumer.members:
        may_describe = partial(_may_describe, call)
        shard.classic_members.join(consumer, request, caller_of(call), may_describe, joined)
    else:
        shard.groups.join(request, caller_of(call), joined)
    return answer.result()


def _may_describe(call: Call, topic: str) -> bool:
    return call.may(Operation.DESCRIBE, Resource.TOPIC, topic)


def _in_version(call: Call, response: JoinGroupResponse) -> JoinGroupResponse:
    if call.version < NO_PROTOCOL_IS_NULL_SINCE and response.protocol_name is None:
        return replace(response, protocol_name="")
    return response
