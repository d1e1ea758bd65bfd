"""DescribeProducers (61), version 0.

The state of each producer in a replica of the partition: id, epoch, last sequence, last timestamp, coordinator epoch, and the first offset
of its open transaction. After a marker that raised the epoch the last sequence is -1. Followers respond too, with what they have. A broker
without a replica responds NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

from fencepost.broker_stub.cluster.current_leader import leadership_error
from fencepost.broker_stub.cluster.topics import illegal_name
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.permissions import WORDS
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ErrorCode,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


@handles(DescribeProducersRequest, range(1), topic=Operation.READ)
def describe_producers(call: Call, request: DescribeProducersRequest) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(name=topic.name, partitions=[_partition(call, topic.name, index) for index in topic.partition_indexes])
            for topic in request.topics
        ]
    )


def _partition(call: Call, topic: str, index: int) -> PartitionResponse:
    partition, replica = call.find(topic, index)
    code = call.fault_for(topic, index)
    illegal = illegal_name(topic)
    if not code and illegal is not None:  # this error needs no permission
        return PartitionResponse(partition_index=index, error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, error_message=illegal)
    code = code or call.topic_refusal(topic) or leadership_error(partition, replica, follower_will_do=True)
    if code or replica is None:
        known = call.image.topics.named(topic) is not None
        message = None if known else "This server does not host this topic-partition."
        message = WORDS.get(code, message)
        return PartitionResponse(partition_index=index, error_code=code, error_message=message)
    replica.expire_producers()
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                last_sequence=each.last_sequence,
                last_timestamp=each.last_timestamp,
                coordinator_epoch=each.coordinator_epoch,
                current_txn_start_offset=each.current_txn_start_offset,
            )
            for each in replica.log.active_producers()
        ],
    )
