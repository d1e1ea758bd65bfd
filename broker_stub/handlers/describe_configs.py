"""DescribeConfigs (32), versions 1 to 4.

Every config of a topic, a broker, a group or a client metrics subscription, or the named ones: value, source, type, and on request the
synonyms that the value comes from. A broker describes only itself, by its id; the empty name stands for the configs that are set for all
brokers at once. A group and a subscription need not exist. Unknown topics are UNKNOWN_TOPIC_OR_PARTITION, illegal names
INVALID_TOPIC_EXCEPTION, other brokers and other types of resource INVALID_REQUEST. Topics and groups need DESCRIBE_CONFIGS on them, other
resources on the cluster.

Leaves out: documentation (null), static broker configs of features that the stub has not (tiered storage, KRaft, streams groups, security),
and loggers: a broker has none.
"""

from __future__ import annotations

from msgspec.structs import replace

from fencepost.broker_stub.cluster.topics import illegal_name
from fencepost.broker_stub.configs.resource_types import ResourceType
from fencepost.broker_stub.faults.topics_and_partitions import ANY_PARTITION
from fencepost.broker_stub.handlers.config_entries import broker_entries, cluster_entries, topic_entries
from fencepost.broker_stub.handlers.group_config_entries import client_metrics_entries, group_entries
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.requests.permissions import WORDS
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

NAMED = {ResourceType.TOPIC: Resource.TOPIC, ResourceType.GROUP: Resource.GROUP}
UNEXPECTED_TYPE = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible broker. "
    "See the broker logs for more details."
)


class ResourceRefused(Exception):
    """Why a resource cannot be described."""

    def __init__(self, code: int, message: str | None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@handles(DescribeConfigsRequest, range(1, 5))
def describe_configs(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    if any(each.resource_type not in [*ResourceType] for each in request.resources):
        # In Kafka this fails the whole request.
        return DescribeConfigsResponse(results=[_failed(each, ErrorCode.INVALID_REQUEST, UNEXPECTED_TYPE) for each in request.resources])
    return DescribeConfigsResponse(results=[_described(call, each, with_synonyms=request.include_synonyms) for each in request.resources])


def _described(call: Call, resource: DescribeConfigsResource, *, with_synonyms: bool) -> DescribeConfigsResult:
    try:
        entries = _entries(call, resource)
    except ResourceRefused as refused:
        return _failed(resource, refused.code, refused.message)
    wanted = resource.configuration_keys
    return DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[entry if with_synonyms else replace(entry, synonyms=[]) for entry in entries if not wanted or entry.name in wanted],
    )


def _entries(call: Call, resource: DescribeConfigsResource) -> list[DescribeConfigsResourceResult]:
    name, kind = resource.resource_name, ResourceType(resource.resource_type)
    refusal = _permission_error(call, kind, name)
    if refusal:
        raise ResourceRefused(refusal, WORDS[refusal])
    if kind is ResourceType.TOPIC:
        code = call.error_for(name, ANY_PARTITION)
        if code:
            raise ResourceRefused(code, None)
        illegal = illegal_name(name)
        if illegal:
            raise ResourceRefused(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
        topic = call.image.topics.named(name)
        if topic is None:
            raise ResourceRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        return topic_entries(call.cluster, topic, call.broker)
    if call.error:
        raise ResourceRefused(call.error, None)
    match kind:
        case ResourceType.CLIENT_METRICS:
            if not name:
                raise ResourceRefused(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
            return client_metrics_entries(call.cluster, name)
        case ResourceType.GROUP:
            if not name:
                raise ResourceRefused(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            return group_entries(call.cluster, call.broker, name)
        case ResourceType.BROKER if not name:
            return cluster_entries(call.cluster)
    _check_broker(call, name, kind)
    return broker_entries(call.cluster, call.broker) if kind is ResourceType.BROKER else []


def _permission_error(call: Call, kind: ResourceType, name: str) -> int:
    if kind in NAMED:
        return call.refusal(Operation.DESCRIBE_CONFIGS, NAMED[kind], name)
    return call.refusal(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER)


def _check_broker(call: Call, name: str, kind: ResourceType) -> None:
    if not name:
        raise ResourceRefused(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    try:
        node_id = int(name)
    except ValueError:
        raise ResourceRefused(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}") from None
    if node_id != call.broker.node_id:
        expected = f"{call.broker.node_id} or empty string," if kind is ResourceType.BROKER else str(call.broker.node_id)
        raise ResourceRefused(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {expected} but received {name}")


def _failed(resource: DescribeConfigsResource, code: int, message: str | None) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code, error_message=message, resource_type=resource.resource_type, resource_name=resource.resource_name
    )
