"""The checks of the group handlers before they use a group: this broker must coordinate it, and its name must be valid.

They return codes and change nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.broker_stub.groups.coordinators import NotHere
from fencepost.broker_stub.groups.heartbeat_checks import Refused, known_static_member
from fencepost.broker_stub.groups.responses import Caller
from fencepost.producer.wire import ErrorCode

if TYPE_CHECKING:
    from fencepost.broker_stub.groups.consumer_group import ConsumerGroup
    from fencepost.broker_stub.groups.coordinators import Shard
    from fencepost.broker_stub.requests.call import Call


def find_shard(call: Call, group_id: str, *, may_be_empty: bool = False) -> tuple[Shard | None, int]:
    """The shard of the group, or the error code of this broker or this client."""
    code = call.group_error(group_id)
    if code:
        return None, code
    if not group_id and not may_be_empty:
        return None, ErrorCode.INVALID_GROUP_ID
    try:
        return call.groups.shard_for(group_id, call.broker.node_id), ErrorCode.NONE
    except NotHere as error:
        return None, error.code


def stranger_error(group: ConsumerGroup, member_id: str, instance_id: str | None) -> int:
    """The code for a request of the classic protocol to a group of the consumer protocol, whose members do not use that."""
    if instance_id is not None:
        try:
            known_static_member(group, member_id, instance_id)
        except Refused as refused:
            return refused.code
    return ErrorCode.UNKNOWN_MEMBER_ID


def caller_of(call: Call) -> Caller:
    """The client of the request. One without an id has the name that Java gives it; every client is on the broker's own computer."""
    return Caller(client_id=call.client_id if call.client_id is not None else "null", client_host="/127.0.0.1", version=call.version)
