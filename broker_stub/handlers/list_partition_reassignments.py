"""ListPartitionReassignments (46), version 0.

Lists the partitions whose reassignment is in progress: of every topic, or of the named partitions. Each has all its replicas, those that
are being added, and those that are being removed. A partition without one, also an unknown one, is left out. Any broker takes the request.

Leaves out: nothing that is known.
"""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.broker_stub.replication.partition import Partition
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire.messages.replicas import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


@handles(ListPartitionReassignmentsRequest, range(1), cluster=Operation.DESCRIBE, forwarded=True)
def list_partition_reassignments(call: Call, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    # The response has no place for a topic's error, so it is the error of the whole response.
    code = call.error or next((action.code for action in call.errors), 0)
    if code:
        # A refusal in Kafka names the requested partitions, without brokers.
        refused = [_topic(each.name, map(_nowhere, each.partition_indexes)) for each in request.topics or ()]
        return ListPartitionReassignmentsResponse(error_code=code, error_message=call.needs_words(code, Operation.DESCRIBE), topics=refused)
    if request.topics is None:
        asked = [(topic.name, topic.partitions) for topic in call.cluster.topics]
    else:
        asked = [
            (each.name, [partition for index in each.partition_indexes if (partition := call.cluster.find(each.name, index))])
            for each in request.topics
        ]
    listed = [_topic(name, (_ongoing(each) for each in partitions if each.assignment.is_changing)) for name, partitions in asked]
    return ListPartitionReassignmentsResponse(error_message=None, topics=[topic for topic in listed if topic.partitions])


def _topic(name: str, partitions: Iterable[OngoingPartitionReassignment]) -> OngoingTopicReassignment:
    return OngoingTopicReassignment(name=name, partitions=list(partitions))


def _nowhere(index: int) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(partition_index=index)


def _ongoing(partition: Partition) -> OngoingPartitionReassignment:
    replicas, adding, removing = partition.assignment
    return OngoingPartitionReassignment(
        partition_index=partition.index, replicas=list(replicas), adding_replicas=list(adding), removing_replicas=list(removing)
    )
