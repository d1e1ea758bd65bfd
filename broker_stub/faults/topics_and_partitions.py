"""The topics and partitions that a request names and that its response has results for.

Pure functions over messages, for the fault rules of the stub and of the proxy. The caller's `name_of` resolves topic ids; an unknown id is
ignored. `with_error` changes no message: it returns a new one.
"""

from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from fencepost.producer.wire import ZERO_UUID, Api, ErrorCode, Message, MetadataResponse

TopicPartition = tuple[str, int]
NameOf = Callable[[UUID], str | None]
Covers = Callable[[str, int], bool]
S = TypeVar("S", bound=msgspec.Struct)

TOPIC_RESOURCE = 2
ANY_PARTITION = -1  # stands for a topic as a whole, such as in Metadata

# api: (topics, partitions of a topic, index of a partition); no partitions where entries are topics.
ASKED: dict[int, tuple[str, str | None, str | None]] = {
    Api.PRODUCE: ("topic_data", "partition_data", "index"),
    Api.FETCH: ("topics", "partitions", "partition"),
    Api.LIST_OFFSETS: ("topics", "partitions", "partition_index"),
    Api.METADATA: ("topics", None, None),
    Api.OFFSET_COMMIT: ("topics", "partitions", "partition_index"),
    Api.OFFSET_FETCH: ("topics", "partition_indexes", None),
    Api.CREATE_TOPICS: ("topics", None, None),
    Api.DELETE_TOPICS: ("topics", None, None),
    Api.DELETE_RECORDS: ("topics", "partitions", "partition_index"),
    Api.OFFSET_FOR_LEADER_EPOCH: ("topics", "partitions", "partition"),
    Api.ADD_PARTITIONS_TO_TXN: ("v3_and_below_topics", "partitions", None),
    Api.TXN_OFFSET_COMMIT: ("topics", "partitions", "partition_index"),
    Api.DESCRIBE_CONFIGS: ("resources", None, None),
    Api.ALTER_CONFIGS: ("resources", None, None),
    Api.DESCRIBE_LOG_DIRS: ("topics", "partitions", None),
    Api.CREATE_PARTITIONS: ("topics", None, None),
    Api.ELECT_LEADERS: ("topic_partitions", "partitions", None),
    Api.INCREMENTAL_ALTER_CONFIGS: ("resources", None, None),
    Api.ALTER_PARTITION_REASSIGNMENTS: ("topics", "partitions", "partition_index"),
    Api.LIST_PARTITION_REASSIGNMENTS: ("topics", "partition_indexes", None),
    Api.OFFSET_DELETE: ("topics", "partitions", "partition_index"),
    Api.DESCRIBE_PRODUCERS: ("topics", "partition_indexes", None),
    Api.DESCRIBE_TOPIC_PARTITIONS: ("topics", None, None),
    Api.SHARE_FETCH: ("topics", "partitions", "partition_index"),
    Api.SHARE_ACKNOWLEDGE: ("topics", "partitions", "partition_index"),
    Api.INITIALIZE_SHARE_GROUP_STATE: ("topics", "partitions", "partition"),
    Api.READ_SHARE_GROUP_STATE: ("topics", "partitions", "partition"),
    Api.WRITE_SHARE_GROUP_STATE: ("topics", "partitions", "partition"),
    Api.DELETE_SHARE_GROUP_STATE: ("topics", "partitions", "partition"),
    Api.READ_SHARE_GROUP_STATE_SUMMARY: ("topics", "partitions", "partition"),
    Api.ALTER_SHARE_GROUP_OFFSETS: ("topics", "partitions", "partition_index"),
    Api.DELETE_SHARE_GROUP_OFFSETS: ("topics", None, None),
}
# The same where the topics are inside other entries.
ASKED_WITHIN: dict[int, tuple[str, str, str]] = {
    Api.ADD_PARTITIONS_TO_TXN: ("transactions", "topics", "partitions"),
    Api.WRITE_TXN_MARKERS: ("markers", "topics", "partition_indexes"),
    Api.ALTER_REPLICA_LOG_DIRS: ("dirs", "topics", "partitions"),
}
ANSWERED: dict[int, tuple[str, str | None, str | None]] = {
    Api.PRODUCE: ("responses", "partition_responses", "index"),
    Api.FETCH: ("responses", "partitions", "partition_index"),
    Api.LIST_OFFSETS: ("topics", "partitions", "partition_index"),
    Api.METADATA: ("topics", None, None),
    Api.OFFSET_COMMIT: ("topics", "partitions", "partition_index"),
    Api.FIND_COORDINATOR: ("coordinators", None, None),
    Api.DESCRIBE_GROUPS: ("groups", None, None),
    Api.CONSUMER_GROUP_DESCRIBE: ("groups", None, None),
    Api.CREATE_TOPICS: ("topics", None, None),
    Api.DELETE_TOPICS: ("responses", None, None),
    Api.DELETE_RECORDS: ("topics", "partitions", "partition_index"),
    Api.OFFSET_FOR_LEADER_EPOCH: ("topics", "partitions", "partition"),
    Api.ADD_PARTITIONS_TO_TXN: ("results_by_topic_v3_and_below", "results_by_partition", "partition_index"),
    Api.TXN_OFFSET_COMMIT: ("topics", "partitions", "partition_index"),
    Api.DESCRIBE_TRANSACTIONS: ("transaction_states", None, None),
    Api.CREATE_ACLS: ("results", None, None),
    Api.DELETE_ACLS: ("filter_results", None, None),
    Api.ALTER_CLIENT_QUOTAS: ("entries", None, None),
    Api.ALTER_USER_SCRAM_CREDENTIALS: ("results", None, None),
    Api.DESCRIBE_CONFIGS: ("results", None, None),
    Api.DESCRIBE_QUORUM: ("topics", "partitions", "partition_index"),
    Api.ALTER_CONFIGS: ("responses", None, None),
    Api.ALTER_REPLICA_LOG_DIRS: ("results", "partitions", "partition_index"),
    Api.CREATE_PARTITIONS: ("results", None, None),
    Api.DELETE_GROUPS: ("results", None, None),
    Api.ELECT_LEADERS: ("replica_election_results", "partition_result", "partition_id"),
    Api.INCREMENTAL_ALTER_CONFIGS: ("responses", None, None),
    Api.ALTER_PARTITION_REASSIGNMENTS: ("responses", "partitions", "partition_index"),
    Api.OFFSET_DELETE: ("topics", "partitions", "partition_index"),
    Api.DESCRIBE_PRODUCERS: ("topics", "partitions", "partition_index"),
    Api.DESCRIBE_TOPIC_PARTITIONS: ("topics", None, None),
    Api.SHARE_GROUP_DESCRIBE: ("groups", None, None),
    Api.SHARE_FETCH: ("responses", "partitions", "partition_index"),
    Api.SHARE_ACKNOWLEDGE: ("responses", "partitions", "partition_index"),
    Api.INITIALIZE_SHARE_GROUP_STATE: ("results", "partitions", "partition"),
    Api.READ_SHARE_GROUP_STATE: ("results", "partitions", "partition"),
    Api.WRITE_SHARE_GROUP_STATE: ("results", "partitions", "partition"),
    Api.DELETE_SHARE_GROUP_STATE: ("results", "partitions", "partition"),
    Api.READ_SHARE_GROUP_STATE_SUMMARY: ("results", "partitions", "partition"),
    Api.DESCRIBE_SHARE_GROUP_OFFSETS: ("groups", None, None),
    Api.ALTER_SHARE_GROUP_OFFSETS: ("responses", "partitions", "partition_index"),
    Api.DELETE_SHARE_GROUP_OFFSETS: ("responses", None, None),
}
ANSWERED_WITHIN: dict[int, tuple[str, str, str]] = {
    Api.ADD_PARTITIONS_TO_TXN: ("results_by_transaction", "topic_results", "results_by_partition"),
    Api.WRITE_TXN_MARKERS: ("markers", "topics", "partitions"),
}
# Fields that only a successful result fills, with their values in a failed one.
_OF_SUCCESS: dict[str, Any] = {
    "acquired_records": [],
    "accepted_compression_types": [],
    "active_producers": [],
    "base_offset": -1,
    "client_instance_id": ZERO_UUID,
    "committed_leader_epoch": -1,
    "committed_offset": -1,
    "config_resources": [],
    "end_offset": -1,
    "entries": [],
    "generation_id": -1,
    "groups": [],
    "heartbeat_interval_ms": 0,
    "host": "",
    "leader": "",
    "log_append_time_ms": -1,
    "low_watermark": -1,
    "matching_acls": [],
    "member_epoch": 0,
    "members": [],
    "node_id": -1,
    "offset": -1,
    "old_style_offsets": [],
    "partitions": [],
    "port": -1,
    "producer_epoch": -1,
    "producer_id": -1,
    "push_interval_ms": 0,
    "records": b"",
    "requested_metrics": [],
    "resources": [],
    "state_batches": [],
    "timestamp": -1,
    "transaction_state": "",
    "transaction_states": [],
    "unknown_state_filters": [],
}


def partitions_of(request: Message, name_of: NameOf) -> list[TopicPartition]:
    """Every (topic, partition) that the request names. The partition is ANY_PARTITION where it names topics only."""
    named = _within(request)
    walk = ASKED.get(request.api)
    if walk is None:
        return named
    topics, partitions, index = walk
    # From version 8 on OffsetFetch has its topics in groups; up to version 5 DeleteTopics has only names.
    batches = [request, *getattr(request, "groups", ())]
    named += [(name, ANY_PARTITION) for name in getattr(request, "topic_names", ())]
    for topic in [topic for batch in batches for topic in getattr(batch, topics) or ()]:
        name = topic_name(topic, name_of)
        if name is None:
            continue
        if partitions is None:
            named.append((name, ANY_PARTITION))
        else:
            named += [(name, each if index is None else getattr(each, index)) for each in getattr(topic, partitions)]
    return named


def asks_for_all(request: Message, version: int) -> bool:
    """Whether the request names no topics because it is about all: by null, and in some requests by an empty list."""
    walk = ASKED.get(request.api)
    if walk is None:
        return False
    lists = [getattr(batch, walk[0]) for batch in (request, *getattr(request, "groups", ()))]
    empty = request.api == Api.DESCRIBE_TOPIC_PARTITIONS or (request.api == Api.METADATA and version == 0)
    return any(topics is None or (empty and not topics) for topics in lists)


def names_topics(api: int) -> bool:
    """Whether requests of that API name topics."""
    return api in ASKED or api in ASKED_WITHIN


def names_partitions(api: int) -> bool:
    """Whether requests of that API name partitions, and not only topics."""
    return api in ASKED_WITHIN or (api in ASKED and ASKED[api][1] is not None)


def _within(request: Message) -> list[TopicPartition]:
    """The partitions inside other entries, always with the topic's name."""
    walk = ASKED_WITHIN.get(request.api)
    if walk is None:
        return []
    entries, topics, partitions = walk
    return [
        (topic.name, index)
        for entry in getattr(request, entries)
        for topic in getattr(entry, topics)
        for index in getattr(topic, partitions)
    ]


def with_error(response: Message, code: int, covers: Covers, name_of: NameOf) -> Message:
    """The response with this code in every covered result, and without the fields of a success. REBOOTSTRAP_REQUIRED is about no topic: it
    is the whole response to Metadata."""
    if code == ErrorCode.REBOOTSTRAP_REQUIRED and isinstance(response, MetadataResponse):
        return MetadataResponse(error_code=code)
    within = ANSWERED_WITHIN.get(response.api)
    if within is not None and (entries := getattr(response, within[0])) and not (has_code(response) and covers("", ANY_PARTITION)):
        changed_entries = [_partitions_failed(each, code, covers, name_of, within[1:]) for each in entries]
        return msgspec.structs.replace(response, **{within[0]: changed_entries})
    if response.api == Api.OFFSET_FETCH:
        return _offsets_failed(response, code, covers, name_of)
    walk = ANSWERED.get(response.api)
    if walk is None or not getattr(response, walk[0]):
        return failed(response, code)
    topics, partitions, index = walk
    changed = []
    for topic in getattr(response, topics):
        name = topic_name(topic, name_of) or ""
        if partitions is None:
            changed.append(failed(topic, code) if covers(name, ANY_PARTITION) else topic)
        else:
            answers = [failed(each, code) if covers(name, getattr(each, str(index))) else each for each in getattr(topic, partitions)]
            changed.append(msgspec.structs.replace(topic, **{partitions: answers}))
    return msgspec.structs.replace(response, **{topics: changed})


def has_code(answer: msgspec.Struct) -> bool:
    """Whether it has one code for the whole response."""
    return "error_code" in answer.__struct_fields__


def failed(answer: S, code: int) -> S:
    """A response, or a result in one, with this code and without the fields of a success. One without a code stays as it is."""
    fields = answer.__struct_fields__
    if "partition_error_code" in fields:
        return msgspec.structs.replace(answer, partition_error_code=code)
    if not has_code(answer):
        return answer
    empty = {name: value for name, value in _OF_SUCCESS.items() if name in fields}
    if "assignment" in fields:  # bytes in SyncGroup, and a struct or null in ConsumerGroupHeartbeat
        empty["assignment"] = b"" if isinstance(getattr(answer, "assignment", None), bytes) else None
    return msgspec.structs.replace(answer, error_code=code, **empty)


def topic_name(topic: Any, name_of: NameOf) -> str | None:
    """The topic's name in an entry of any message, from its name or its id."""
    fields = ("name", "topic", "topic_name", "key")
    name: str | None = next((value for each in fields if (value := getattr(topic, each, None))), None)
    if not name and getattr(topic, "resource_type", None) == TOPIC_RESOURCE:
        name = topic.resource_name
    if name:
        return name
    topic_id = getattr(topic, "topic_id", None)
    return name_of(topic_id) if topic_id is not None else None


def _offsets_failed(response: Message, code: int, covers: Covers, name_of: NameOf) -> Message:
    """OffsetFetch has codes in three places: for a group (from version 8 on), for the response (from 2 on), and for each partition."""
    whole = covers("", ANY_PARTITION)  # the request names partitions, so only a rule that names none covers this
    if groups := getattr(response, "groups", ()):
        if whole:
            return msgspec.structs.replace(response, groups=[failed(group, code) for group in groups])
        return msgspec.structs.replace(response, groups=[_partitions_failed(group, code, covers, name_of) for group in groups])
    answer = _partitions_failed(response, code, covers, name_of)
    return failed(answer, code) if whole else answer


def _partitions_failed(answer: S, code: int, covers: Covers, name_of: NameOf, where: tuple[str, str] = ("topics", "partitions")) -> S:
    topics, partitions = where
    changed = []
    for topic in getattr(answer, topics, ()):
        name = topic_name(topic, name_of) or ""
        answers = [failed(each, code) if covers(name, each.partition_index) else each for each in getattr(topic, partitions)]
        changed.append(msgspec.structs.replace(topic, **{partitions: answers}))
    return msgspec.structs.replace(answer, **{topics: changed})
