"""The checks of AlterConfigs and IncrementalAlterConfigs, in Kafka's order and with its texts.

Topics and share groups can be changed. Brokers, loggers and client metrics are refused, but for what a broker does not have anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fencepost.broker_stub.cluster.topics import illegal_name
from fencepost.broker_stub.configs.group_configs import OTHER_CONFIGS, check_group_configs
from fencepost.broker_stub.configs.topic_configs import InvalidConfig, check_topic_config
from fencepost.broker_stub.handlers.refusal import Refusal
from fencepost.broker_stub.requests.permissions import WORDS
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.configs import AlterConfigsResourceResponse

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.cluster import Cluster
    from fencepost.broker_stub.requests.call import Call

TOPIC, BROKER, GROUP = 2, 4, 32
OTHER_TYPES = {BROKER: "brokers", 8: "loggers", 16: "client metrics", GROUP: "groups"}
OF_OTHER_GROUPS = "The stub changes only the configs of share groups, and not {}."


def request_refusal(
    call: Call, kind: int, name: str, configs: Sequence[str], nulls: Sequence[str], *, twice: bool, unset: bool = False
) -> Refusal | None:
    """The error of a resource before its configs are read. `configs`: their names; `nulls`: those without a value that need one; `twice`:
    the request names the resource more than once; `unset`: it only sets or deletes limits of replication."""
    if twice:
        return Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    if len(set(configs)) < len(configs):
        return Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if nulls:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    return _resource_refusal(call, kind, name, unset=unset)


def answer_about(kind: int, name: str, refusal: Refusal | None) -> AlterConfigsResourceResponse:
    """The result for a resource."""
    code, message = refusal or (ErrorCode.NONE, None)
    return AlterConfigsResourceResponse(error_code=code, error_message=message, resource_type=kind, resource_name=name)


def _resource_refusal(call: Call, kind: int, name: str, *, unset: bool) -> Refusal | None:
    """Why a resource of that type cannot be changed; None if it can. A missing permission comes first."""
    if kind == TOPIC:
        return None
    if kind in OTHER_TYPES and (kind != GROUP or call.cluster.release.differs.groups_have_configs):
        whose = (Resource.GROUP, name) if kind == GROUP else (Resource.CLUSTER,)
        code = call.refusal(Operation.ALTER_CONFIGS, *whose)
        if code:
            return Refusal(code, WORDS[code])
        if kind == BROKER and unset:
            return _broker_refusal(call, name)
        if kind == GROUP:
            return None
        return Refusal(ErrorCode.INVALID_REQUEST, f"The stub does not change the configs of {OTHER_TYPES[kind]}.")
    return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


def _broker_refusal(call: Call, name: str) -> Refusal | None:
    """Why the broker is another one than that which was asked; None if it is that one, or all of them."""
    own = str(call.broker.node_id)
    if name in ("", own):
        return None
    return Refusal(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {own}, but received {name}")


def group_refusal(cluster: Cluster, group_id: str, overrides: Mapping[str, str]) -> Refusal | None:
    """Why the group cannot have these configs; None if it can."""
    if not group_id:
        return Refusal(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    other = next((name for name in overrides if name in OTHER_CONFIGS), None)
    if other is not None:
        return Refusal(ErrorCode.INVALID_CONFIG, OF_OTHER_GROUPS.format(other))
    try:
        check_group_configs(overrides, cluster.config)
    except InvalidConfig as error:
        return Refusal(ErrorCode.INVALID_CONFIG, str(error))
    return None


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
