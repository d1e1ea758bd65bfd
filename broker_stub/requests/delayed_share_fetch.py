"""One ShareFetch: waits until there is something to acquire, reads it, and acquires it (Kafka's DelayedShareFetch).

It waits for share partitions that are being loaded, for records, and for locks that end. The response has the partitions from which it
could read; what was decided about the others before is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from fencepost.broker_stub.cluster.delayed_operation import DelayedOperation
from fencepost.broker_stub.log.errors import OffsetOutOfRange
from fencepost.broker_stub.log.results import ReadResult
from fencepost.broker_stub.requests.call import Call
from fencepost.broker_stub.share_partitions.aborted import AbortedTransaction, LogBatch
from fencepost.broker_stub.share_partitions.acquisition import Wanted
from fencepost.broker_stub.share_partitions.live_partition import LivePartition, State
from fencepost.broker_stub.share_partitions.sessions import TopicIdPartition
from fencepost.broker_stub.share_partitions.states import Acquired, ShareRefused
from fencepost.broker_stub.storage.disk_state import StorageFailed
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.share_fetch import AcquiredRecords, SharePartitionData
from fencepost.producer.wire.records import BATCH_OVERHEAD, BatchHeader, ControlType, read_header, read_marker

Found = dict[TopicIdPartition, SharePartitionData]
ThenFound = Callable[[Found], None]


class FetchLimits(NamedTuple):
    """How much a member wants, how much at least, and how long it waits."""

    min_bytes: int
    max_bytes: int
    max_wait_ms: int


class DelayedShareFetch(DelayedOperation):
    """See the module. It completes at most once, and calls `then`."""

    def __init__(
        self, call: Call, partitions: Mapping[TopicIdPartition, LivePartition], wanted: Wanted, limits: FetchLimits, then: ThenFound
    ) -> None:
        super().__init__(call.cluster, call.broker.node_id)
        self._cluster = call.cluster
        self._now_ms = call.broker.now_ms
        self.partitions = partitions
        self._wanted = wanted
        self._limits = limits
        self._then = then

    def start(self) -> None:
        """Completes now, or waits."""
        if self._enough():
            self._complete()
            return
        self.wait_on([live.replica for live in self.partitions.values()], max(0, self._limits.max_wait_ms))
        for live in self.partitions.values():
            live.waiting[self] = None

    def abandon(self) -> None:
        """The connection is lost: nothing is acquired."""
        self.stop_waiting()

    def stop_waiting(self) -> None:
        super().stop_waiting()
        for live in self.partitions.values():
            live.waiting.pop(self, None)

    def grew(self, size_bytes: int) -> None:
        self.changed()

    def try_complete(self) -> None:
        if self._enough():
            self._complete()

    def expire(self) -> None:
        self._complete()

    def _acquirable(self) -> dict[TopicIdPartition, LivePartition]:
        return {each: live for each, live in self.partitions.items() if live.can_acquire}

    def _enough(self) -> bool:
        """Whether so much can be read that the member need not wait, or an error was met."""
        if all(live.state is State.ENDED for live in self.partitions.values()):
            return True
        acquirable = self._acquirable()
        if not acquirable:
            return False
        if self._limits.max_bytes < 0:
            return True
        size = 0
        for live in acquirable.values():
            try:
                size += len(self._read(live, self._limits.max_bytes // len(acquirable), first=True).records)
            except (OffsetOutOfRange, StorageFailed):
                return True
        return size >= self._limits.min_bytes

    def _read(self, live: LivePartition, max_bytes: int, *, first: bool) -> ReadResult:
        return live.replica.log.read(
            live.core.window.next_fetch_offset, max_bytes=max_bytes, read_committed=live.reads_committed, min_one_batch=first
        )

    def _complete(self) -> None:
        self.stop_waiting()
        acquirable = self._acquirable()
        if self._limits.max_bytes < 0:  # Kafka cannot share out so many bytes
            refused = ShareRefused(ErrorCode.UNKNOWN_SERVER_ERROR)
            self._then({each: failed_partition(each.partition, refused) for each in acquirable})
            return
        found: Found = {}
        read_bytes = count = 0
        for each, live in acquirable.items():
            room = min(self._limits.max_bytes // len(acquirable), self._limits.max_bytes - read_bytes)
            try:
                result = self._read(live, max(0, room), first=read_bytes == 0)
            except OffsetOutOfRange:
                live.core.window.move_start(live.replica.log.log_start_offset)
                found[each] = SharePartitionData(partition_index=each.partition)
                continue
            except StorageFailed as failed:
                self._cluster.disk_failed(failed)
                found[each] = failed_partition(each.partition, ShareRefused(ErrorCode.KAFKA_STORAGE_ERROR))
                continue
            read_bytes += len(result.records)
            batches = _batches(result.records)
            wanted = self._wanted._replace(records_max=self._wanted.records_max - count)
            acquired = live.core.acquire(
                wanted,
                [batch for batch, _ in batches],
                live.core.window.next_fetch_offset,
                limits=live.limits,
                now_ms=self._now_ms(),
                aborted=[AbortedTransaction(each.producer_id, each.first_offset) for each in result.aborted or ()],
            )
            live.locks_changed()
            count += sum(each.size for each in acquired)
            found[each] = _data(each.partition, result.records, batches, acquired)
        self._then(found)


def failed_partition(index: int, refused: ShareRefused) -> SharePartitionData:
    """As Kafka's broker tells it, without words."""
    return SharePartitionData(partition_index=index, error_code=refused.code)


def _batches(records: bytes | memoryview) -> list[tuple[LogBatch, slice]]:
    """The whole batches, and where they are. The last one may be cut, and is left out."""
    found = []
    view = memoryview(records)
    at = 0
    while len(view) - at >= BATCH_OVERHEAD:
        header = read_header(view, at)
        end = at + header.size
        if end > len(view):
            break
        found.append((_log_batch(header, view[at:end]), slice(at, end)))
        at = end
    return found


def _log_batch(header: BatchHeader, batch: memoryview) -> LogBatch:
    aborts = header.is_control and read_marker(batch)[0] == ControlType.ABORT
    return LogBatch(header.base_offset, header.last_offset, header.producer_id, header.is_transactional, aborts)


def _data(
    index: int, records: bytes | memoryview, batches: Sequence[tuple[LogBatch, slice]], acquired: Sequence[Acquired]
) -> SharePartitionData:
    """The batches of the log from the first acquired record to the last one."""
    if not acquired:
        return SharePartitionData(partition_index=index)
    first, last = acquired[0].first, acquired[-1].last
    places = [place for batch, place in batches if batch.last >= first and batch.first <= last]
    return SharePartitionData(
        partition_index=index,
        records=records if len(batches) == 1 or not places else memoryview(records)[places[0].start : places[-1].stop],
        acquired_records=[
            AcquiredRecords(first_offset=each.first, last_offset=each.last, delivery_count=each.deliveries) for each in acquired
        ],
    )
