"""AlterConfigs (33), versions 0 to 2.

Replaces all of a topic's or share group's own configs by the given ones. Today's clients use IncrementalAlterConfigs, which changes single
ones. `validate_only` changes nothing. A resource named twice, a config named twice and a null value are INVALID_REQUEST.

Leaves out: other resources (INVALID_REQUEST), the configs of other groups (INVALID_CONFIG), and policies.
"""

from __future__ import annotations

from collections import Counter

from fencepost.broker_stub.faults.topics_and_partitions import ANY_PARTITION
from fencepost.broker_stub.handlers.alter_config_checks import GROUP, answer_about, group_refusal, request_refusal, topic_refusal
from fencepost.broker_stub.handlers.refusal import Refusal
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.permissions import WORDS
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
    name = resource.resource_name
    code = call.error_for(name, ANY_PARTITION) if resource.resource_type != GROUP else call.error
    if code:
        return Refusal(code, WORDS.get(code))
    overrides = {config.name: config.value for config in resource.configs if config.value is not None}
    if resource.resource_type == GROUP:
        refusal = group_refusal(call.cluster, name, overrides)
        if refusal is None and not validate_only:
            call.cluster.group_configs.configure(name, overrides)
        return refusal
    refusal = topic_refusal(call.cluster, name, overrides)
    topic = call.cluster.topics.named(name)
    if refusal is None and topic is not None and not validate_only:
        call.cluster.configure(topic, overrides)
    return refusal
