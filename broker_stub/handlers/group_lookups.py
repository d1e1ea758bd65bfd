"""What the group handlers must find out before they touch a group: is this broker its coordinator, and may it be called that?

It answers with codes and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.broker_stub.groups.coordinators import NotHere
from fencepost.broker_stub.groups.responses import Caller
from fencepost.producer.wire import ErrorCode

if TYPE_CHECKING:
    from fencepost.broker_stub.groups.coordinators import Shard
    from fencepost.broker_stub.requests.call import Call


def find_shard(call: Call, group_id: str, *, may_be_empty: bool = False) -> tuple[Shard | None, int]:
    """The shard of the group, or why this broker has none, or none for this client."""
    code = call.group_error(group_id)
    if code:
        return None, code
    if not group_id and not may_be_empty:
        return None, ErrorCode.INVALID_GROUP_ID
    try:
        return call.groups.shard_for(group_id, call.broker.node_id), ErrorCode.NONE
    except NotHere as error:
        return None, error.code


def caller_of(call: Call) -> Caller:
    """Who asks. A client without an id is called what Java calls it; every client is on the broker's own machine."""
    return Caller(client_id=call.client_id if call.client_id is not None else "null", client_host="/127.0.0.1", version=call.version)
