"""The changes that the proxy always makes to messages: addresses, and offered versions.

Pure functions that return new messages. Unknown messages pass as bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar
from uuid import UUID

from msgspec.structs import replace

from fencepost.producer.wire import (
    REQUESTS,
    RESPONSES,
    ZERO_UUID,
    Api,
    ApiVersionsResponse,
    CreateTopicsResponse,
    ErrorCode,
    FetchResponse,
    FindCoordinatorResponse,
    Malformed,
    Message,
    MetadataResponse,
    ProduceResponse,
    decode,
    decode_response,
)
from fencepost.producer.wire.messages.cluster import DescribeClusterResponse

AddressOf = Callable[[int, str, int], tuple[str, int]]
"""Returns where clients find a node, from the node and its own address."""
T = TypeVar("T", bound=Any)

SHARE_FETCH, SHARE_ACKNOWLEDGE = 78, 79
BROKERS = 1  # the endpoint type of DescribeCluster that is about brokers

_ERROR_AT: Final = slice(4, 6)  # the error code of an answer to ApiVersions, after the correlation id
_UNSUPPORTED_VERSION: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")

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


def is_in_version_0(frame: bytes, api: int) -> bool:
    """Whether it is how a broker answers a version of ApiVersions that it does not know (KIP-511)."""
    return api == Api.API_VERSIONS and frame[_ERROR_AT] == _UNSUPPORTED_VERSION


def names_in(answer: Message) -> dict[UUID, str]:
    """The topic ids and names in the response."""
    if isinstance(answer, MetadataResponse | CreateTopicsResponse):
        return {topic.topic_id: topic.name for topic in answer.topics if topic.name and topic.topic_id != ZERO_UUID}
    return {}


def readdressed(answer: Message, address_of: AddressOf) -> Message:
    """The response with the proxy's addresses of all brokers. ApiVersions offers only versions in which the proxy can do that."""

    def moved(named: T, node: int) -> T:
        """The part of a response that names this node."""
        host, port = address_of(node, named.host, named.port)
        return replace(named, host=host, port=port)

    if isinstance(answer, MetadataResponse):
        return replace(answer, brokers=[moved(each, each.node_id) for each in answer.brokers])
    if isinstance(answer, FindCoordinatorResponse):
        known = [moved(each, each.node_id) if _is_there(each) else each for each in answer.coordinators]
        return replace(moved(answer, answer.node_id) if _is_there(answer) else answer, coordinators=known)
    if isinstance(answer, ProduceResponse | FetchResponse):
        return replace(answer, node_endpoints=[moved(each, each.node_id) for each in answer.node_endpoints])
    if isinstance(answer, DescribeClusterResponse) and answer.endpoint_type == BROKERS:
        return replace(answer, brokers=[moved(each, each.broker_id) for each in answer.brokers])
    if isinstance(answer, ApiVersionsResponse):
        return _readable_versions(answer)
    return answer


def _is_there(coordinator: Any) -> bool:
    """Whether it names a node."""
    return coordinator.node_id >= 0 and bool(coordinator.host)


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
