"""What ShareFetch and ShareAcknowledge have in common: their checks, and the acknowledgements of records.

The checks are Kafka's, in its order. An acknowledgement is answered when the share coordinator has kept it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from fencepost.broker_stub.cluster.current_leader import current_leader
from fencepost.broker_stub.share_partitions.coordinator.records import Key
from fencepost.broker_stub.share_partitions.sessions import TopicIdPartition
from fencepost.broker_stub.share_partitions.states import RENEW, Acknowledgement, ShareRefused
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.share_fetch import LeaderIdAndEpoch

if TYPE_CHECKING:
    from fencepost.broker_stub.requests.call import Call

MEMBER_ID_CHARS_MAX: Final = 36
RENEW_SINCE: Final = 2
UNKNOWN_WORDS: Final = "This server does not host this topic-partition."

Acknowledged = Mapping[TopicIdPartition, Sequence[Acknowledgement]]
Results = dict[TopicIdPartition, ShareRefused]

S = TypeVar("S", bound=Struct)


def request_refusal(call: Call, group_id: str | None, member_id: str | None) -> int:
    """The code for the whole request; 0 if it has group and member, and may use the group."""
    code = call.error
    if code:
        return code
    if group_id is None:
        return ErrorCode.INVALID_REQUEST
    code = call.group_error(group_id)
    return code or (ErrorCode.NONE if is_member_id(member_id) else ErrorCode.INVALID_REQUEST)


def is_member_id(member_id: str | None) -> bool:
    return bool(member_id) and len(member_id or "") <= MEMBER_ID_CHARS_MAX


def acknowledgements_of(topics: Iterable[Any]) -> dict[TopicIdPartition, list[Acknowledgement]]:
    """The acknowledgements of a request, by partition."""
    return {
        TopicIdPartition(topic.topic_id, each.partition_index): [
            Acknowledgement(batch.first_offset, batch.last_offset, tuple(batch.acknowledge_types)) for batch in each.acknowledgement_batches
        ]
        for topic in topics
        for each in topic.partitions
    }


def acknowledge(
    call: Call,
    group_id: str,
    member_id: str,
    asked: Acknowledged,
    renews: bool,
    then: Callable[[Mapping[TopicIdPartition, ShareRefused]], None],
) -> None:
    """`then` gets the result for each partition, once all are there. One without acknowledgements is told beside others only."""
    refused = {each: code for each, batches in asked.items() if (code := _refusal(call, each, batches, renews=renews))}
    good = {each: batches for each, batches in asked.items() if batches and each not in refused}
    results: Results = {each: ShareRefused(ErrorCode(code)) for each, code in refused.items()}
    if good:
        results |= {each: ShareRefused(ErrorCode.NONE) for each, batches in asked.items() if not batches and each not in refused}
    else:
        then(results)
    expected = len(results) + len(good)

    def acknowledged(each: TopicIdPartition, code: int, message: str | None) -> None:
        results[each] = ShareRefused(ErrorCode(code), message)
        if len(results) == expected:
            then({named: results[named] for named in asked if named in results})

    for each, batches in good.items():
        live = call.shares.find(Key(group_id, each.topic_id, each.partition))
        if live is None:
            acknowledged(each, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_WORDS)
        else:
            live.acknowledge(member_id, batches, partial(acknowledged, each))


def _refusal(call: Call, partition: TopicIdPartition, batches: Sequence[Acknowledgement], *, renews: bool) -> int:
    topic = call.image.topics.with_id(partition.topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not _are_valid(batches, types_max=RENEW if call.version >= RENEW_SINCE else RENEW - 1, renews=renews):
        return ErrorCode.INVALID_REQUEST
    code = call.error_for(topic.name, partition.partition)
    if not code and topic.partition(partition.partition) is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return code


def _are_valid(batches: Sequence[Acknowledgement], *, types_max: int, renews: bool) -> bool:
    """Whether the ranges are in order, and have one type or as many as offsets."""
    end = -1
    for first, last, types in batches:
        count = last - first + 1
        if count < 1 or first < end or len(types) not in (1, count):
            return False
        if not all(0 <= each <= types_max for each in types) or (RENEW in types and not renews):
            return False
        end = last
    return True


def leader_of(call: Call, data: S, topic: str, index: int) -> S:
    """The result with the leader, where the broker is another one."""
    if getattr(data, "error_code", 0) not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
        return data
    partition = call.find(topic, index)[0]
    if partition is None:
        return data
    leader = current_leader(call.image, partition)
    return replace(data, current_leader=LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch))
