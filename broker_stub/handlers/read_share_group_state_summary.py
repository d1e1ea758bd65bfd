"""ReadShareGroupStateSummary (87), versions 0 and 1.

The group coordinator asks the share coordinator where share partitions are (KIP-932). One that is not there has the start offset -1.
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
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    SummaryPartitionResult,
    SummaryTopicResult,
)


@handles(ReadShareGroupStateSummaryRequest, range(2), cluster=Operation.CLUSTER_ACTION)
def read_share_group_state_summary(call: Call, request: ReadShareGroupStateSummaryRequest) -> Result:
    reply: DeferredReply[ReadShareGroupStateSummaryResponse] = DeferredReply(call)
    ask_each(
        call,
        request.group_id,
        request.topics,
        _do,
        lambda answers: reply(ReadShareGroupStateSummaryResponse(results=_results(answers))),
        verb="read share group state summary",
    )
    return reply.result()


def _do(shard: ShareShard, key: Key, asked: ReadPartition, then: Then) -> None:
    shard.summary(key, then)


def _results(answers: list[tuple[UUID, list[tuple[int, Answer]]]]) -> list[SummaryTopicResult]:
    return [SummaryTopicResult(topic_id=topic_id, partitions=[_result(*each) for each in partitions]) for topic_id, partitions in answers]


def _result(index: int, answer: Answer) -> SummaryPartitionResult:
    if answer.code:
        return SummaryPartitionResult(partition=index, error_code=answer.code, error_message=answer.message)
    return SummaryPartitionResult(
        partition=index,
        state_epoch=answer.found.state_epoch,
        leader_epoch=answer.found.leader_epoch,
        start_offset=start_offset(answer),
        delivery_complete_count=answer.found.done_count,
    )
