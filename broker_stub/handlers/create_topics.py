"""CreateTopics (19), versions 2 to 7.

Makes Kafka's checks in Kafka's order: duplicates within the request, permission, the total of partitions, names (illegal, colliding,
existing) and configs. Then it checks a manual assignment, or counts, where -1 is the cluster's default. `validate_only` creates nothing.
From version 5 on the response has the counts and every config in force, if the client may DESCRIBE_CONFIGS. Any broker takes the request,
as a KRaft broker forwards it. It needs CREATE on the topic or on the cluster.

Leaves out: policies, quotas, and waiting: a topic has its leaders at once, so `timeout_ms` has no effect.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fencepost.broker_stub.cluster.replica_assignment import misplaced, unplaceable
from fencepost.broker_stub.cluster.topics import illegal_name
from fencepost.broker_stub.configs.topic_configs import InvalidConfig, check_topic_config
from fencepost.broker_stub.configs.values import PARTITIONS_MAX
from fencepost.broker_stub.faults.topics_and_partitions import ANY_PARTITION
from fencepost.broker_stub.handlers.refusal import Refusal
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.permissions import INJECTED
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer.wire import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    ErrorCode,
)

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.cluster import Cluster

DEFAULT = -1
RECORDS_MAX = 10_000  # metadata records of one request
DYNAMIC_TOPIC_CONFIG, DYNAMIC_DEFAULT_BROKER_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 1, 3, 4, 5
SET_BY_CONTROLLER = "min.insync.replicas"  # set for the whole cluster when it is formatted (KIP-966)


@handles(CreateTopicsRequest, range(2, 8), forwarded=True)
def create_topics(call: Call, request: CreateTopicsRequest) -> CreateTopicsResponse:
    names = Counter(topic.name for topic in request.topics)
    wanted = [topic for topic in request.topics if names[topic.name] == 1 and _may_create(call, topic.name)]
    too_many = _request_refusal(call.cluster, wanted)
    results = []
    for topic in {topic.name: topic for topic in request.topics}.values():
        injected = call.error_for(topic.name, ANY_PARTITION)
        if injected:
            results.append(CreatableTopicResult(name=topic.name, error_code=injected, error_message=INJECTED))
        elif names[topic.name] > 1:
            results.append(_refused(topic.name, Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")))
        elif not _may_create(call, topic.name):
            results.append(_refused(topic.name, Refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")))
        elif too_many is not None:
            results.append(_refused(topic.name, too_many))
        else:
            result = _create(call.cluster, topic, validate_only=request.validate_only)
            hidden = not result.error_code and not call.may(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, topic.name)
            results.append(_without_configs(result) if hidden else result)
    return CreateTopicsResponse(topics=results)


def _may_create(call: Call, name: str) -> bool:
    return call.may(Operation.CREATE, Resource.CLUSTER) or call.may(Operation.CREATE, Resource.TOPIC, name)


def why_not(
    cluster: Cluster, name: str, *, partitions: int, replication_factor: int, configs: dict[str, str | None] | None = None
) -> Refusal | None:
    """Why a topic with these parameters cannot be created; None if it can."""
    return _name_refusal(cluster, name) or _config_refusal(configs or {}) or _count_refusal(cluster, partitions, replication_factor)


def _request_refusal(cluster: Cluster, topics: list[CreatableTopic]) -> Refusal | None:
    """Why none of the request's topics can be created. A topic with an error of its own has no metadata records."""
    if sum(_partitions(cluster, topic) for topic in topics) > PARTITIONS_MAX:
        return Refusal(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    records = {topic.name: 1 + _partitions(cluster, topic) + len(topic.configs) for topic in topics}
    if (
        sum(records.values()) > RECORDS_MAX
        and sum(records[topic.name] for topic in topics if _planned(cluster, topic)[0] is None) > RECORDS_MAX
    ):
        return Refusal(ErrorCode.POLICY_VIOLATION, f"Request to create topics exceeds the limit of {RECORDS_MAX} metadata records.")
    return None


def _partitions(cluster: Cluster, topic: CreatableTopic) -> int:
    """How many partitions the request has."""
    if topic.assignments:
        return len(topic.assignments)
    return cluster.default_partitions if topic.num_partitions == DEFAULT else max(topic.num_partitions, 0)


def _create(cluster: Cluster, topic: CreatableTopic, *, validate_only: bool) -> CreatableTopicResult:
    refusal, assigned = _planned(cluster, topic)
    if refusal is not None:
        return _refused(topic.name, refusal)
    overrides = {config.name: config.value for config in topic.configs if config.value is not None}
    # For `validate_only` Kafka responds with an id that no topic has.
    topic_id = cluster.new_id() if validate_only else cluster.create_assigned(topic.name, assigned, overrides=overrides).id
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(assigned),
        replication_factor=len(assigned[0]),
        configs=_in_force(cluster, overrides),
    )


def _planned(cluster: Cluster, topic: CreatableTopic) -> tuple[Refusal | None, list[tuple[int, ...]]]:
    """The replicas of the topic's partitions, or why it cannot be created."""
    refusal = _name_refusal(cluster, topic.name) or _config_refusal({config.name: config.value for config in topic.configs})
    if refusal is not None:
        return refusal, []
    if topic.assignments:
        return _assignment_refusal(cluster, topic), [tuple(each.broker_ids) for each in sorted(topic.assignments, key=_index)]
    partitions = cluster.default_partitions if topic.num_partitions == DEFAULT else topic.num_partitions
    factor = cluster.default_replication_factor if topic.replication_factor == DEFAULT else topic.replication_factor
    refusal = _count_refusal(cluster, partitions, factor)
    return refusal, [] if refusal is not None else cluster.assign(partitions, factor)


def _without_configs(result: CreatableTopicResult) -> CreatableTopicResult:
    """The result for a client that may create the topic but not describe its configs."""
    return replace(
        result, topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, num_partitions=-1, replication_factor=-1, configs=[]
    )


def _index(assignment: CreatableReplicaAssignment) -> int:
    return assignment.partition_index


def _name_refusal(cluster: Cluster, name: str) -> Refusal | None:
    illegal = illegal_name(name)
    if illegal:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
    if cluster.topics.named(name) is not None:
        return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = cluster.topics.colliding(name)
    if other is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other.name}")
    return None


def _config_refusal(configs: dict[str, str | None]) -> Refusal | None:
    try:
        for name, value in configs.items():
            check_topic_config(name, value)
    except InvalidConfig as error:
        return Refusal(ErrorCode.INVALID_CONFIG, str(error))
    return None


def _count_refusal(cluster: Cluster, partitions: int, replication_factor: int) -> Refusal | None:
    if replication_factor < 1:
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1 to use the default value.")
    if partitions < 1:
        return Refusal(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    if partitions > PARTITIONS_MAX:
        return Refusal(ErrorCode.POLICY_VIOLATION, f"{partitions} partitions: one request creates at most {PARTITIONS_MAX}.")
    wrong = unplaceable(cluster, replication_factor)
    if wrong is not None:
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, f"Unable to replicate the partition {replication_factor} time(s): {wrong}")
    return None


def _assignment_refusal(cluster: Cluster, topic: CreatableTopic) -> Refusal | None:
    """Checks a manual assignment: no counts, partitions numbered from 0, each with as many distinct brokers, one of them up."""
    if topic.replication_factor != DEFAULT:
        return Refusal(ErrorCode.INVALID_REQUEST, "A manual partition assignment was specified, but replication factor was not set to -1.")
    if topic.num_partitions != DEFAULT:
        return Refusal(ErrorCode.INVALID_REQUEST, "A manual partition assignment was specified, but numPartitions was not set to -1.")
    named: set[int] = set()
    factor: int | None = None
    for assignment in topic.assignments:
        index = assignment.partition_index
        if index in named:
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Found multiple manual partition assignments for partition {index}")
        wrong = misplaced(cluster, index, assignment.broker_ids, factor=factor)
        if wrong is not None:
            return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, wrong)
        named.add(index)
        factor = len(assignment.broker_ids)
    if named != set(range(len(named))):
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence")
    return None


def _in_force(cluster: Cluster, overrides: dict[str, str]) -> list[CreatableTopicConfigs]:
    def source(name: str, value: str) -> int:
        if name in overrides:
            return DYNAMIC_TOPIC_CONFIG
        if name == SET_BY_CONTROLLER and cluster.release.differs.cluster_min_isr:
            return DYNAMIC_DEFAULT_BROKER_CONFIG
        return DEFAULT_CONFIG if value == cluster.config.kafka_default(name) else STATIC_BROKER_CONFIG

    return [
        CreatableTopicConfigs(name=name, value=value, config_source=source(name, value))
        for name, value in sorted(cluster.config.of_topic(overrides).items())
    ]


def _refused(name: str, refusal: Refusal) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=refusal.code, error_message=refusal.message)
