"""IncrementalAlterConfigs (44), versions 0 and 1.

Sets (0) or deletes (1) configs of a topic or a share group, appends to (2) or subtracts from (3) lists of a topic: all changes of a
resource, or none. `validate_only` changes nothing. The logs obey at once. A resource named twice, a config named twice and a null value are
INVALID_REQUEST. An unknown operation fails the whole request with UNKNOWN_SERVER_ERROR, as in Kafka.

Of brokers, replica.alter.log.dirs.io.max.bytes.per.second can be set and deleted: moves between log directories obey it at once. It ends
with the stub, and DescribeConfigs does not show it. The other throttles that kafka-reassign-partitions sets on brokers can be deleted,
because no broker has one.

Leaves out: other resources (INVALID_REQUEST), the configs of other groups (INVALID_CONFIG), and policies.
"""

from __future__ import annotations

from collections import Counter

from fencepost.broker_stub.configs.topic_configs import TOPIC_CONFIGS
from fencepost.broker_stub.configs.types import Type, type_of
from fencepost.broker_stub.faults.topics_and_partitions import ANY_PARTITION
from fencepost.broker_stub.handlers.alter_config_checks import GROUP, TOPIC, answer_about, group_refusal, request_refusal, topic_refusal
from fencepost.broker_stub.handlers.refusal import Refusal
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.permissions import WORDS
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.incremental_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

SET, DELETE, APPEND, SUBTRACT = range(4)
MOVE_LIMIT = "replica.alter.log.dirs.io.max.bytes.per.second"
THROTTLES = frozenset(("leader.replication.throttled.rate", "follower.replication.throttled.rate", MOVE_LIMIT))
NAMES = {APPEND: "APPEND", SUBTRACT: "SUBTRACT"}


@handles(IncrementalAlterConfigsRequest, range(2), topic=Operation.ALTER_CONFIGS, forwarded=True)
def incremental_alter_configs(call: Call, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    named = Counter((each.resource_type, each.resource_name) for each in request.resources)
    refusals = [_request_refusal(call, each, twice=named[each.resource_type, each.resource_name] > 1) for each in request.resources]
    confused = any(
        refusal is None and not SET <= config.config_operation <= SUBTRACT
        for each, refusal in zip(request.resources, refusals, strict=True)
        for config in each.configs
    )
    answers = []
    for each, refusal in zip(request.resources, refusals, strict=True):
        if refusal is None and confused:
            refusal = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
        if refusal is None and each.resource_type == TOPIC:
            refusal = _alter(call, each, validate_only=request.validate_only)
        elif refusal is None and each.resource_type == GROUP:
            refusal = _alter_group(call, each, validate_only=request.validate_only)
        elif refusal is None and not request.validate_only:
            limit_moves(call, each)
        answers.append(answer_about(each.resource_type, each.resource_name, refusal))
    return IncrementalAlterConfigsResponse(responses=answers)


def _request_refusal(call: Call, resource: AlterConfigsResource, *, twice: bool) -> Refusal | None:
    nulls = [config.name for config in resource.configs if config.value is None and config.config_operation != DELETE]
    names = [config.name for config in resource.configs]
    unset = all(
        config.name in THROTTLES and (config.config_operation == DELETE or limit_of(config) is not None) for config in resource.configs
    )
    return request_refusal(call, resource.resource_type, resource.resource_name, names, nulls, twice=twice, unset=unset)


def limit_of(config: AlterableConfig) -> int | None:
    """The limit that it sets on the moves between log directories, if it does."""
    value = config.value or ""
    valid = config.name == MOVE_LIMIT and config.config_operation == SET and value.isascii() and value.isdigit()
    return int(value) if valid and 0 < int(value) < 1 << 63 else None


def limit_moves(call: Call, resource: AlterConfigsResource) -> None:
    """Sets or ends the limit of one broker, or of all."""
    nodes = [*call.cluster.brokers] if resource.resource_name == "" else [call.broker.node_id]
    for config in resource.configs:
        for node in nodes if config.name == MOVE_LIMIT else ():
            call.cluster.logs.moves.limit(node, limit_of(config))


def _alter(call: Call, resource: AlterConfigsResource, *, validate_only: bool) -> Refusal | None:
    cluster, name = call.cluster, resource.resource_name
    code = call.error_for(name, ANY_PARTITION)
    if code:
        return Refusal(code, WORDS.get(code))
    topic = cluster.topics.named(name)
    overrides = dict(topic.overrides) if topic is not None else {}
    for config in resource.configs:
        if config.config_operation in NAMES and (config.name not in TOPIC_CONFIGS or type_of(config.name) is not Type.LIST):
            word = NAMES[config.config_operation]
            return Refusal(ErrorCode.INVALID_CONFIG, f"Can't {word} to key {config.name} because its type is not LIST.")
        value = _changed(config, overrides.get(config.name))
        if value is None:
            overrides.pop(config.name, None)
        else:
            overrides[config.name] = value
    refusal = topic_refusal(cluster, name, overrides)
    if refusal is None and topic is not None and not validate_only:
        cluster.configure(topic, overrides)
    return refusal


def _alter_group(call: Call, resource: AlterConfigsResource, *, validate_only: bool) -> Refusal | None:
    cluster, group_id = call.cluster, resource.resource_name
    if call.error:
        return Refusal(call.error)
    overrides = dict(cluster.group_configs.of(group_id))
    for config in resource.configs:
        if config.config_operation in NAMES:
            word = NAMES[config.config_operation]
            return Refusal(ErrorCode.INVALID_CONFIG, f"Can't {word} to key {config.name} because its type is not LIST.")
        if config.config_operation == DELETE or config.value is None:
            overrides.pop(config.name, None)
        else:
            overrides[config.name] = config.value
    refusal = group_refusal(cluster, group_id, overrides)
    if refusal is None and not validate_only:
        cluster.group_configs.configure(group_id, overrides)
    return refusal


def _changed(config: AlterableConfig, current: str | None) -> str | None:
    """The new value. None: the topic has none of its own."""
    if config.config_operation == SET:
        return config.value
    if config.config_operation == DELETE:
        return None
    before = current if current is not None else TOPIC_CONFIGS[config.name].default
    parts = [part for part in before.split(",") if part]
    for part in (config.value or "").split(","):
        if config.config_operation == APPEND and part not in parts:
            parts.append(part)
        elif config.config_operation == SUBTRACT and part in parts:
            parts.remove(part)
    return ",".join(parts)
