"""WriteShareGroupState (85), versions 0 and 1.

A leader has the share coordinator keep what changed in share partitions (KIP-932). An older leader is FENCED_LEADER_EPOCH, an older state
epoch FENCED_STATE_EPOCH.
"""

from __future__ import annotations

from fencepost.broker_stub.handlers.share_state_requests import ask_each, results
from fencepost.broker_stub.requests.call import Call, Result
from fencepost.broker_stub.requests.deferred_reply import DeferredReply
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.broker_stub.share_partitions.coordinator.records import Key
from fencepost.broker_stub.share_partitions.coordinator.shard import ShareShard, Then
from fencepost.broker_stub.share_partitions.states import StateBatch
from fencepost.producer.wire.messages.share_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WrittenPartition,
)


@handles(WriteShareGroupStateRequest, range(2), cluster=Operation.CLUSTER_ACTION)
def write_share_group_state(call: Call, request: WriteShareGroupStateRequest) -> Result:
    reply: DeferredReply[WriteShareGroupStateResponse] = DeferredReply(call)
    ask_each(
        call,
        request.group_id,
        request.topics,
        _do,
        lambda answers: reply(WriteShareGroupStateResponse(results=results(answers))),
        verb="write share group state",
    )
    return reply.result()


def _do(shard: ShareShard, key: Key, asked: WrittenPartition, then: Then) -> None:
    batches = tuple(
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in asked.state_batches
    )
    shard.write(key, asked.state_epoch, asked.leader_epoch, asked.start_offset, asked.delivery_complete_count, batches, then)
