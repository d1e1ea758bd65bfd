"""DescribeTopicPartitions (75), version 0.

Topics in the order of their names, at most 2000 partitions per response and at least one. A cursor says where the next page begins. Without
names it is every topic that the client may describe. Missing topics are UNKNOWN_TOPIC_OR_PARTITION, illegal names INVALID_TOPIC_EXCEPTION.
A cursor to none of the requested topics, or before the first partition, is INVALID_REQUEST for all of them.

The response has the replicas that are eligible to lead though not in sync (KIP-966), and for a partition without a leader the last one.
"""

from __future__ import annotations

from msgspec.structs import replace

from fencepost.broker_stub.cluster.topics import INTERNAL, Topic, illegal_name
from fencepost.broker_stub.faults.topics_and_partitions import ANY_PARTITION
from fencepost.broker_stub.replication.partition import Partition
from fencepost.broker_stub.replication.partition_state import NO_LEADER, PartitionState
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.cluster import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

PARTITIONS_MAX = 2000  # the broker's max.request.partition.size.limit


@handles(DescribeTopicPartitionsRequest, range(1), topic=Operation.DESCRIBE)
def describe_topic_partitions(call: Call, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    topics, cursor = call.image.topics, request.cursor
    asked = {topic.name for topic in request.topics}
    start = cursor.topic_name if cursor is not None else ""
    names = sorted(name for name in (asked or {topic.name for topic in topics}) if name >= start)
    if cursor is not None and (cursor.partition_index < 0 or (asked and cursor.topic_name not in names)):
        return _refused(request, ErrorCode.INVALID_REQUEST)
    if "" in asked:
        return _refused(request, ErrorCode.UNKNOWN_SERVER_ERROR)  # Kafka fails when it looks for authorized operations
    hidden = [name for name in names if call.topic_refusal(name)]
    page = _page(call, request, [name for name in names if name not in hidden])
    if not asked or not hidden:
        return page
    refused = [DescribeTopicPartitionsResponseTopic(name=name, error_code=call.topic_refusal(name)) for name in hidden]
    return replace(page, topics=page.topics + refused)


def _page(call: Call, request: DescribeTopicPartitionsRequest, names: list[str]) -> DescribeTopicPartitionsResponse:
    """One page of these topics."""
    topics, cursor = call.image.topics, request.cursor
    start = cursor.topic_name if cursor is not None else ""
    room = max(min(PARTITIONS_MAX, request.response_partition_limit), 1)
    answers: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        topic = topics.named(name)
        code = call.error_for(name, ANY_PARTITION)
        if topic is None or code:
            answers.append(_without_partitions(call, name, code or _unknown(name)))
            continue
        first = cursor.partition_index if cursor is not None and name == start else 0
        partitions = topic.partitions[first : first + room]
        answers.append(_topic(call, topic, partitions))
        room -= len(partitions)
        following = first + len(partitions)
        if following < len(topic.partitions):
            return DescribeTopicPartitionsResponse(topics=answers, next_cursor=Cursor(topic_name=name, partition_index=following))
        if room == 0:
            after = next((each for each in names if each > name), None)
            rest = Cursor(topic_name=after, partition_index=0) if after is not None else None
            return DescribeTopicPartitionsResponse(topics=answers, next_cursor=rest)
    return DescribeTopicPartitionsResponse(topics=answers)


def _refused(request: DescribeTopicPartitionsRequest, code: int) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(name=topic.name, error_code=code) for topic in request.topics]
    )


def _unknown(name: str) -> int:
    return ErrorCode.INVALID_TOPIC_EXCEPTION if illegal_name(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _without_partitions(call: Call, name: str, code: int) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=name,
        error_code=code,
        is_internal=name in INTERNAL,
        topic_authorized_operations=call.asker.operations(Resource.TOPIC, name),
    )


def _topic(call: Call, topic: Topic, partitions: list[Partition]) -> DescribeTopicPartitionsResponseTopic:
    image = call.image
    live = image.live
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=[_partition(image.state(each), live) for each in partitions],
        topic_authorized_operations=call.asker.operations(Resource.TOPIC, topic.name),
    )


def _partition(partition: PartitionState, live: list[int]) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        partition_index=partition.index,
        leader_id=partition.leader,  # a partition without a leader has an error in Metadata, and none here
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.eligible),
        last_known_elr=[] if partition.last_leader == NO_LEADER else [partition.last_leader],
        offline_replicas=[node for node in partition.replicas if node not in live or node in partition.offline],
    )
