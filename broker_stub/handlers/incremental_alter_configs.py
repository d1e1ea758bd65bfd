"""IncrementalAlterConfigs (44), versions 0 and 1.

Sets (0) or deletes (1) dynamic configs of a resource, appends to (2) or subtracts from (3) lists: all changes of a resource, or none.
`validate_only` changes nothing. A resource named twice, a config named twice and a null value are INVALID_REQUEST. An unknown operation
fails the whole request with UNKNOWN_SERVER_ERROR, as in Kafka, but for a broker, whose configs are then INVALID_REQUEST.

- Topics: the logs obey at once.
- Brokers: one by its id, which must be that of the broker that is asked, or all by the empty name. Configs that Kafka changes while it runs
  (KIP-226) are checked and kept, and count before the static ones: limits of connections, the topics' defaults, and others of
  [stub-configs.md](stub-configs.md). Others are INVALID_REQUEST. min.insync.replicas can be set for all brokers only (KIP-966).
- Groups: the coordinator obeys from the member's next heartbeat on (KIP-848). Values outside the brokers' bounds are INVALID_CONFIG.
- Client metrics subscriptions (KIP-714): they count from the client's next request on.
- Loggers: a broker has none of Kafka's, so each is INVALID_CONFIG.

With `data_dir` all of them outlast the stub.

Leaves out: policies, config providers, and changes of listeners, TLS, SASL and plugins (INVALID_REQUEST). What is set for one broker counts
there for its replicas' logs, its connections and its groups; the log cleaner obeys only what is set for all brokers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from fencepost.broker_stub.configs.dynamic_broker_configs import DYNAMIC, DYNAMIC_ONLY
from fencepost.broker_stub.configs.resource_types import ResourceType
from fencepost.broker_stub.configs.static_broker_configs import STATIC, STATIC_LISTS
from fencepost.broker_stub.configs.topic_configs import TOPIC_CONFIGS
from fencepost.broker_stub.configs.types import Type, type_of
from fencepost.broker_stub.configs.values import java_parts
from fencepost.broker_stub.handlers.alter_config_checks import (
    answer_about,
    own_configs,
    permission_refusal,
    request_refusal,
    set_configs,
)
from fencepost.broker_stub.handlers.broker_loggers import logger_refusal
from fencepost.broker_stub.handlers.refusal import Refusal
from fencepost.broker_stub.requests.call import Call
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
NAMES = {APPEND: "APPEND", SUBTRACT: "SUBTRACT"}
# The list configs of each type of resource, with their defaults. As in Kafka, those of client metrics are not among them.
LISTS: Mapping[ResourceType, Mapping[str, str]] = {
    ResourceType.TOPIC: {name: defined.default for name, defined in TOPIC_CONFIGS.items() if type_of(name) is Type.LIST},
    ResourceType.BROKER: {
        **dict.fromkeys(STATIC_LISTS, ""),
        **{name: defined.default for name, defined in DYNAMIC.items() if defined.kind is Type.LIST},
    },
    ResourceType.GROUP: {},
    ResourceType.CLIENT_METRICS: {},
}


@handles(IncrementalAlterConfigsRequest, range(2), topic=Operation.ALTER_CONFIGS, forwarded=True)
def incremental_alter_configs(call: Call, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    named = Counter((each.resource_type, each.resource_name) for each in request.resources)
    refusals = [_request_refusal(call, each, twice=named[each.resource_type, each.resource_name] > 1) for each in request.resources]
    confused = any(
        refusal is None and each.resource_type != ResourceType.BROKER_LOGGER and not SET <= config.config_operation <= SUBTRACT
        for each, refusal in zip(request.resources, refusals, strict=True)
        for config in each.configs
    )
    answers = []
    for each, refusal in zip(request.resources, refusals, strict=True):
        if refusal is None and each.resource_type == ResourceType.BROKER_LOGGER:
            refusal = logger_refusal(call, each.resource_name, each.configs)
        elif refusal is None:
            refusal = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR) if confused else _alter(call, each, validate_only=request.validate_only)
        answers.append(answer_about(each.resource_type, each.resource_name, refusal))
    return IncrementalAlterConfigsResponse(responses=answers)


def _request_refusal(call: Call, resource: AlterConfigsResource, *, twice: bool) -> Refusal | None:
    kind, name = resource.resource_type, resource.resource_name
    nulls = [config.name for config in resource.configs if config.value is None and config.config_operation != DELETE]
    names = [config.name for config in resource.configs]
    refusal = request_refusal(call, kind, name, names, nulls, twice=twice, loggers=True)
    if refusal is not None or kind != ResourceType.BROKER:
        return refusal
    return next(filter(None, map(_broker_refusal, resource.configs)), None)


def _broker_refusal(config: AlterableConfig) -> Refusal | None:
    """Why a broker's config does not have this operation; None if it has."""
    operation, name = config.config_operation, config.name
    if not SET <= operation <= SUBTRACT:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation}")
    if operation not in NAMES or name in LISTS[ResourceType.BROKER]:
        return None
    if name in STATIC or name in DYNAMIC.keys() - DYNAMIC_ONLY:
        return Refusal(ErrorCode.INVALID_CONFIG, f"Config value {NAMES[operation].lower()} is not allowed for config key: {name}")
    return Refusal(ErrorCode.INVALID_CONFIG, f"Unknown config name: {name}")


def _alter(call: Call, resource: AlterConfigsResource, *, validate_only: bool) -> Refusal | None:
    kind, name = ResourceType(resource.resource_type), resource.resource_name
    refusal = permission_refusal(call, kind, name) if kind is not ResourceType.BROKER else None
    if refusal is not None:
        return refusal
    values, lists = own_configs(call.cluster, kind, name), LISTS[kind]
    for config in resource.configs:
        if config.config_operation in NAMES and config.name not in lists:
            word = NAMES[config.config_operation]
            return Refusal(ErrorCode.INVALID_CONFIG, f"Can't {word} to key {config.name} because its type is not LIST.")
        value = _changed(config, values.get(config.name), lists.get(config.name, ""))
        if value is None:
            values.pop(config.name, None)
        else:
            values[config.name] = value
    return set_configs(call, kind, name, values, [config.name for config in resource.configs], validate_only=validate_only)


def _changed(config: AlterableConfig, current: str | None, default: str) -> str | None:
    """The new value. None: the resource has none of its own."""
    if config.config_operation == SET:
        return config.value
    if config.config_operation == DELETE:
        return None
    before = current if current is not None else default
    parts = [part for part in before.split(",") if part]
    for part in java_parts(config.value or ""):
        if config.config_operation == APPEND and part not in parts:
            parts.append(part)
        elif config.config_operation == SUBTRACT and part in parts:
            parts.remove(part)
    return ",".join(parts)
