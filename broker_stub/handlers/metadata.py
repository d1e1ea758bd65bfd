"""Metadata (3), versions 0 to 13.

Live brokers, and the requested topics by name or, from version 12 on, by id; all topics for null (an empty list in version 0). A missing
topic is created where the request and the cluster allow it. This response still has UNKNOWN_TOPIC_OR_PARTITION for it, as on Kafka 4: the
client asks again. It gets the cluster's default numbers of partitions and replicas, an internal topic its own. A partition
without a leader is LEADER_NOT_AVAILABLE. An unknown id is UNKNOWN_TOPIC_ID with a null name. If a request has an id, its names are ignored,
as in Kafka. REBOOTSTRAP_REQUIRED, which only a fault rule causes, is the whole response from version 13 on.

Topics need DESCRIBE. Without it they are left out of all topics, and TOPIC_AUTHORIZATION_FAILED where they are named, whether they exist or
not. A topic that would be created also needs CREATE on it or on the cluster.

Leaves out: racks and listeners (every broker has one).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from fencepost.broker_stub.cluster.topics import INTERNAL, MADE_ON_DEMAND, Topic, illegal_name
from fencepost.broker_stub.configs.values import PARTITIONS_MAX
from fencepost.broker_stub.faults.topics_and_partitions import ANY_PARTITION
from fencepost.broker_stub.handlers.create_topics import why_not
from fencepost.broker_stub.replication.partition_state import NO_LEADER, PartitionState
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer.wire import (
    OPERATIONS_NOT_ASKED_FOR,
    ZERO_UUID,
    ErrorCode,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.cluster import Cluster

BY_ID_SINCE = 12
ERROR_SINCE = 13


@handles(MetadataRequest, range(14), topic=Operation.DESCRIBE)
def metadata(call: Call, request: MetadataRequest) -> MetadataResponse:
    cluster = call.cluster
    asked = request.topics
    if asked is None or (call.version == 0 and not asked):
        topics = [_known(call, request, topic) for topic in call.image.topics if not call.topic_refusal(topic.name)]
    elif call.version < BY_ID_SINCE and any(each.name is None or each.topic_id != ZERO_UUID for each in asked):
        return MetadataResponse(
            topics=[_none(ErrorCode.INVALID_REQUEST, name=each.name or "", topic_id=each.topic_id) for each in asked],
            error_code=ErrorCode.INVALID_REQUEST,
        )
    elif not any(each.topic_id != ZERO_UUID for each in asked) and any(each.name is None for each in asked):
        # Kafka fails at the missing name, with an exception without a code of its own.
        return MetadataResponse(
            topics=[_none(ErrorCode.UNKNOWN_SERVER_ERROR, name=each.name or "") for each in asked],
            error_code=ErrorCode.UNKNOWN_SERVER_ERROR,
        )
    else:
        topics = _asked_for(call, request, asked)
    if call.version >= ERROR_SINCE and any(topic.error_code == ErrorCode.REBOOTSTRAP_REQUIRED for topic in topics):
        return MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    live = call.image.live
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node_id, host=cluster.brokers[node_id].host, port=cluster.brokers[node_id].port)
            for node_id in live
        ],
        cluster_id=cluster.cluster_id,
        controller_id=live[0] if live else -1,
        topics=topics,
        cluster_authorized_operations=cluster_operations(call, asked=request.include_cluster_authorized_operations),
    )


def cluster_operations(call: Call, *, asked: bool) -> int:
    """The operations that the client may do to the cluster, if it asks for them and may describe the cluster."""
    if not asked:
        return OPERATIONS_NOT_ASKED_FOR
    return call.asker.operations(Resource.CLUSTER) if call.may(Operation.DESCRIBE, Resource.CLUSTER) else 0


def _operations(call: Call, request: MetadataRequest, topic: str) -> int:
    asked = request.include_topic_authorized_operations
    return call.asker.operations(Resource.TOPIC, topic) if asked else OPERATIONS_NOT_ASKED_FOR


def _asked_for(call: Call, request: MetadataRequest, asked: list[MetadataRequestTopic]) -> list[MetadataResponseTopic]:
    cluster = call.cluster
    ids = dict.fromkeys(each.topic_id for each in asked if each.topic_id != ZERO_UUID)
    if ids:
        found = [call.image.topics.with_id(topic_id) or topic_id for topic_id in ids]
        return [
            _none(ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=each)
            if isinstance(each, UUID)
            else _none(refusal, name=None, topic_id=each.id)
            if (refusal := call.topic_refusal(each.name))
            else _known(call, request, each)
            for each in found
        ]
    names = dict.fromkeys(each.name or "" for each in asked)
    may_create = cluster.auto_create_topics and (call.version < 4 or request.allow_auto_topic_creation) and _are_few(cluster, names)
    topics = []
    for name in names:
        topic = call.image.topics.named(name)
        refusal = call.topic_refusal(name)
        if refusal:
            topics.append(_none(refusal, name=name, internal=False))
        elif topic is not None:
            topics.append(_known(call, request, topic))
        else:
            topics.append(_unknown(call, request, name, may_create=may_create))
    return topics


def _are_few(cluster: Cluster, names: Iterable[str]) -> bool:
    """Whether CreateTopics, which Kafka's brokers send for them, would accept so many at once."""
    return sum(cluster.topics.named(name) is None for name in names) * cluster.default_partitions <= PARTITIONS_MAX


def _unknown(call: Call, request: MetadataRequest, name: str, *, may_create: bool) -> MetadataResponseTopic:
    injected = call.error_for(name, ANY_PARTITION)
    if injected:
        return _none(injected, name=name)
    if may_create and not call.may(Operation.CREATE, Resource.CLUSTER) and not call.may(Operation.CREATE, Resource.TOPIC, name):
        return _none(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)
    operations = _operations(call, request, name)
    if illegal_name(name):
        return _none(ErrorCode.INVALID_TOPIC_EXCEPTION, name=name, operations=operations)
    if may_create:
        call.cluster.controller_link.do(call.broker.node_id, lambda: _create(call.cluster, name))
    return _none(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name, operations=operations)


def _create(cluster: Cluster, name: str) -> None:
    """Creates the topic if it can. The response does not depend on that, except that a name which collides with another topic's is an
    error."""
    if name in MADE_ON_DEMAND:
        cluster.internal_topic(name)
        return
    partitions, replication_factor = cluster.default_partitions, cluster.default_replication_factor
    if why_not(cluster, name, partitions=partitions, replication_factor=replication_factor) is None:
        cluster.create_topic(name, partitions=partitions, replication_factor=replication_factor)


def _known(call: Call, request: MetadataRequest, topic: Topic) -> MetadataResponseTopic:
    injected = call.error_for(topic.name, ANY_PARTITION)
    if injected:
        return _none(injected, name=topic.name, topic_id=topic.id)
    image = call.image
    live = image.live
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=[_partition(image.state(partition), live) for partition in topic.partitions],
        topic_authorized_operations=_operations(call, request, topic.name),
    )


def _partition(partition: PartitionState, live: list[int]) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else ErrorCode.NONE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=[node_id for node_id in partition.replicas if node_id not in live or node_id in partition.offline],
    )


def _none(
    code: int, *, name: str | None, topic_id: UUID = ZERO_UUID, internal: bool = True, operations: int = OPERATIONS_NOT_ASKED_FOR
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=internal and name in INTERNAL,
        topic_authorized_operations=operations,
    )
