"""ListPartitionReassignments (46), version 0.

The stub has no reassignments, so the list is empty.

Leaves out: AlterPartitionReassignments.
"""

from __future__ import annotations

from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire.messages.replicas import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


@handles(ListPartitionReassignmentsRequest, range(1), cluster=Operation.DESCRIBE)
def list_partition_reassignments(call: Call, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    # The response has no place for a topic's error, so it is the error of the whole response.
    code = call.error or next((action.code for action in call.errors), 0)
    message = call.needs_words(code, Operation.DESCRIBE) if code else None
    refused = request.topics or [] if code else []  # a refusal in Kafka names the requested partitions, without brokers
    topics = [
        OngoingTopicReassignment(
            name=each.name, partitions=[OngoingPartitionReassignment(partition_index=index) for index in each.partition_indexes]
        )
        for each in refused
    ]
    return ListPartitionReassignmentsResponse(error_code=code, error_message=message, topics=topics)
