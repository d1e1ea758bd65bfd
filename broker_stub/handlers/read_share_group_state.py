"""ReadShareGroupState (84), version 0.

A new leader reads share partitions from the share coordinator (KIP-932), which then refuses older leaders.
"""

from __future__ import annotations

from uuid import UUID

from fencepost.broker_stub.handlers.share_state_requests import ask_each, start_offset
from fencepost.broker_stub.requests.call import Call, Result
from fencepost.broker_stub.requests.deferred_reply import DeferredReply
from fencepost.broker_stub.requests.router import handles
from fencepost.broker_stub.security.operations import Operation
from fencepost.broker_stub.share_partitions.coordinator.records import Key
from fencepost.broker_stub.share_partitions.coordinator.shard import Answer, ShareShard, Then
from fencepost.producer.wire.messages.share_state import (
    ReadPartition,
    ReadPartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadTopicResult,
    StateBatch,
)


@handles(ReadShareGroupStateRequest, range(1), cluster=Operation.CLUSTER_ACTION)
def read_share_group_state(call: Call, request: ReadShareGroupStateRequest) -> Result:
    reply: DeferredReply[ReadShareGroupStateResponse] = DeferredReply(call)
    ask_each(
        call,
        request.group_id,
        request.topics,
        _do,
        lambda answers: reply(ReadShareGroupStateResponse(results=_results(answers))),
        verb="read share group state",
    )
    return reply.result()


def _do(shard: ShareShard, key: Key, asked: ReadPartition, then: Then) -> None:
    shard.read(key, asked.leader_epoch, then)


def _results(answers: list[tuple[UUID, list[tuple[int, Answer]]]]) -> list[ReadTopicResult]:
    return [ReadTopicResult(topic_id=topic_id, partitions=[_result(*each) for each in partitions]) for topic_id, partitions in answers]


def _result(index: int, answer: Answer) -> ReadPartitionResult:
    if answer.code:
        return ReadPartitionResult(partition=index, error_code=answer.code, error_message=answer.message)
    return ReadPartitionResult(
        partition=index,
        state_epoch=answer.found.state_epoch,
        start_offset=start_offset(answer),
        state_batches=[
            StateBatch(first_offset=each.first, last_offset=each.last, delivery_state=each.state, delivery_count=each.deliveries)
            for each in answer.found.batches
        ],
    )
