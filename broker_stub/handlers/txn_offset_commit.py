"""TxnOffsetCommit (28), versions 0 to 5.

The offsets count once the producer's transaction commits. Until then they are pending, and clients that require stable offsets wait for
them. Before the append, the coordinator verifies that the group's partition of `__consumer_offsets` is part of the transaction. From
version 5 on (KIP-890) it adds the partition. Then the member and generation are checked, if the request has them.

A member of the consumer protocol (KIP-848) has its epoch as generation. A stale one is ILLEGAL_GENERATION.
"""

from __future__ import annotations

from functools import partial

from fencepost.broker_stub.cluster.producer_ids import Identity
from fencepost.broker_stub.groups.coordinators import Shard
from fencepost.broker_stub.groups.offsets.offsets import Committer
from fencepost.broker_stub.groups.state.pending_offsets import Committed, Key
from fencepost.broker_stub.handlers.group_lookups import find_shard
from fencepost.broker_stub.log.errors import AppendRefused
from fencepost.broker_stub.requests.call import Call, Instead
from fencepost.broker_stub.requests.deferred_reply import DeferredReply
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation, Resource
from fencepost.broker_stub.transactions.verification import Mode, Question
from fencepost.producer.wire import ZERO_UUID, ErrorCode
from fencepost.producer.wire.messages.txn_offsets import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

ABORTABLE_SINCE, ADDS_SINCE = 4, 5
LOADING_SINCE = 2


@handles(TxnOffsetCommitRequest, range(6), group=Operation.READ, topic=Operation.READ)
def txn_offset_commit(call: Call, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse | Instead:
    return _Commit(call, request).result()


class _Commit:
    """One request on its way."""

    def __init__(self, call: Call, request: TxnOffsetCommitRequest) -> None:
        self._call = call
        self._request = request
        self._deferred: DeferredReply[TxnOffsetCommitResponse] = DeferredReply(call)
        self._codes: dict[tuple[str, int], int] = {}
        self._asked: dict[tuple[str, int], TxnOffsetCommitRequestPartition] = {}
        refused = call.error or call.refusal(Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id)
        refused = refused or call.group_error(request.group_id)
        for topic in request.topics:
            for each in topic.partitions:
                key = (topic.name, each.partition_index)
                self._codes[key] = refused or self._refusal(*key)
                if not self._codes[key]:
                    self._asked[key] = each
        if self._asked:
            self._begin()
        else:
            self._answer()

    def result(self) -> TxnOffsetCommitResponse | Instead:
        return self._deferred.result()

    def _refusal(self, topic: str, partition: int) -> int:
        code = self._call.error_for(topic, partition)
        if not code and self._call.find(topic, partition)[0] is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return code

    def _begin(self) -> None:
        """Finds the group, and asks the coordinator about its partition if necessary."""
        call, request = self._call, self._request
        shard, code = find_shard(call, request.group_id)
        if shard is None:
            self._fail(code)
            return
        mode = Mode.of(call.version, abortable_since=ABORTABLE_SINCE, adds_since=ADDS_SINCE)
        try:
            guard = shard.replica.log.begin_verification(request.producer_id, request.producer_epoch, -1, bumps=mode.adds)
        except AppendRefused as refused:
            self._fail(refused.code)
            return
        if guard is None:
            self._commit(shard, None)
            return
        question = Question(
            transactional_id=request.transactional_id,
            identity=Identity(request.producer_id, request.producer_epoch),
            partitions=frozenset(((shard.replica.partition.topic, shard.replica.partition.index),)),
            mode=mode,
        )
        call.verification.ask(call.broker.node_id, question, partial(self._verified, shard, guard))

    def _verified(self, shard: Shard, guard: int, codes: dict[tuple[str, int], int]) -> None:
        found, gone = find_shard(self._call, self._request.group_id)
        if found is not shard:
            self._fail(gone or ErrorCode.NOT_COORDINATOR)  # the group has moved since
            return
        (code,) = codes.values()
        old = code == ErrorCode.CONCURRENT_TRANSACTIONS and self._call.version < ADDS_SINCE
        if code == ErrorCode.NETWORK_EXCEPTION or old:
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if code:
            self._fail(code)
        else:
            self._commit(shard, guard)

    def _commit(self, shard: Shard, guard: int | None) -> None:
        call, request = self._call, self._request
        committer = Committer(request.generation_id, request.member_id, request.group_instance_id, transactional=True)
        code = shard.offsets.transactional_commit_error(request.group_id, committer, self._asked)
        if code:
            self._fail(code)
            return
        now_ms = call.broker.now_ms()
        offsets: dict[Key, Committed] = {}
        for (topic, index), each in self._asked.items():
            metadata = each.committed_metadata or ""
            self._codes[topic, index] = shard.offsets.metadata_error(metadata)
            if not self._codes[topic, index]:
                # No version of the request says which topic of that name is meant.
                offsets[request.group_id, topic, index] = Committed(
                    each.committed_offset, each.committed_leader_epoch, metadata, ZERO_UUID, now_ms
                )
        if not offsets:
            self._answer()
            return
        identity = Identity(request.producer_id, request.producer_epoch)
        shard.offsets.commit_pending(identity, offsets, guard=guard, then=lambda code: self._fail(code) if code else self._answer())

    def _fail(self, code: int) -> None:
        """Every partition without an error of its own."""
        if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and self._call.version < LOADING_SINCE:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        for key in self._asked:
            self._codes[key] = self._codes[key] or code
        self._answer()

    def _answer(self) -> None:
        topics = [
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=self._codes[topic.name, each.partition_index]
                    )
                    for each in topic.partitions
                ],
            )
            for topic in self._request.topics
            if topic.partitions
        ]
        self._deferred(TxnOffsetCommitResponse(topics=topics))
