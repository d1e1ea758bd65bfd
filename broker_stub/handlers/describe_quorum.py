"""DescribeQuorum (55), versions 0 to 2.

The quorum of the cluster's metadata, as of a cluster whose brokers are controllers, too: all vote, and the first live one leads. The high
watermark counts what the stub's controller has decided. Another partition is UNKNOWN_TOPIC_OR_PARTITION.

Leaves out: a log of metadata that clients could read, listeners of controllers (the brokers' are told), observers, and directory ids.
"""

from __future__ import annotations

from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.permissions import words_for
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages import quorum_state
from fencepost.producer.wire.messages.quorum import DescribeQuorumRequest, TopicData
from fencepost.producer.wire.messages.quorum_state import DescribeQuorumResponse, Listener, Node, ReplicaState

TOPIC, PARTITION = "__cluster_metadata", 0
LEADER_EPOCH = 1
UNKNOWN = "This server does not host this topic-partition."


@handles(DescribeQuorumRequest, range(3), cluster=Operation.DESCRIBE, forwarded=True)
def describe_quorum(call: Call, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    if call.error:
        return DescribeQuorumResponse(error_code=call.error, error_message=words_for(call.error))
    asked = [(topic.topic_name, part.partition_index) for topic in request.topics for part in topic.partitions]
    if asked != [(TOPIC, PARTITION)]:
        return DescribeQuorumResponse(topics=[_unknown(topic) for topic in request.topics])
    cluster = call.cluster
    end, now_ms = cluster.decisions, cluster.now_ms()
    part = quorum_state.PartitionData(
        leader_id=min(cluster.live, default=min(cluster.brokers)),
        leader_epoch=LEADER_EPOCH,
        high_watermark=end,
        current_voters=[_state(node, end, now_ms) for node in cluster.brokers],
    )
    return DescribeQuorumResponse(
        topics=[quorum_state.TopicData(topic_name=TOPIC, partitions=[part])],
        nodes=[
            Node(node_id=node, listeners=[Listener(name="CONTROLLER", host=broker.host, port=broker.port)])
            for node, broker in cluster.brokers.items()
            if call.version >= 2
        ],
    )


def _state(node: int, end: int, now_ms: int) -> ReplicaState:
    return ReplicaState(replica_id=node, log_end_offset=end, last_fetch_timestamp=now_ms, last_caught_up_timestamp=now_ms)


def _unknown(topic: TopicData) -> quorum_state.TopicData:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    parts = [
        quorum_state.PartitionData(partition_index=each.partition_index, error_code=code, error_message=UNKNOWN)
        for each in topic.partitions
    ]
    return quorum_state.TopicData(topic_name=topic.topic_name, partitions=parts)
