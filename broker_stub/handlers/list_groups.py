"""ListGroups (16), versions 0 to 5.

The groups that this broker coordinates, with their states from version 4 on and their types from version 5 on. Filters of states and types
ignore case. The client gets the groups that it may DESCRIBE, or all of them if it may DESCRIBE the cluster.

Types are `classic`, `consumer` and `share`. Leaves out: every other type.
"""

from __future__ import annotations

from collections.abc import Iterator

from fencepost.broker_stub.groups.coordinators import Loading, Shard
from fencepost.broker_stub.groups.state.classic_group import CONSUMER_PROTOCOL
from fencepost.broker_stub.groups.state.share_group import PROTOCOL_TYPE
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer.wire.messages.group_admin import ListedGroup, ListGroupsRequest, ListGroupsResponse

CLASSIC, CONSUMER, SHARE = "classic", "consumer", "share"


@handles(ListGroupsRequest, range(6))
def list_groups(call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    if call.error:
        return ListGroupsResponse(error_code=call.error)
    trimmed = call.cluster.release.differs.states_trimmed
    states = {state.strip().lower() if trimmed else state.lower() for state in request.states_filter}
    types = {each.lower() for each in request.types_filter}
    try:
        shards = call.groups.shards_of(call.broker.node_id)
    except Loading as loading:
        return ListGroupsResponse(error_code=loading.code)
    every = call.may(Operation.DESCRIBE, Resource.CLUSTER)
    return ListGroupsResponse(
        groups=[
            group
            for shard in shards
            for group in _groups(shard)
            if (every or call.may(Operation.DESCRIBE, Resource.GROUP, group.group_id))
            and (not types or group.group_type in types)
            and (not states or group.group_state.lower() in states)
        ]
    )


def _groups(shard: Shard) -> Iterator[ListedGroup]:
    for group in shard.groups.groups.values():
        yield ListedGroup(group_id=group.id, protocol_type=group.protocol_type or "", group_state=group.state.value, group_type=CLASSIC)
    for consumer in shard.consumers.groups.values():
        yield ListedGroup(group_id=consumer.id, protocol_type=CONSUMER_PROTOCOL, group_state=consumer.state.value, group_type=CONSUMER)
    for share in shard.shares.groups.values():
        yield ListedGroup(group_id=share.id, protocol_type=PROTOCOL_TYPE, group_state=share.state.value, group_type=SHARE)
