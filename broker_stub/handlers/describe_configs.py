"""DescribeConfigs (32), versions 1 to 4.

Every config of a topic or a broker, or the named ones: value, source, type, and on request the synonyms that the value comes from. A broker
describes only itself, by its id; the empty name stands for the configs of all brokers at once. Unknown topics are
UNKNOWN_TOPIC_OR_PARTITION, illegal names INVALID_TOPIC_EXCEPTION, other brokers and other types of resource INVALID_REQUEST. A group has
its configs whether it exists or not. Topics and groups need DESCRIBE_CONFIGS on them, other resources on the cluster.

Leaves out: documentation (null), broker configs of features that the stub has not (replication, tiered storage, KRaft, security), loggers
(none), and client metrics (INVALID_REQUEST).
"""

from __future__ import annotations

from msgspec.structs import replace

from fencepost.broker_stub.cluster.topics import illegal_name
from fencepost.broker_stub.faults.topics_and_partitions import ANY_PARTITION
from fencepost.broker_stub.handlers.config_entries import broker_entries, cluster_entries, group_entries, topic_entries
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

TOPIC, BROKER, BROKER_LOGGER, GROUP = 2, 4, 8, 32
KNOWN_TYPES = (TOPIC, BROKER, BROKER_LOGGER, 16, GROUP)
NAMED = {TOPIC: Resource.TOPIC, GROUP: Resource.GROUP}
UNEXPECTED_TYPE = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible broker. "
    "See the broker logs for more details."
)


class Refused(Exception):
    """Why a resource cannot be described."""

    def __init__(self, code: int, message: str | None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@handles(DescribeConfigsRequest, range(1, 5))
def describe_configs(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    if any(each.resource_type not in KNOWN_TYPES for each in request.resources):
        # In Kafka this fails the whole request.
        return DescribeConfigsResponse(results=[_failed(each, ErrorCode.INVALID_REQUEST, UNEXPECTED_TYPE) for each in request.resources])
    return DescribeConfigsResponse(results=[_described(call, each, with_synonyms=request.include_synonyms) for each in request.resources])


def _described(call: Call, resource: DescribeConfigsResource, *, with_synonyms: bool) -> DescribeConfigsResult:
    try:
        entries = _entries(call, resource)
    except Refused as refused:
        return _failed(resource, refused.code, refused.message)
    wanted = resource.configuration_keys
    return DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[entry if with_synonyms else replace(entry, synonyms=[]) for entry in entries if not wanted or entry.name in wanted],
    )


def _entries(call: Call, resource: DescribeConfigsResource) -> list[DescribeConfigsResourceResult]:
    name, kind = resource.resource_name, resource.resource_type
    refusal = _permission_error(call, kind, name)
    if refusal:
        raise Refused(refusal, WORDS[refusal])
    if kind == TOPIC:
        code = call.error_for(name, ANY_PARTITION)
        if code:
            raise Refused(code, None)
        illegal = illegal_name(name)
        if illegal:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
        topic = call.image.topics.named(name)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        return topic_entries(call.cluster, topic)
    if call.error:
        raise Refused(call.error, None)
    if kind == GROUP and call.cluster.release.differs.groups_have_configs:
        if not name:
            raise Refused(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return group_entries(call.cluster, name)
    if kind not in (BROKER, BROKER_LOGGER):
        raise Refused(ErrorCode.INVALID_REQUEST, f"The stub has no resources of type {kind}")
    if not name and kind == BROKER:
        return cluster_entries(call.cluster)
    _check_broker(call, name, kind)
    return broker_entries(call.cluster, call.broker) if kind == BROKER else []


def _permission_error(call: Call, kind: int, name: str) -> int:
    if kind in NAMED:
        return call.refusal(Operation.DESCRIBE_CONFIGS, NAMED[kind], name)
    return call.refusal(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER)


def _check_broker(call: Call, name: str, kind: int) -> None:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    try:
        node_id = int(name)
    except ValueError:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}") from None
    if node_id != call.broker.node_id:
        expected = f"{call.broker.node_id} or empty string," if kind == BROKER else str(call.broker.node_id)
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {expected} but received {name}")


def _failed(resource: DescribeConfigsResource, code: int, message: str | None) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code, error_message=message, resource_type=resource.resource_type, resource_name=resource.resource_name
    )
