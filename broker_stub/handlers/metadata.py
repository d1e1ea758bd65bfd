"""Metadata (3), versions 0 to 13.

Live brokers, and the topics asked for by name or, from version 12 on, by id; all of them for null (an empty list in version 0). A topic
that does not exist is created where the request and the cluster allow it, and is UNKNOWN_TOPIC_OR_PARTITION in this answer all the same,
as on Kafka 4: the client asks again. It gets the cluster's default numbers of partitions and replicas, an internal topic its own. A
partition without a leader is LEADER_NOT_AVAILABLE. An unknown id is UNKNOWN_TOPIC_ID with a null name. If any id is given, names in the
same request are passed over, as Kafka does. REBOOTSTRAP_REQUIRED, which only a fault brings about, is the whole answer from version 13 on.

Leaves out: racks, listeners (every broker has one), and authorization: authorized operations are all that exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from broker_stub.call import Call
from broker_stub.faults import ANY_PARTITION
from broker_stub.handlers.create_topics import why_not
from broker_stub.partitions import NO_LEADER, Partition
from broker_stub.router import handles
from broker_stub.topics import INTERNAL, INTERNAL_PARTITIONS, Topic, illegal_name
from producer.wire import (
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
    from broker_stub.cluster import Cluster

BY_ID_SINCE = 12
ERROR_SINCE = 13
TOPIC_OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))  # read to alter configs, as in Kafka's AclOperation
CLUSTER_OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))


@handles(MetadataRequest, range(14))
def metadata(call: Call, request: MetadataRequest) -> MetadataResponse:
    cluster = call.cluster
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else OPERATIONS_NOT_ASKED_FOR
    asked = request.topics
    error = ErrorCode.NONE
    if asked is None or (call.version == 0 and not asked):
        topics = [_known(call, topic, operations) for topic in cluster.topics]
    elif call.version < BY_ID_SINCE and any(each.name is None or each.topic_id != ZERO_UUID for each in asked):
        topics = [_none(ErrorCode.INVALID_REQUEST, name=each.name or "", topic_id=each.topic_id) for each in asked]
    elif not any(each.topic_id != ZERO_UUID for each in asked) and any(each.name is None for each in asked):
        # Kafka trips over the missing name, with an exception that has no code of its own.
        error = ErrorCode.UNKNOWN_SERVER_ERROR
        topics = [_none(ErrorCode.UNKNOWN_SERVER_ERROR, name=each.name or "") for each in asked]
    else:
        topics = _asked_for(call, request, asked, operations)
    if call.version >= ERROR_SINCE and any(topic.error_code == ErrorCode.REBOOTSTRAP_REQUIRED for topic in topics):
        return MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    live = cluster.live
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node_id, host=cluster.brokers[node_id].host, port=cluster.brokers[node_id].port)
            for node_id in live
        ],
        cluster_id=cluster.cluster_id,
        controller_id=live[0] if live else -1,
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else OPERATIONS_NOT_ASKED_FOR,
        error_code=error,
    )


def _asked_for(call: Call, request: MetadataRequest, asked: list[MetadataRequestTopic], operations: int) -> list[MetadataResponseTopic]:
    cluster = call.cluster
    ids = dict.fromkeys(each.topic_id for each in asked if each.topic_id != ZERO_UUID)
    if ids:
        found = [cluster.topics.with_id(topic_id) or topic_id for topic_id in ids]
        return [
            _none(ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=each) if isinstance(each, UUID) else _known(call, each, operations)
            for each in found
        ]
    may_create = cluster.auto_create_topics and (call.version < 4 or request.allow_auto_topic_creation)
    topics = []
    for name in dict.fromkeys(each.name or "" for each in asked):
        topic = cluster.topics.named(name)
        topics.append(_known(call, topic, operations) if topic is not None else _unknown(call, name, may_create=may_create))
    return topics


def _unknown(call: Call, name: str, *, may_create: bool) -> MetadataResponseTopic:
    injected = call.error_for(name, ANY_PARTITION)
    if injected:
        return _none(injected, name=name)
    if illegal_name(name):
        return _none(ErrorCode.INVALID_TOPIC_EXCEPTION, name=name)
    if may_create:
        _create(call.cluster, name)
    return _none(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name)


def _create(cluster: Cluster, name: str) -> None:
    """Whether it comes to anything is not for this answer to say; a name that collides with another one never will."""
    if name in INTERNAL_PARTITIONS:
        cluster.internal_topic(name)
        return
    partitions, replication_factor = cluster.default_partitions, cluster.default_replication_factor
    if why_not(cluster, name, partitions=partitions, replication_factor=replication_factor) is None:
        cluster.create_topic(name, partitions=partitions, replication_factor=replication_factor)


def _known(call: Call, topic: Topic, operations: int) -> MetadataResponseTopic:
    injected = call.error_for(topic.name, ANY_PARTITION)
    if injected:
        return _none(injected, name=topic.name, topic_id=topic.id)
    live = call.cluster.live
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.internal,
        partitions=[_partition(partition, live) for partition in topic.partitions],
        topic_authorized_operations=operations,
    )


def _partition(partition: Partition, live: list[int]) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else ErrorCode.NONE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=[node_id for node_id in partition.replicas if node_id not in live],
    )


def _none(code: int, *, name: str | None, topic_id: UUID = ZERO_UUID) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id, is_internal=name in INTERNAL)
