"""Which requests have an effect, and how the proxy refuses one, or a part of one, instead of the broker.

An error at BEFORE must have no effect. A request without effect is forwarded, and its response changed. A request with an effect must not
reach the broker, so the proxy makes the refusal itself, from the request's entries and the declaration of the response. Pure functions.

Metadata and FindCoordinator count as requests without effect, though they may create topics. WriteTxnMarkers, AlterReplicaLogDirs,
AddPartitionsToTxn of brokers (from version 4 on), and an election of all leaders are refused as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from fencepost.broker_stub.faults.topics_and_partitions import (
    ANSWERED,
    ANY_PARTITION,
    ASKED,
    ASKED_WITHIN,
    Covers,
    NameOf,
    failed,
    topic_name,
)
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
from fencepost.producer.wire.schema.declarations import Array, Nested, describe

WRITES: Final = frozenset(
    {
        Api.PRODUCE,
        Api.OFFSET_COMMIT,
        Api.JOIN_GROUP,
        Api.HEARTBEAT,
        Api.LEAVE_GROUP,
        Api.SYNC_GROUP,
        Api.SASL_HANDSHAKE,
        Api.CREATE_TOPICS,
        Api.DELETE_TOPICS,
        Api.DELETE_RECORDS,
        Api.INIT_PRODUCER_ID,
        Api.ADD_PARTITIONS_TO_TXN,
        Api.ADD_OFFSETS_TO_TXN,
        Api.END_TXN,
        Api.WRITE_TXN_MARKERS,
        Api.TXN_OFFSET_COMMIT,
        Api.CREATE_ACLS,
        Api.DELETE_ACLS,
        Api.ALTER_CONFIGS,
        Api.ALTER_REPLICA_LOG_DIRS,
        Api.SASL_AUTHENTICATE,
        Api.CREATE_PARTITIONS,
        Api.DELETE_GROUPS,
        Api.ELECT_LEADERS,
        Api.INCREMENTAL_ALTER_CONFIGS,
        Api.ALTER_PARTITION_REASSIGNMENTS,
        Api.OFFSET_DELETE,
        Api.ALTER_CLIENT_QUOTAS,
        Api.ALTER_USER_SCRAM_CREDENTIALS,
        Api.UPDATE_FEATURES,
        Api.CONSUMER_GROUP_HEARTBEAT,
    }
)
"""Requests with an effect on the broker."""

_NAMES = {Api.DELETE_TOPICS: ("topic_names", "name"), Api.DELETE_GROUPS: ("groups_names", "group_id")}
"""Where a request has only names, and the field of a response's entry for them."""

_BY_PLACE = {
    Api.CREATE_ACLS: ("creations", "results"),
    Api.DELETE_ACLS: ("filters", "filter_results"),
    Api.ALTER_CLIENT_QUOTAS: ("entries", "entries"),
}
"""Where a response has an entry for each entry of the request, in the same order, and none is about a topic alone."""

_IDENTITY = ("name", "topic", "topic_id", "resource_type", "resource_name", "group_id", "entity")
"""The fields that an entry of a response repeats from the request's entry."""


def is_write(request: Message) -> bool:
    """Whether the request has an effect on the broker."""
    return request.api in WRITES


def without(request: Message, covers: Covers, name_of: NameOf) -> Message | None:
    """The rest of a write without the covered partitions or topics. None: nothing is left."""
    if covers("", ANY_PARTITION):
        return None  # a rule without a topic is about the whole request
    if request.api in ASKED_WITHIN and getattr(request, ASKED_WITHIN[request.api][0]):
        return None
    left: dict[str, Any] = {}
    if request.api in _NAMES:
        field, _ = _NAMES[request.api]
        left[field] = [name for name in getattr(request, field) if not covers(name, ANY_PARTITION)]
    if request.api in ASKED:
        topics, partitions, index = ASKED[request.api]
        left[topics] = []
        for topic in getattr(request, topics) or ():
            name = topic_name(topic, name_of) or ""
            if partitions is None:
                left[topics] += [] if covers(name, ANY_PARTITION) else [topic]
            elif rest := [each for each in getattr(topic, partitions) if not covers(name, _index(each, index))]:
                left[topics].append(replace(topic, **{partitions: rest}))
    return replace(request, **left) if any(left.values()) else None


def refusal(request: Message, code: int, covers: Covers, name_of: NameOf) -> Message:
    """The response to a write with this code for everything that is covered, and without entries for the rest."""
    response = RESPONSES[request.api]()
    if request.api in _BY_PLACE:
        asked, results = _BY_PLACE[request.api]
        entry = _element(type(response), results)
        return replace(response, **{results: [failed(entry(**_repeated(each, entry)), code) for each in getattr(request, asked)]})
    if isinstance(request, WriteTxnMarkersRequest):
        return WriteTxnMarkersResponse(markers=[_unmarked(each, code) for each in request.markers])
    if isinstance(request, AlterReplicaLogDirsRequest):
        return AlterReplicaLogDirsResponse(results=[_unmoved(topic, code) for each in request.dirs for topic in each.topics])
    answered = ANSWERED.get(request.api)
    entries = [] if answered is None else list(_entries(request, code, covers, name_of))
    if answered is None or not entries:
        return failed(response, code)
    return replace(response, **{answered[0]: entries})


def together(first: Message, second: Message) -> Message:
    """Joins the responses to two parts of one write."""
    answered = ANSWERED.get(first.api)
    if answered is None or first.api not in WRITES:
        return second
    field = answered[0]
    return replace(first, **{field: [*getattr(first, field), *getattr(second, field)]})


def _repeated(asked: WireStruct, entry: type[WireStruct]) -> dict[str, Any]:
    """The fields that an entry of the response repeats from the request's entry."""
    return {field: getattr(asked, field) for field in _IDENTITY if field in asked.__struct_fields__ and field in entry.__struct_fields__}


def _entries(request: Message, code: int, covers: Covers, name_of: NameOf) -> Iterator[WireStruct]:
    """An entry of the response for each covered topic, group or resource."""
    answers, parts, answers_index = ANSWERED[request.api]
    entry = _element(RESPONSES[request.api], answers)
    if request.api in _NAMES:
        field, called = _NAMES[request.api]
        yield from (failed(entry(**{called: name}), code) for name in getattr(request, field) if covers(name, ANY_PARTITION))
    if request.api not in ASKED:
        return
    topics, partitions, index = ASKED[request.api]
    for topic in getattr(request, topics) or ():
        name = topic_name(topic, name_of) or ""
        same = _repeated(topic, entry)
        if partitions is None or parts is None or answers_index is None:
            if covers(name, ANY_PARTITION):
                yield failed(entry(**same), code)
            continue
        part = _element(entry, parts)
        numbers = [_index(each, index) for each in getattr(topic, partitions)]
        if refused := [failed(part(**{answers_index: number}), code) for number in numbers if covers(name, number)]:
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


def _index(partition: Any, field: str | None) -> int:
    """The partition's number, from an entry or from the number itself."""
    number: int = partition if field is None else getattr(partition, field)
    return number


def _element(struct: type[WireStruct], field: str) -> type[WireStruct]:
    """The element type of the list in that field."""
    (kind,) = (each.kind for each in describe(struct) if each.name == field)
    assert isinstance(kind, Array)
    assert isinstance(kind.element, Nested)
    return kind.element.struct
