"""OffsetForLeaderEpoch (23), versions 2 to 4.

The largest epoch up to the requested one, and where it ended; both -1 if unknown. A consumer learns from it whether the records that it has
read are still in the log (KIP-320). Only the leader responds, and only to a client that knows its epoch. Needs DESCRIBE on the topic, or
CLUSTER_ACTION.

Leaves out: followers' requests (they are answered as a consumer's).
"""

from __future__ import annotations

from fencepost.broker_stub.cluster.current_leader import leadership_error
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


@handles(OffsetForLeaderEpochRequest, range(2, 5))
def offset_for_leader_epoch(call: Call, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(topic=topic.topic, partitions=[_end(call, topic.topic, each) for each in topic.partitions])
            for topic in request.topics
        ]
    )


def _end(call: Call, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    partition, replica = call.find(topic, asked.partition)
    code = (
        call.error_for(topic, asked.partition) or _refusal(call, topic) or leadership_error(partition, replica, asked.current_leader_epoch)
    )
    if code or replica is None:
        return EpochEndOffset(partition=asked.partition, error_code=code)
    epoch, end_offset = replica.log.end_offset_for(asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)


def _refusal(call: Call, topic: str) -> int:
    """The permission of followers, which used this API first."""
    return (
        ErrorCode.NONE if call.may(Operation.CLUSTER_ACTION, Resource.CLUSTER) else call.refusal(Operation.DESCRIBE, Resource.TOPIC, topic)
    )
