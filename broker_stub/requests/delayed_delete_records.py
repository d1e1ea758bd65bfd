"""One DeleteRecords that waits until every live replica's log starts at the offset (Kafka's DelayedDeleteRecords)."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from fencepost.broker_stub.cluster.delayed_operation import DelayedOperation
from fencepost.broker_stub.replication.replica import Replica
from fencepost.broker_stub.requests.call import Call
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.topic_admin import DeleteRecordsPartitionResult, DeleteRecordsResponse

NOWHERE = -1


class Raised(NamedTuple):
    """A partition whose leader's log starts at `offset` now, and its result. `low_watermark`: the smallest log start of the live replicas
    at that time."""

    replica: Replica
    result: DeleteRecordsPartitionResult
    offset: int
    leader_epoch: int
    low_watermark: int


class DelayedDeleteRecords(DelayedOperation):
    """A DeleteRecords that waits. `start` begins the waiting."""

    def __init__(self, call: Call, response: DeleteRecordsResponse, raised: list[Raised]) -> None:
        super().__init__(call.cluster, call.broker.node_id)
        self._call = call
        self._response = response
        self._raised = raised

    def start(self, timeout_ms: int) -> None:
        self.wait_on([each.replica for each in self._raised], max(0, timeout_ms))
        self._call.on_lost = self.stop_waiting
        self.try_complete()

    def try_complete(self) -> None:
        if all(self._result(each) is not None for each in self._raised):
            self._complete()

    def expire(self) -> None:
        self._complete()

    def _result(self, raised: Raised) -> DeleteRecordsPartitionResult | None:
        """None: a live replica's log starts before the offset."""
        replica = raised.replica
        if replica.leader_epoch != raised.leader_epoch or not replica.leads:
            return replace(raised.result, low_watermark=NOWHERE, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        low = replica.low_watermark
        return replace(raised.result, low_watermark=low) if low >= raised.offset else None

    def _complete(self) -> None:
        self.stop_waiting()
        results = {id(each.result): self._result(each) or _timed_out(each) for each in self._raised}
        topics = [replace(topic, partitions=[results.get(id(each), each) for each in topic.partitions]) for topic in self._response.topics]
        self._call.answer(replace(self._response, topics=topics))


def _timed_out(raised: Raised) -> DeleteRecordsPartitionResult:
    return replace(raised.result, low_watermark=raised.low_watermark, error_code=ErrorCode.REQUEST_TIMED_OUT)
