"""What a request asks and what its response says, each as one line, for the APIs of which more matters than topics and error codes.

The lines have what decides about exactly-once delivery: partitions, offsets, identities, groups and generations, commit or abort.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from fencepost.broker_stub.inspector.batch_facts import identity, topic_of
from fencepost.broker_stub.inspector.message_tree import NameOf
from fencepost.producer.foundations.counted import counted
from fencepost.producer.wire import Api

Sentence = Callable[[Any, NameOf], str]
ENTRIES_MAX: Final = 4
LATEST: Final = {-1: "the latest", -2: "the earliest", -3: "the largest timestamp"}


def joined(parts: Iterable[str]) -> str:
    """The first of them, and how many more there are."""
    every = list(parts)
    more = f"; and {len(every) - ENTRIES_MAX} more" if len(every) > ENTRIES_MAX else ""
    return "; ".join(every[:ENTRIES_MAX]) + more


def _fetch(request: Any, name_of: NameOf) -> str:
    level = "read_committed" if request.isolation_level else "read_uncommitted"
    asked = joined(f"{topic_of(t, name_of)}-{p.partition} from {p.fetch_offset}" for t in request.topics for p in t.partitions)
    return f"{asked or 'what its session has'}, {level}"


def _fetched(response: Any, name_of: NameOf) -> str:
    return joined(
        f"{topic_of(t, name_of)}-{p.partition_index}: {'records' if p.records else 'nothing new'}"
        f", LSO {p.last_stable_offset}, HW {p.high_watermark}"
        + (f", {len(p.aborted_transactions)} aborted" if p.aborted_transactions else "")
        for t in response.responses
        for p in t.partitions
        if not p.error_code
    )


def _init(request: Any, name_of: NameOf) -> str:
    known = f", has {identity(request.producer_id, request.producer_epoch)}" if request.producer_id >= 0 else ""
    owner = f"transactional id {request.transactional_id}" if request.transactional_id else "an idempotent producer"
    return f"{owner}{known}"


def _identity(response: Any, name_of: NameOf) -> str:
    return identity(response.producer_id, response.producer_epoch) if response.producer_id >= 0 else ""


def _add_partitions(request: Any, name_of: NameOf) -> str:
    if request.transactions:
        return joined(
            f"{'verify' if each.verify_only else 'add'} {_indexes(each.topics)} for {each.transactional_id}, "
            f"{identity(each.producer_id, each.producer_epoch)}"
            for each in request.transactions
        )
    owner = identity(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    return f"add {_indexes(request.v3_and_below_topics)} for {request.v3_and_below_transactional_id}, {owner}"


def _indexes(topics: Iterable[Any]) -> str:
    return joined(f"{topic.name}-{index}" for topic in topics for index in topic.partitions)


def _add_offsets(request: Any, name_of: NameOf) -> str:
    return f"offsets of group {request.group_id} for {request.transactional_id}, {identity(request.producer_id, request.producer_epoch)}"


def _txn_offsets(request: Any, name_of: NameOf) -> str:
    member = f"generation {request.generation_id}, " if request.generation_id >= 0 else ""
    return f"{_offsets(request, name_of)} for group {request.group_id}, {member}{identity(request.producer_id, request.producer_epoch)}"


def _offsets(request: Any, name_of: NameOf) -> str:
    return joined(f"{topic_of(t, name_of)}-{p.partition_index} at {p.committed_offset}" for t in request.topics for p in t.partitions)


def _commit_offsets(request: Any, name_of: NameOf) -> str:
    generation = request.generation_id_or_member_epoch
    return f"{_offsets(request, name_of)} for group {request.group_id}" + (f", generation {generation}" if generation >= 0 else "")


def _end(request: Any, name_of: NameOf) -> str:
    what = "COMMIT" if request.committed else "ABORT"
    return f"{what} {request.transactional_id}, {identity(request.producer_id, request.producer_epoch)}"


def _markers(request: Any, name_of: NameOf) -> str:
    return joined(
        f"{'COMMIT' if each.transaction_result else 'ABORT'} marker of {identity(each.producer_id, each.producer_epoch)} for "
        + joined(f"{topic.name}-{index}" for topic in each.topics for index in topic.partition_indexes)
        for each in request.markers
    )


def _coordinator(request: Any, name_of: NameOf) -> str:
    kind = (
        ("group", "transactional id", "share group")[request.key_type] if request.key_type in range(3) else f"key type {request.key_type}"
    )
    return f"of {kind} {', '.join(filter(None, (request.key, *request.coordinator_keys)))}"


def _found_coordinator(response: Any, name_of: NameOf) -> str:
    nodes = [each.node_id for each in response.coordinators] or [response.node_id]
    return ", ".join(f"node {node}" for node in nodes if node >= 0)


def _join(request: Any, name_of: NameOf) -> str:
    return f"group {request.group_id}" + (f", member {request.member_id}" if request.member_id else ", a new member")


def _joined(response: Any, name_of: NameOf) -> str:
    if response.generation_id < 0:
        return ""
    leads = f", leads {counted(len(response.members), 'member')}" if response.members else ""
    return f"generation {response.generation_id}{leads}"


def _generation(request: Any, name_of: NameOf) -> str:
    return f"group {request.group_id}, generation {request.generation_id}"


def _leave(request: Any, name_of: NameOf) -> str:
    return f"group {request.group_id}"


def _beat(request: Any, name_of: NameOf) -> str:
    return f"group {request.group_id}, epoch {request.member_epoch}"


def _beaten(response: Any, name_of: NameOf) -> str:
    return f"epoch {response.member_epoch}" if not response.error_code else ""


def _list_offsets(request: Any, name_of: NameOf) -> str:
    return joined(
        f"{topic_of(t, name_of)}-{p.partition_index} at {LATEST.get(p.timestamp, p.timestamp)}"
        for t in request.topics
        for p in t.partitions
    )


def _listed(response: Any, name_of: NameOf) -> str:
    return joined(
        f"{topic_of(t, name_of)}-{p.partition_index}: {p.offset}" for t in response.topics for p in t.partitions if not p.error_code
    )


def _metadata(request: Any, name_of: NameOf) -> str:
    if request.topics is None:
        return "all topics"
    return joined(topic_of(each, name_of) for each in request.topics) or "brokers only"


def _leaders(response: Any, name_of: NameOf) -> str:
    return joined(
        f"{topic_of(t, name_of)}-{p.partition_index} led by {p.leader_id} in epoch {p.leader_epoch}"
        for t in response.topics
        for p in t.partitions
    )


def _offset_fetch(request: Any, name_of: NameOf) -> str:
    return "of group " + ", ".join(filter(None, (request.group_id, *(each.group_id for each in request.groups))))


def _nothing(message: Any, name_of: NameOf) -> str:
    return ""


SENTENCES: Final[dict[int, tuple[Sentence, Sentence]]] = {
    Api.FETCH: (_fetch, _fetched),
    Api.INIT_PRODUCER_ID: (_init, _identity),
    Api.ADD_PARTITIONS_TO_TXN: (_add_partitions, _nothing),
    Api.ADD_OFFSETS_TO_TXN: (_add_offsets, _nothing),
    Api.TXN_OFFSET_COMMIT: (_txn_offsets, _nothing),
    Api.END_TXN: (_end, _identity),
    Api.WRITE_TXN_MARKERS: (_markers, _nothing),
    Api.FIND_COORDINATOR: (_coordinator, _found_coordinator),
    Api.JOIN_GROUP: (_join, _joined),
    Api.SYNC_GROUP: (_generation, _nothing),
    Api.HEARTBEAT: (_generation, _nothing),
    Api.LEAVE_GROUP: (_leave, _nothing),
    Api.CONSUMER_GROUP_HEARTBEAT: (_beat, _beaten),
    Api.OFFSET_COMMIT: (_commit_offsets, _nothing),
    Api.OFFSET_FETCH: (_offset_fetch, _nothing),
    Api.LIST_OFFSETS: (_list_offsets, _listed),
    Api.METADATA: (_metadata, _leaders),
}
"""For an API what its request asks, and what its response says."""
