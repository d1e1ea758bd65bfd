"""One Produce with acks=-1 that waits until its batches are on every in-sync replica: what it waits for, and what it says in the end.

It appends nothing. A partition whose batch is not replicated within the request's timeout is REQUEST_TIMED_OUT, though the batch is in the
leader's log and may yet be replicated; one whose leader has changed is NOT_LEADER_OR_FOLLOWER; one that was replicated to too few is
NOT_ENOUGH_REPLICAS_AFTER_APPEND (Kafka's DelayedProduce).
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from fencepost.broker_stub.cluster.partition import Partition
from fencepost.broker_stub.cluster.timers import Timer
from fencepost.broker_stub.requests.call import Call
from fencepost.producer.wire import ErrorCode, PartitionProduceResponse, ProduceResponse


class Pending(NamedTuple):
    """A batch that is not on every in-sync replica: the answer that it gets if all goes well, the offset after it, and in which leader
    epoch it was written."""

    partition: Partition
    answer: PartitionProduceResponse
    end_offset: int
    leader_epoch: int


class DelayedProduce:
    """A parked Produce. It hears of its partitions as a parked Fetch does."""

    def __init__(self, call: Call, response: ProduceResponse, pending: list[Pending], *, timeout_ms: int) -> None:
        self._call = call
        self._response = response
        self._pending = pending
        self._said: dict[int, PartitionProduceResponse] = {}
        self._partitions = {id(each.partition): each.partition for each in pending}
        self._looking = False
        cluster = call.cluster
        self._timer: Timer | None = cluster.timers.at(cluster.now_ms() + max(0, timeout_ms), self._time_over)
        for partition in self._partitions.values():
            partition.waiting[self] = None
        call.on_lost = self._unpark

    def grew(self, size_bytes: int) -> None:
        """What others write does not concern it."""

    def disturbed(self) -> None:
        if not self._looking:
            self._looking = True
            self._call.cluster.soon(self._look)

    def _look(self) -> None:
        self._looking = False
        if self._timer is None:
            return  # answered or abandoned meanwhile
        self._pending = [each for each in self._pending if not self._settled(each)]
        if not self._pending:
            self._answer()

    def _settled(self, pending: Pending) -> bool:
        """Whether there is nothing to wait for any more; notes what to say."""
        code = pending.partition.replicated(pending.end_offset, pending.leader_epoch)
        if code:
            self._fail(pending, code)
        return code is not None

    def _time_over(self) -> None:
        for each in self._pending:
            if not self._settled(each):
                self._fail(each, ErrorCode.REQUEST_TIMED_OUT)
        self._answer()

    def _fail(self, pending: Pending, code: ErrorCode) -> None:
        self._said[id(pending.answer)] = replace(pending.answer, error_code=code)

    def _answer(self) -> None:
        self._unpark()
        topics = [
            replace(topic, partition_responses=[self._said.get(id(part), part) for part in topic.partition_responses])
            for topic in self._response.responses
        ]
        self._call.answer(replace(self._response, responses=topics))

    def _unpark(self) -> None:
        for partition in self._partitions.values():
            partition.waiting.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
