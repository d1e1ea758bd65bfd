"""ElectLeaders (43), versions 0 to 2.

Makes the first replica of each partition the leader (type 0). Null is every partition; then only changed partitions have results. A
partition with that leader is ELECTION_NOT_NEEDED, one whose first replica is not in sync PREFERRED_LEADER_NOT_AVAILABLE. An unclean
election (type 1) makes the first live replica lead a partition without a leader, also against the topic's config. The records that this
replica lacks are lost. Without a live replica the answer is ELIGIBLE_LEADERS_NOT_AVAILABLE. Any broker takes the request.

Leaves out: nothing that is known.
"""

from __future__ import annotations

from fencepost.broker_stub.replication.partition import Partition
from fencepost.broker_stub.replication.partition_state import NO_LEADER
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.permissions import INJECTED
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.replicas import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)

PREFERRED, UNCLEAN = 0, 1
ERROR_SINCE = 1
MESSAGES = {
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
}


@handles(ElectLeadersRequest, range(3), cluster=Operation.ALTER, forwarded=True)
def elect_leaders(call: Call, request: ElectLeadersRequest) -> ElectLeadersResponse:
    if call.error and (call.version >= ERROR_SINCE or call.error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
        return _refused(call, request, call.error, call.needs_words(call.error, Operation.ALTER))
    if request.election_type not in (PREFERRED, UNCLEAN):
        return _refused(call, request, ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    if request.topic_partitions is not None:
        return ElectLeadersResponse(
            replica_election_results=[_topic(call, request.election_type, each) for each in request.topic_partitions]
        )
    every = [TopicPartitions(topic=topic.name, partitions=[each.index for each in topic.partitions]) for topic in call.cluster.topics]
    results = [_topic(call, request.election_type, each) for each in every]
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=result.topic,
                partition_result=[each for each in result.partition_result if each.error_code != ErrorCode.ELECTION_NOT_NEEDED],
            )
            for result in results
        ]
    )


def _refused(call: Call, request: ElectLeadersRequest, code: int, message: str | None) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code if call.version >= ERROR_SINCE else ErrorCode.NONE,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[PartitionResult(partition_id=each, error_code=code, error_message=message) for each in topic.partitions],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _topic(call: Call, election_type: int, asked: TopicPartitions) -> ReplicaElectionResult:
    return ReplicaElectionResult(
        topic=asked.topic, partition_result=[_partition(call, election_type, asked.topic, index) for index in asked.partitions]
    )


def _partition(call: Call, election_type: int, name: str, index: int) -> PartitionResult:
    code = call.error_for(name, index)
    if code:
        return PartitionResult(partition_id=index, error_code=code, error_message=INJECTED)
    topic = call.cluster.topics.named(name)
    partition = topic.partition(index) if topic is not None else None
    if partition is None:
        message = f"No such topic as {name}" if topic is None else f"No such partition as {name}-{index}"
        return PartitionResult(partition_id=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=message)
    code = _elect(call, election_type, partition)
    return PartitionResult(partition_id=index, error_code=code, error_message=MESSAGES.get(ErrorCode(code)))


def _elect(call: Call, election_type: int, partition: Partition) -> int:
    if election_type == UNCLEAN:
        if partition.leader != NO_LEADER:
            return ErrorCode.ELECTION_NOT_NEEDED
        partition.elect(unclean=True)
        return ErrorCode.NONE if partition.leader != NO_LEADER else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    preferred = partition.replicas[0]
    if partition.leader == preferred:
        return ErrorCode.ELECTION_NOT_NEEDED
    if preferred not in partition.isr or preferred not in partition.live:
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    call.cluster.move_leader(partition, to=preferred)
    return ErrorCode.NONE
