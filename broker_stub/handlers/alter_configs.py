"""AlterConfigs (33), versions 0 to 2.

Replaces all dynamic configs of a topic, a broker, all brokers, a group or a client metrics subscription by the given ones. Today's clients
use IncrementalAlterConfigs, which changes single ones, and which says more about them. `validate_only` changes nothing. A resource named
twice, a config named twice, a null value and loggers are INVALID_REQUEST.

Leaves out: policies.
"""

from __future__ import annotations

from collections import Counter

from fencepost.broker_stub.configs.resource_types import ResourceType
from fencepost.broker_stub.handlers.alter_config_checks import answer_about, own_configs, permission_refusal, request_refusal, set_configs
from fencepost.broker_stub.handlers.refusal import Refusal
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire.messages.configs import AlterConfigsRequest, AlterConfigsResource, AlterConfigsResponse


@handles(AlterConfigsRequest, range(3), topic=Operation.ALTER_CONFIGS, forwarded=True)
def alter_configs(call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
    named = Counter((each.resource_type, each.resource_name) for each in request.resources)
    answers = []
    for each in request.resources:
        twice = named[each.resource_type, each.resource_name] > 1
        refusal = _request_refusal(call, each, twice=twice) or _alter(call, each, validate_only=request.validate_only)
        answers.append(answer_about(each.resource_type, each.resource_name, refusal))
    return AlterConfigsResponse(responses=answers)


def _request_refusal(call: Call, resource: AlterConfigsResource, *, twice: bool) -> Refusal | None:
    nulls = [config.name for config in resource.configs if config.value is None]
    names = [config.name for config in resource.configs]
    return request_refusal(call, resource.resource_type, resource.resource_name, names, nulls, twice=twice)


def _alter(call: Call, resource: AlterConfigsResource, *, validate_only: bool) -> Refusal | None:
    kind, name = ResourceType(resource.resource_type), resource.resource_name
    refusal = permission_refusal(call, kind, name) if kind is not ResourceType.BROKER else None
    if refusal is not None:
        return refusal
    values = {config.name: config.value for config in resource.configs if config.value is not None}
    deleted = own_configs(call.cluster, kind, name).keys() - values.keys()
    return set_configs(call, kind, name, values, [*values, *deleted], validate_only=validate_only)
