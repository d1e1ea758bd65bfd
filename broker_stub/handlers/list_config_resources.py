"""ListConfigResources (74), versions 0 and 1.

The groups and the client metrics subscriptions that have configs, the live brokers, twice as they also have loggers, and the topics; on
request only those of some types. Version 0 lists subscriptions. Another type is UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from fencepost.broker_stub.configs.resource_types import ResourceType
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

IN_ORDER = (ResourceType.GROUP, ResourceType.CLIENT_METRICS, ResourceType.BROKER_LOGGER, ResourceType.BROKER, ResourceType.TOPIC)


@handles(ListConfigResourcesRequest, range(2), cluster=Operation.DESCRIBE_CONFIGS)
def list_config_resources(call: Call, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    if call.error:
        return ListConfigResourcesResponse(error_code=call.error)
    listed = [ResourceType.CLIENT_METRICS] if call.version == 0 else [*ResourceType]
    asked = request.resource_types or listed
    if any(kind not in listed for kind in asked):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind) for kind in IN_ORDER if kind in asked for name in _names(call, kind)
        ]
    )


def _names(call: Call, kind: ResourceType) -> list[str]:
    match kind:
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return [str(node) for node in call.image.live]
        case ResourceType.TOPIC:
            return [topic.name for topic in call.image.topics]
        case _:
            return call.cluster.dynamic_configs.names(kind)
