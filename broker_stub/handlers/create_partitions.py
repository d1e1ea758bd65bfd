"""CreatePartitions (37), versions 0 to 3.

Grows a topic to `count` partitions. The cluster places them, or the request does, with as many replicas as the topic has. `validate_only`
adds none. A topic named twice is INVALID_REQUEST, a count that is no increase INVALID_PARTITIONS, more than 10,000 partitions at once
UNKNOWN_SERVER_ERROR, an invalid assignment INVALID_REPLICA_ASSIGNMENT. Any broker takes the request.

Leaves out: quotas, and waiting: partitions have their leaders at once, so `timeout_ms` has no effect.
"""

from __future__ import annotations

from collections import Counter

from fencepost.broker_stub.cluster.replica_assignment import misplaced, unplaceable
from fencepost.broker_stub.cluster.topics import Topic
from fencepost.broker_stub.configs.values import PARTITIONS_MAX
from fencepost.broker_stub.faults.topics_and_partitions import ANY_PARTITION
from fencepost.broker_stub.handlers.refusal import Refusal
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.permissions import INJECTED
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.topic_admin import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


@handles(CreatePartitionsRequest, range(4), topic=Operation.ALTER, forwarded=True)
def create_partitions(call: Call, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    named = Counter(topic.name for topic in request.topics)
    results = []
    for asked in {topic.name: topic for topic in request.topics}.values():
        if named[asked.name] > 1:
            refusal: Refusal | None = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        else:
            refusal = _create(call, asked, validate_only=request.validate_only)
        code, message = refusal or (ErrorCode.NONE, None)
        results.append(CreatePartitionsTopicResult(name=asked.name, error_code=code, error_message=message))
    return CreatePartitionsResponse(results=results)


def _create(call: Call, asked: CreatePartitionsTopic, *, validate_only: bool) -> Refusal | None:
    code = call.error_for(asked.name, ANY_PARTITION)
    if code:
        return Refusal(code, None if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED else INJECTED)
    topic = call.cluster.topics.named(asked.name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    refusal = _count_refusal(topic, asked) or _assignment_refusal(call, topic, asked)
    if refusal is None and not validate_only:
        if asked.assignments is None:
            call.cluster.add_partitions(topic, asked.count)
        else:
            call.cluster.add_assigned(topic, [tuple(each.broker_ids) for each in asked.assignments])
    return refusal


def _count_refusal(topic: Topic, asked: CreatePartitionsTopic) -> Refusal | None:
    there = len(topic.partitions)
    if asked.count == there:
        return Refusal(ErrorCode.INVALID_PARTITIONS, f"Topic already has {there} partition(s).")
    if asked.count < there:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {there} partition(s); {asked.count} would not be an increase.",
        )
    if asked.count - there > PARTITIONS_MAX:
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)  # more metadata records than a controller writes at once
    return None


def _assignment_refusal(call: Call, topic: Topic, asked: CreatePartitionsTopic) -> Refusal | None:
    """Checks the assignments: as many as new partitions, each with as many brokers as the topic has replicas, distinct, known, one of them
    up."""
    if asked.assignments is None:
        wrong = unplaceable(call.cluster, len(topic.partitions[0].replicas))
        return None if wrong is None else Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, wrong)
    added, factor = asked.count - len(topic.partitions), len(topic.partitions[0].replicas)
    if len(asked.assignments) != added:
        return _misplaced(
            f"Attempted to add {added} additional partition(s), but only {len(asked.assignments)} assignment(s) were specified."
        )
    for index, assignment in enumerate(asked.assignments, start=len(topic.partitions)):
        wrong = misplaced(call.cluster, index, assignment.broker_ids, factor=factor)
        if wrong is not None:
            return _misplaced(wrong)
    return None


def _misplaced(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
