"""The deletion of a share group: first of its state at the share coordinator, then of the group itself."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from fencepost.broker_stub.groups.state.share_group import KeptTopics, ShareGroup
from fencepost.broker_stub.share_partitions.coordinator.records import Key
from fencepost.broker_stub.share_partitions.coordinator.shard import Answer
from fencepost.producer.wire import ErrorCode

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.internal_append import Then
    from fencepost.broker_stub.groups.coordinators import Shard
    from fencepost.broker_stub.requests.call import Call


def delete_share_group(call: Call, shard: Shard, group: ShareGroup, then: Then) -> None:
    """Deletes a group that has no members. `then` gets the code."""
    kept = group.kept
    if kept is None:
        shard.shares.write(group.tombstones(), then)
        return
    wanted = [
        Key(group.id, topic_id, index)
        for topic_id in dict.fromkeys((*kept.initialized, *kept.initializing, *kept.deleting))
        for index in sorted(_partitions(call, kept, topic_id))
    ]
    names = {topic_id: each.name for of in (kept.initialized, kept.initializing) for topic_id, each in of.items()}
    deleting = KeptTopics(deleting={**kept.deleting, **names})
    codes: dict[Key, int] = {}

    def begun(code: int) -> None:
        if code or not wanted:
            finish(code)
        for key in wanted if not code else ():
            call.persister.delete(call.broker.node_id, key, then=partial(deleted, key))

    def deleted(key: Key, answer: Answer) -> None:
        codes[key] = answer.code
        if len(codes) == len(wanted):
            finish(next((code for code in codes.values() if code), ErrorCode.NONE))

    def finish(code: int) -> None:
        if code:
            then(code)
        elif group.members:  # one has joined in the meantime
            then(ErrorCode.NON_EMPTY_GROUP)
        else:
            shard.shares.write(group.tombstones(), then)

    shard.shares.write([deleting.record(group.id)], begun)


def _partitions(call: Call, kept: KeptTopics, topic_id: UUID) -> frozenset[int]:
    """The partitions of a topic that the share coordinator may keep."""
    known = [of[topic_id].partitions for of in (kept.initialized, kept.initializing) if topic_id in of]
    if known:
        return frozenset().union(*known)
    topic = call.image.topics.with_id(topic_id)
    return frozenset(range(len(topic.partitions))) if topic is not None else frozenset()
