"""The checks of AlterConfigs and IncrementalAlterConfigs, in Kafka's order and with its texts.

The broker that is asked checks names, duplicates and the configs of brokers. Then permissions are checked, and the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from fencepost.broker_stub.cluster.topics import illegal_name
from fencepost.broker_stub.configs.client_metrics_configs import check_client_metrics_configs
from fencepost.broker_stub.configs.dynamic_broker_configs import check_at_controller, check_broker_configs
from fencepost.broker_stub.configs.group_configs import check_group_configs
from fencepost.broker_stub.configs.resource_types import ResourceType
from fencepost.broker_stub.configs.topic_configs import ALL_BROKERS, InvalidConfig, InvalidRequest, check_topic_config
from fencepost.broker_stub.faults.topics_and_partitions import ANY_PARTITION
from fencepost.broker_stub.handlers.refusal import Refusal
from fencepost.broker_stub.requests.permissions import WORDS
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.configs import AlterConfigsResourceResponse

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.cluster import Cluster
    from fencepost.broker_stub.requests.call import Call


def request_refusal(
    call: Call, kind: int, name: str, configs: Sequence[str], nulls: Sequence[str], *, twice: bool, loggers: bool = False
) -> Refusal | None:
    """The error of a resource before its configs are read. `configs`: their names; `nulls`: those without a value that need one; `twice`:
    the request names the resource more than once; `loggers`: it may be about loggers."""
    if twice:
        return Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    if len(set(configs)) < len(configs):
        return Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if nulls:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    unknown = kind not in [*ResourceType] or (kind == ResourceType.BROKER_LOGGER and not loggers)
    if unknown or (kind == ResourceType.GROUP and not call.cluster.release.differs.groups_have_configs):
        return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
    return _broker_refusal(call, name) if kind == ResourceType.BROKER and name != ALL_BROKERS else None


def answer_about(kind: int, name: str, refusal: Refusal | None) -> AlterConfigsResourceResponse:
    """The result for a resource."""
    code, message = refusal or (ErrorCode.NONE, None)
    return AlterConfigsResourceResponse(error_code=code, error_message=message, resource_type=kind, resource_name=name)


def permission_refusal(call: Call, kind: ResourceType, name: str) -> Refusal | None:
    """Why the client may not change the resource; None if it may."""
    if kind is ResourceType.TOPIC:
        code = call.error_for(name, ANY_PARTITION)
    elif kind is ResourceType.GROUP:
        code = call.error or call.refusal(Operation.ALTER_CONFIGS, Resource.GROUP, name)
    else:
        code = call.error or call.refusal(Operation.ALTER_CONFIGS, Resource.CLUSTER)
    return Refusal(code, WORDS.get(code)) if code else None


def set_configs(
    call: Call, kind: ResourceType, name: str, values: Mapping[str, str], changed: Iterable[str], *, validate_only: bool
) -> Refusal | None:
    """Sets all dynamic configs of a resource, or says why it cannot have them. `changed`: the names that are set or deleted. The caller has
    checked permissions, but for brokers: as in Kafka, the broker checks their configs before the controller checks permissions."""
    cluster = call.cluster
    if kind is ResourceType.TOPIC:
        refusal = topic_refusal(cluster, name, values)
        topic = cluster.topics.named(name)
        if refusal is None and topic is not None and not validate_only:
            cluster.configure(topic, values)
        return refusal
    try:
        if kind is ResourceType.BROKER:
            check_broker_configs(name, values, cluster.config, str(call.broker.node_id), [each.path for each in call.broker.logs.dirs])
            refusal = permission_refusal(call, kind, name)
            if refusal is not None:
                return refusal
            check_at_controller(name, values, changed, has_eligible=cluster.has_eligible)
        elif kind is ResourceType.GROUP:
            check_group_configs(name, values, cluster.config)
        else:
            check_client_metrics_configs(name, values)
    except InvalidRequest as error:
        return Refusal(ErrorCode.INVALID_REQUEST, str(error))
    except InvalidConfig as error:
        return Refusal(ErrorCode.INVALID_CONFIG, str(error))
    if not validate_only:
        cluster.configure_resource(kind, name, values)
    return None


def own_configs(cluster: Cluster, kind: ResourceType, name: str) -> dict[str, str]:
    """What was set on the resource."""
    if kind is ResourceType.TOPIC:
        topic = cluster.topics.named(name)
        return dict(topic.overrides) if topic is not None else {}
    return dict(cluster.dynamic_configs.of(kind, name))


def _broker_refusal(call: Call, name: str) -> Refusal | None:
    """Why the broker is another one than that which was asked."""
    try:
        same = int(name) == call.broker.node_id
    except ValueError:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    return (
        None if same else Refusal(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {call.broker.node_id}, but received {name}")
    )


def topic_refusal(cluster: Cluster, topic: str, overrides: Mapping[str, str]) -> Refusal | None:
    """Why the topic cannot have these configs; None if it can. Names and values are checked before the topic itself."""
    if not topic:
        return Refusal(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    illegal = illegal_name(topic)
    if illegal:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
    try:
        check_together(overrides, cluster.config.of_topic(overrides))
    except InvalidConfig as error:
        return Refusal(ErrorCode.INVALID_CONFIG, str(error))
    if cluster.topics.named(topic) is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist.")
    return None


def check_together(overrides: Mapping[str, str], in_force: Mapping[str, str]) -> None:
    """Raises InvalidConfig for an invalid value, and for values that contradict each other."""
    for name, value in overrides.items():
        check_topic_config(name, value)
    shortest, longest = int(in_force["min.compaction.lag.ms"]), int(in_force["max.compaction.lag.ms"])
    if shortest > longest:
        raise InvalidConfig(f"conflict topic config setting min.compaction.lag.ms ({shortest}) > max.compaction.lag.ms ({longest})")
    if in_force["remote.storage.enable"].lower() == "true":
        raise InvalidConfig("Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.")
