"""One Produce with acks=all that waits until every in-sync replica has its batches (Kafka's DelayedProduce).

It appends nothing. A partition whose batch is not replicated within the request's timeout gets REQUEST_TIMED_OUT, though the leader has
the batch and may replicate it later. A changed leader gives NOT_LEADER_OR_FOLLOWER. Too few replicas give
NOT_ENOUGH_REPLICAS_AFTER_APPEND.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from fencepost.broker_stub.cluster.delayed_operation import DelayedOperation
from fencepost.broker_stub.replication.replica import Replica
from fencepost.broker_stub.requests.call import Call
from fencepost.producer.wire import ErrorCode, PartitionProduceResponse, ProduceResponse


class Pending(NamedTuple):
    """A batch that an in-sync replica lacks: the partition's result if all goes well, the offset after the batch, and the leader epoch in
    which it was written."""

    replica: Replica
    answer: PartitionProduceResponse
    end_offset: int
    leader_epoch: int


class DelayedProduce(DelayedOperation):
    """A Produce that waits. `start` begins the waiting."""

    def __init__(self, call: Call, response: ProduceResponse, pending: list[Pending]) -> None:
        super().__init__(call.cluster, call.broker.node_id)
        self._call = call
        self._response = response
        self._pending = pending
        self._failures: dict[int, PartitionProduceResponse] = {}

    def start(self, timeout_ms: int) -> None:
        self.wait_on({id(each.replica): each.replica for each in self._pending}.values(), max(0, timeout_ms))
        self._call.on_lost = self.stop_waiting

    def try_complete(self) -> None:
        self._pending = [each for each in self._pending if not self._settled(each)]
        if not self._pending:
            self._complete()

    def expire(self) -> None:
        for each in self._pending:
            if not self._settled(each):
                self._fail(each, ErrorCode.REQUEST_TIMED_OUT)
        self._complete()

    def _settled(self, pending: Pending) -> bool:
        """Whether the batch is replicated or has failed; keeps its failure for the response."""
        code = pending.replica.replicated(pending.end_offset, pending.leader_epoch)
        if code:
            self._fail(pending, code)
        return code is not None

    def _fail(self, pending: Pending, code: ErrorCode) -> None:
        self._failures[id(pending.answer)] = replace(pending.answer, error_code=code)

    def _complete(self) -> None:
        self.stop_waiting()
        topics = [
            replace(topic, partition_responses=[self._failures.get(id(part), part) for part in topic.partition_responses])
            for topic in self._response.responses
        ]
        self._call.answer(replace(self._response, responses=topics))
