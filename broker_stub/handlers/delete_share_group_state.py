"""DeleteShareGroupState (86), version 0.

The group coordinator has the share coordinator end share partitions (KIP-932). One that is not there is no error.
"""

from __future__ import annotations

from fencepost.broker_stub.handlers.share_state_requests import ask_each, results
from fencepost.broker_stub.requests.call import Call, Result
from fencepost.broker_stub.requests.deferred_reply import DeferredReply
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.broker_stub.share_partitions.coordinator.records import Key
from fencepost.broker_stub.share_partitions.coordinator.shard import ShareShard, Then
from fencepost.producer.wire.messages.share_state import (
    DeletedPartition,
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
)


@handles(DeleteShareGroupStateRequest, range(1), cluster=Operation.CLUSTER_ACTION)
def delete_share_group_state(call: Call, request: DeleteShareGroupStateRequest) -> Result:
    reply: DeferredReply[DeleteShareGroupStateResponse] = DeferredReply(call)
    ask_each(
        call,
        request.group_id,
        request.topics,
        _do,
        lambda answers: reply(DeleteShareGroupStateResponse(results=results(answers))),
        verb="delete share group state",
    )
    return reply.result()


def _do(shard: ShareShard, key: Key, asked: DeletedPartition, then: Then) -> None:
    shard.delete(key, then)
