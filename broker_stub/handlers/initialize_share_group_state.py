"""InitializeShareGroupState (83), version 0.

The group coordinator has the share coordinator begin share partitions, or begin them anew (KIP-932). An older state epoch is
FENCED_STATE_EPOCH.
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
    InitializedPartition,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)


@handles(InitializeShareGroupStateRequest, range(1), cluster=Operation.CLUSTER_ACTION)
def initialize_share_group_state(call: Call, request: InitializeShareGroupStateRequest) -> Result:
    reply: DeferredReply[InitializeShareGroupStateResponse] = DeferredReply(call)
    ask_each(
        call,
        request.group_id,
        request.topics,
        _do,
        lambda answers: reply(InitializeShareGroupStateResponse(results=results(answers))),
        verb="initialize share group state",
    )
    return reply.result()


def _do(shard: ShareShard, key: Key, asked: InitializedPartition, then: Then) -> None:
    shard.initialize(key, asked.state_epoch, asked.start_offset, then)
