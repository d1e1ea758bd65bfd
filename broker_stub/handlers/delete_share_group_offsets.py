"""DeleteShareGroupOffsets (92), version 0.

Deletes what a share group without members knows of topics (KIP-932). Its partitions begin again when it has members. A missing group is
GROUP_ID_NOT_FOUND, one with members NON_EMPTY_GROUP. The response leaves when the share coordinator has deleted it.
"""

from __future__ import annotations

from functools import partial
from uuid import UUID

from fencepost.broker_stub.faults.topics_and_partitions import ANY_PARTITION
from fencepost.broker_stub.groups.consumer.heartbeat_checks import GroupRefused
from fencepost.broker_stub.groups.coordinators import Shard
from fencepost.broker_stub.groups.state.share_group import KeptTopics, ShareGroup
from fencepost.broker_stub.handlers.group_lookups import find_shard
from fencepost.broker_stub.handlers.share_acknowledgements import UNKNOWN_WORDS
from fencepost.broker_stub.requests.call import Call, Result
from fencepost.broker_stub.requests.deferred_reply import DeferredReply
from fencepost.broker_stub.requests.permissions import WORDS
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.broker_stub.share_partitions.coordinator.records import Key
from fencepost.broker_stub.share_partitions.coordinator.shard import Answer
from fencepost.producer.wire import ZERO_UUID, ErrorCode
from fencepost.producer.wire.messages.share_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

IN_USE_WORDS = "The group is not empty."


@handles(DeleteShareGroupOffsetsRequest, range(1), group=Operation.DELETE, topic=Operation.READ)
def delete_share_group_offsets(call: Call, request: DeleteShareGroupOffsetsRequest) -> Result:
    shard, code = find_shard(call, request.group_id)
    if shard is None:
        return DeleteShareGroupOffsetsResponse(error_code=code, error_message=WORDS.get(code))
    try:
        group = shard.shares.find(request.group_id)
    except GroupRefused as refused:
        return DeleteShareGroupOffsetsResponse(error_code=refused.code, error_message=refused.message)
    if group.members:
        return DeleteShareGroupOffsetsResponse(error_code=ErrorCode.NON_EMPTY_GROUP, error_message=IN_USE_WORDS)
    refused_topics = [_refused(call, group, each.topic_name) for each in request.topics]
    wanted = [
        topic.id
        for each, refused in zip(request.topics, refused_topics, strict=True)
        if refused is None and (topic := call.image.topics.named(each.topic_name)) is not None
    ]
    told = [each for each in refused_topics if each is not None]
    reply: DeferredReply[DeleteShareGroupOffsetsResponse] = DeferredReply(call)
    if wanted:
        _Deletion(call, shard, group, wanted, told, reply).begin()
    else:  # Kafka writes the record also if nothing changes
        records = [group.kept.record(group.id)] if group.kept is not None else []
        shard.shares.write(records, lambda code: reply(DeleteShareGroupOffsetsResponse(error_code=code, responses=[] if code else told)))
    return reply.result()


def _refused(call: Call, group: ShareGroup, name: str) -> DeleteShareGroupOffsetsResponseTopic | None:
    code = call.error_for(name, ANY_PARTITION)
    if code:
        return DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=ZERO_UUID, error_code=code, error_message=WORDS.get(code))
    topic = call.image.topics.named(name)
    kept = group.kept or KeptTopics()
    if topic is not None and (topic.id in kept.initialized or topic.id in kept.deleting):
        return None
    words = UNKNOWN_WORDS if topic is None else "There is no offset information to delete."
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name, topic_id=ZERO_UUID, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=words
    )


class _Deletion:
    """Writes that the topics are being deleted, asks the share coordinator, and writes that they are deleted."""

    def __init__(
        self,
        call: Call,
        shard: Shard,
        group: ShareGroup,
        wanted: list[UUID],
        told: list[DeleteShareGroupOffsetsResponseTopic],
        reply: DeferredReply[DeleteShareGroupOffsetsResponse],
    ) -> None:
        self._call = call
        self._shard = shard
        self._group = group
        self._wanted = wanted
        self._told = told
        self._reply = reply
        self._codes: dict[tuple[UUID, int], int] = {}
        self._names = {topic_id: call.cluster.topic_name(topic_id) or "" for topic_id in wanted}
        kept = group.kept or KeptTopics()
        self._partitions = {
            topic_id: kept.initialized[topic_id].partitions if topic_id in kept.initialized else self._all(topic_id) for topic_id in wanted
        }

    def begin(self) -> None:
        kept = self._group.kept or KeptTopics()
        coming = kept._replace(
            initialized={topic_id: each for topic_id, each in kept.initialized.items() if topic_id not in self._wanted},
            deleting={**kept.deleting, **self._names},
        )
        self._shard.shares.write([coming.record(self._group.id)], self._begun)

    def _all(self, topic_id: UUID) -> frozenset[int]:
        topic = self._call.image.topics.with_id(topic_id)
        return frozenset(range(len(topic.partitions))) if topic is not None else frozenset()

    def _begun(self, code: int) -> None:
        if code:
            self._reply(DeleteShareGroupOffsetsResponse(error_code=code))
            return
        for topic_id, indexes in self._partitions.items():
            for index in indexes:
                key = Key(self._group.id, topic_id, index)
                self._call.persister.delete(self._call.broker.node_id, key, then=partial(self._deleted, (topic_id, index)))

    def _deleted(self, place: tuple[UUID, int], answer: Answer) -> None:
        self._codes[place] = answer.code
        if len(self._codes) < sum(map(len, self._partitions.values())):
            return
        failed = {topic_id: code for (topic_id, _), code in self._codes.items() if code}
        for topic_id, code in failed.items():
            self._told.append(DeleteShareGroupOffsetsResponseTopic(topic_name=self._names[topic_id], topic_id=topic_id, error_code=code))
        done = {topic_id: name for topic_id, name in self._names.items() if topic_id not in failed}
        kept = self._group.kept or KeptTopics()
        left = {topic_id: name for topic_id, name in kept.deleting.items() if topic_id not in done}
        self._told += [DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id) for topic_id, name in done.items()]
        records = [kept._replace(deleting=left).record(self._group.id)] if done else []
        self._shard.shares.write(records, self._written)

    def _written(self, code: int) -> None:
        self._reply(DeleteShareGroupOffsetsResponse(error_code=code) if code else DeleteShareGroupOffsetsResponse(responses=self._told))
