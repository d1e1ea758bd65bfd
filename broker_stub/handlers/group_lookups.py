"""The checks of the group handlers before they use a group: this broker must coordinate it, and its name must be valid.

They return codes and change nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.broker_stub.groups.classic.responses import Caller
from fencepost.broker_stub.groups.coordinators import NotHere
from fencepost.producer.wire import ErrorCode

if TYPE_CHECKING:
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


def caller_of(call: Call) -> Caller:
    """The client of the request. One without an id has the name that Java gives it; every client is on the broker's own computer."""
    return Caller(client_id=call.client_id if call.client_id is not None else "null", client_host="/127.0.0.1", version=call.version)
