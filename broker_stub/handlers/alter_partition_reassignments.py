"""AlterPartitionReassignments (45), versions 0 and 1.

Gives partitions other replicas. New replicas fetch the leader's log. When all of them are in the ISR, the old replicas leave with their
logs, and the leader epoch rises by one. If the leader left, the first replica in sync leads. While a new replica is down or does not reach
the leader, the reassignment is in progress. If the partition gets fewer replicas, each staying replica must be in sync too. A new request
replaces a reassignment in progress. Null replicas cancel it, and the added replicas leave. As in Kafka, a new request for the previous
replicas does not cancel it: it waits for the added ones until it is cancelled.

No replicas, an unknown broker and a broker that is named twice are INVALID_REPLICA_ASSIGNMENT. So is a cancellation that leaves no replica
in sync, unless unclean.leader.election.enable allows it. Without a reassignment to cancel the answer is NO_REASSIGNMENT_IN_PROGRESS. From
version 1 on, a client can forbid another number of replicas: then the answer is INVALID_REPLICATION_FACTOR. Any broker takes the request.

Leaves out: a time in which replicas copy the log, throttled or not, and `timeout_ms`. Two entries for one partition in a request take
effect one after the other.
"""

from __future__ import annotations

from fencepost.broker_stub.cluster.replica_assignment import unassignable
from fencepost.broker_stub.handlers.refusal import Refusal
from fencepost.broker_stub.replication.partition import Partition
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.permissions import INJECTED
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


@handles(AlterPartitionReassignmentsRequest, range(2), cluster=Operation.ALTER, forwarded=True)
def alter_partition_reassignments(call: Call, request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
    refused = call.error
    message = call.needs_words(refused, Operation.ALTER) if refused else None
    if not refused and not request.topics:
        return AlterPartitionReassignmentsResponse()  # Kafka's controller is not asked, and repeats nothing
    responses = []
    for topic in request.topics:
        results = []
        for asked in topic.partitions:
            refusal = Refusal(refused, message) if refused else _alter(call, request, topic.name, asked)
            code, why = refusal or (ErrorCode.NONE, None)
            results.append(ReassignablePartitionResponse(partition_index=asked.partition_index, error_code=code, error_message=why))
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=results))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=bool(refused) or request.allow_replication_factor_change,
        error_code=refused,
        error_message=message,
        responses=responses,
    )


def _alter(call: Call, request: AlterPartitionReassignmentsRequest, name: str, asked: ReassignablePartition) -> Refusal | None:
    index = asked.partition_index
    code = call.fault_for(name, index)
    if code:
        return Refusal(code, INJECTED)
    topic = call.cluster.topics.named(name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    partition = topic.partition(index)
    if partition is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
    if asked.replicas is None:
        return _cancel(call, partition)
    wrong = unassignable(call.cluster, asked.replicas)
    if wrong is not None:
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, wrong)
    before, after = len(partition.assignment.target), len(asked.replicas)
    if before != after and not request.allow_replication_factor_change:
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor is changed from {before} to {after}")
    call.cluster.reassign(topic, partition, asked.replicas)
    return None


def _cancel(call: Call, partition: Partition) -> Refusal | None:
    if not partition.assignment.is_changing:
        return Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    if not partition.cancel_reassignment():
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {partition.topic}:{partition.index} because it would require an unclean leader "
            "election.",
        )
    return None
