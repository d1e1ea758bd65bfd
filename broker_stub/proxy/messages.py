"""The changes that the proxy always makes to messages: addresses, and offered versions.

Pure functions that return new messages. Unknown messages pass as bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from fencepost.producer.wire import (
    REQUESTS,
    RESPONSES,
    ZERO_UUID,
    Api,
    ApiVersionsResponse,
    CreateTopicsResponse,
    FetchResponse,
    FindCoordinatorResponse,
    Malformed,
    Message,
    MetadataResponse,
    NodeEndpoint,
    ProduceResponse,
    decode,
    decode_response,
)
from fencepost.producer.wire.messages.cluster import DescribeClusterResponse

AddressOf = Callable[[int, str, int], tuple[str, int]]
"""Returns where clients find a node, from the node and its own address."""

SHARE_FETCH, SHARE_ACKNOWLEDGE = 78, 79
BROKERS = 1  # the endpoint type of DescribeCluster that is about brokers

# The first version of each answer that carries addresses, versions or topic ids; answers below it pass as they are.
_READ_FROM: Final = {
    Api.METADATA: 0,
    Api.FIND_COORDINATOR: 0,
    Api.API_VERSIONS: 0,
    Api.DESCRIBE_CLUSTER: 0,
    Api.PRODUCE: 10,
    Api.FETCH: 16,
    Api.CREATE_TOPICS: 7,
}


def must_read(api: int, version: int) -> bool:
    """Whether the proxy always has to read the response, because it may have addresses, versions or topic ids."""
    first = _READ_FROM.get(api)  # type: ignore[call-overload]  # an Api is its number
    return first is not None and version >= first


def read_request(frame: bytes, api: int, version: int, *, start: int) -> Message | None:
    """The request whose body starts there. None: the API or version is unknown here."""
    spoken = REQUESTS.get(api)
    if spoken is None or version not in spoken.versions:
        return None
    try:
        return decode(spoken, version, frame, start=start)
    except Malformed as error:
        # Brokers ignore bytes after a body, and librdkafka sends such bytes. Other damage raises again.
        return decode(spoken, version, frame[: error.offset], start=start)


def read_answer(frame: bytes, api: int, version: int) -> Message | None:
    """The response. None: the API or version is unknown here, and it must pass as it is."""
    spoken = RESPONSES.get(api)
    if spoken is None or version not in spoken.versions:
        return None
    return decode_response(frame, api, version)[1]


def names_in(answer: Message) -> dict[UUID, str]:
    """The topic ids and names in the response."""
    if isinstance(answer, MetadataResponse | CreateTopicsResponse):
        return {topic.topic_id: topic.name for topic in answer.topics if topic.name and topic.topic_id != ZERO_UUID}
    return {}


def readdressed(answer: Message, address_of: AddressOf) -> Message:
    """The response with the proxy's addresses of all brokers. ApiVersions offers only versions in which the proxy can do that."""
    if isinstance(answer, MetadataResponse):
        brokers = []
        for broker in answer.brokers:
            host, port = address_of(broker.node_id, broker.host, broker.port)
            brokers.append(replace(broker, host=host, port=port))
        return replace(answer, brokers=brokers)
    if isinstance(answer, FindCoordinatorResponse):
        coordinators = []
        for each in answer.coordinators:
            host, port = _moved(each.node_id, each.host, each.port, address_of)
            coordinators.append(replace(each, host=host, port=port))
        host, port = _moved(answer.node_id, answer.host, answer.port, address_of)
        return replace(answer, coordinators=coordinators, host=host, port=port)
    if isinstance(answer, ProduceResponse | FetchResponse):
        return replace(answer, node_endpoints=[_moved_endpoint(each, address_of) for each in answer.node_endpoints])
    if isinstance(answer, DescribeClusterResponse) and answer.endpoint_type == BROKERS:
        described = []
        for known in answer.brokers:
            host, port = address_of(known.broker_id, known.host, known.port)
            described.append(replace(known, host=host, port=port))
        return replace(answer, brokers=described)
    if isinstance(answer, ApiVersionsResponse):
        return _readable_versions(answer)
    return answer


def _moved(node: int, host: str, port: int, address_of: AddressOf) -> tuple[str, int]:
    return (host, port) if node < 0 or not host else address_of(node, host, port)


def _moved_endpoint(endpoint: NodeEndpoint, address_of: AddressOf) -> NodeEndpoint:
    host, port = address_of(endpoint.node_id, endpoint.host, endpoint.port)
    return replace(endpoint, host=host, port=port)


def _readable_versions(answer: ApiVersionsResponse) -> ApiVersionsResponse:
    """Removes the versions that would lead clients past the proxy: newer ones than it reads, and the share APIs, which also name
    brokers."""
    readable = []
    for each in answer.api_keys:
        if each.api_key in (SHARE_FETCH, SHARE_ACKNOWLEDGE):
            continue
        spoken = DescribeClusterResponse if each.api_key == Api.DESCRIBE_CLUSTER else REQUESTS.get(each.api_key)
        if spoken is not None:
            each = replace(each, max_version=min(each.max_version, spoken.versions.stop - 1))
        readable.append(each)
    return replace(answer, api_keys=readable)
