"""Which requests have an effect, and what is left of one after the proxy has refused a part of it instead of the broker.

An error at BEFORE must have no effect. A request without effect is forwarded, and its response changed. A request with an effect must not
reach the broker, so the proxy makes the refusal itself (`faults/refused_responses`). Pure functions.

Metadata and FindCoordinator count as requests without effect, though they may create topics. WriteTxnMarkers, AlterReplicaLogDirs,
AddPartitionsToTxn of brokers (from version 4 on), and an election of all leaders are refused as a whole or not at all.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from fencepost.broker_stub.faults.refused_responses import NAMES, index_in
from fencepost.broker_stub.faults.topics_and_partitions import ANSWERED, ANY_PARTITION, ASKED, ASKED_WITHIN, Covers, NameOf, topic_name
from fencepost.producer.wire import Api, Message

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
        Api.UNREGISTER_BROKER,
        Api.PUSH_TELEMETRY,
        Api.CONSUMER_GROUP_HEARTBEAT,
        Api.SHARE_GROUP_HEARTBEAT,
        Api.SHARE_FETCH,
        Api.SHARE_ACKNOWLEDGE,
        Api.INITIALIZE_SHARE_GROUP_STATE,
        Api.READ_SHARE_GROUP_STATE,
        Api.WRITE_SHARE_GROUP_STATE,
        Api.DELETE_SHARE_GROUP_STATE,
        Api.ALTER_SHARE_GROUP_OFFSETS,
        Api.DELETE_SHARE_GROUP_OFFSETS,
    }
)
"""Requests with an effect on the broker."""


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
    if request.api in NAMES:
        field, _ = NAMES[request.api]
        left[field] = [name for name in getattr(request, field) if not covers(name, ANY_PARTITION)]
    if request.api in ASKED:
        topics, partitions, index = ASKED[request.api]
        left[topics] = []
        for topic in getattr(request, topics) or ():
            name = topic_name(topic, name_of) or ""
            if partitions is None:
                left[topics] += [] if covers(name, ANY_PARTITION) else [topic]
            elif rest := [each for each in getattr(topic, partitions) if not covers(name, index_in(each, index))]:
                left[topics].append(replace(topic, **{partitions: rest}))
    return replace(request, **left) if any(left.values()) else None


def together(first: Message, second: Message) -> Message:
    """Joins the responses to two parts of one write."""
    answered = ANSWERED.get(first.api)
    if answered is None or first.api not in WRITES:
        return second
    field = answered[0]
    return replace(first, **{field: [*getattr(first, field), *getattr(second, field)]})
