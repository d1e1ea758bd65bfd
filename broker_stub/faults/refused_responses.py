"""The response that refuses a request with one code, made from the request alone (`getErrorResponse` in Kafka's request classes).

It has the request's own entries, by the declaration of the response. The proxy refuses a write, or a part of one, in a broker's place. A
broker of the stub refuses a request that it could not forward to the controller. As in Kafka, an error's message is null where it would
only repeat the code. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from fencepost.broker_stub.faults.topics_and_partitions import ANSWERED, ANY_PARTITION, ASKED, Covers, NameOf, failed, topic_name
from fencepost.producer.wire import RESPONSES, Api, Message, WireStruct
from fencepost.producer.wire.messages.end_txn import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from fencepost.producer.wire.messages.log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
    AlterReplicaLogDirTopicResult,
)
from fencepost.producer.wire.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from fencepost.producer.wire.schema.declarations import Array, Nested, describe

S = TypeVar("S", bound=WireStruct)

NAMES: Final = {Api.DELETE_TOPICS: ("topic_names", "name"), Api.DELETE_GROUPS: ("groups_names", "group_id")}
"""Where a request has only names, and the field of a response's entry for them."""

_BY_PLACE: Final = {
    Api.CREATE_ACLS: ("creations", "results"),
    Api.DELETE_ACLS: ("filters", "filter_results"),
    Api.ALTER_CLIENT_QUOTAS: ("entries", "entries"),
}
"""Where a response has an entry for each entry of the request, in the same order, and none is about a topic alone."""

_IDENTITY: Final = ("name", "topic", "topic_id", "resource_type", "resource_name", "group_id", "entity")
"""The fields that an entry of a response repeats from the request's entry."""

_ENTRIES: Final = {**ANSWERED, Api.LIST_PARTITION_REASSIGNMENTS: ("topics", "partitions", "partition_index")}
"""Where a refusal repeats the request's topics. The entries of ListPartitionReassignments have no codes."""

_CODE_SINCE: Final = {Api.ELECT_LEADERS: 1, Api.ALTER_PARTITION_REASSIGNMENTS: 0, Api.LIST_PARTITION_REASSIGNMENTS: 0}
"""The APIs whose refusal has a code for the whole response beside those of its entries, and from which version on."""


def refusal(request: Message, code: int, covers: Covers, name_of: NameOf, *, version: int, message: str | None = None) -> Message:
    """The response with this code for everything that is covered, and without entries for the rest. `message`: the code's own text, which
    only AlterClientQuotas repeats."""
    response = RESPONSES[request.api]()
    if request.api in _BY_PLACE:
        asked, results = _BY_PLACE[request.api]
        entry = _element(type(response), results)
        text = message if request.api == Api.ALTER_CLIENT_QUOTAS else None
        return replace(response, **{results: [_refused(entry(**_repeated(each, entry)), code, text) for each in getattr(request, asked)]})
    if isinstance(request, WriteTxnMarkersRequest):
        return WriteTxnMarkersResponse(markers=[_unmarked(each, code) for each in request.markers])
    if isinstance(request, AlterReplicaLogDirsRequest):
        return AlterReplicaLogDirsResponse(results=[_unmoved(topic, code) for each in request.dirs for topic in each.topics])
    if isinstance(request, AlterUserScramCredentialsRequest):
        users = dict.fromkeys((*(each.name for each in request.deletions), *(each.name for each in request.upsertions)))
        return AlterUserScramCredentialsResponse(results=[_refused(AlterUserScramCredentialsResult(user=each), code) for each in users])
    answered = _ENTRIES.get(request.api)
    entries = [] if answered is None else list(_entries(request, code, covers, name_of))
    if answered is None or not entries:
        return _refused(response, code) if version >= _CODE_SINCE.get(request.api, 0) else response
    if covers("", ANY_PARTITION) and version >= _CODE_SINCE.get(request.api, version + 1):
        response = _refused(response, code)
    return replace(response, **{answered[0]: entries})


def _repeated(asked: WireStruct, entry: type[WireStruct]) -> dict[str, Any]:
    """The fields that an entry of the response repeats from the request's entry."""
    return {field: getattr(asked, field) for field in _IDENTITY if field in asked.__struct_fields__ and field in entry.__struct_fields__}


def _entries(request: Message, code: int, covers: Covers, name_of: NameOf) -> Iterator[WireStruct]:
    """An entry of the response for each covered topic, group or resource."""
    answers, parts, answers_index = _ENTRIES[request.api]
    entry = _element(RESPONSES[request.api], answers)
    if request.api in NAMES:
        field, called = NAMES[request.api]
        yield from (_refused(entry(**{called: name}), code) for name in getattr(request, field) if covers(name, ANY_PARTITION))
    if request.api not in ASKED:
        return
    topics, partitions, index = ASKED[request.api]
    for topic in getattr(request, topics) or ():
        name = topic_name(topic, name_of) or ""
        same = _repeated(topic, entry)
        if partitions is None or parts is None or answers_index is None:
            if covers(name, ANY_PARTITION):
                yield _refused(entry(**same), code)
            continue
        part = _element(entry, parts)
        numbers = [index_in(each, index) for each in getattr(topic, partitions)]
        if refused := [_refused(part(**{answers_index: number}), code) for number in numbers if covers(name, number)]:
            yield entry(**same, **{parts: refused})


def _unmarked(marker: WritableTxnMarker, code: int) -> WritableTxnMarkerResult:
    """Covers no partition."""
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[WritableTxnMarkerPartitionResult(partition_index=index, error_code=code) for index in topic.partition_indexes],
            )
            for topic in marker.topics
        ],
    )


def _unmoved(topic: AlterReplicaLogDirTopic, code: int) -> AlterReplicaLogDirTopicResult:
    """Covers no partition."""
    results = [AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code) for index in topic.partitions]
    return AlterReplicaLogDirTopicResult(topic_name=topic.name, partitions=results)


def index_in(partition: Any, field: str | None) -> int:
    """The partition's number, from an entry or from the number itself."""
    number: int = partition if field is None else getattr(partition, field)
    return number


def _refused(answer: S, code: int, message: str | None = None) -> S:
    """A response, or a result in one, with this code."""
    answer = failed(answer, code)
    return replace(answer, error_message=message) if "error_message" in answer.__struct_fields__ else answer


def _element(struct: type[WireStruct], field: str) -> type[WireStruct]:
    """The element type of the list in that field."""
    (kind,) = (each.kind for each in describe(struct) if each.name == field)
    assert isinstance(kind, Array)
    assert isinstance(kind.element, Nested)
    return kind.element.struct
