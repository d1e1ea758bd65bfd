"""A copy of a log that a replica moves to another log directory: it follows the current log until it can take its place (KIP-113; what
Kafka's `ReplicaAlterLogDirsThread` does with the future log).

It knows no directories, and decides neither when the copy goes on nor when it takes the place.
"""

from __future__ import annotations

from fencepost.broker_stub.log import Origin, PartitionLog
from fencepost.broker_stub.log.partition_log import NEVER
from fencepost.broker_stub.replication.truncation import truncate_to_leader
from fencepost.producer.wire.records import iter_batches


class LogCopy:
    """See the module. `current`: the replica's log. `future`: empty, or what an earlier copy of that log has left."""

    def __init__(self, current: PartitionLog, future: PartitionLog) -> None:
        self.current = current
        self.future = future
        current.lowest_truncation = NEVER
        self._find_common_end()

    @property
    def is_complete(self) -> bool:
        """Whether the future log has every batch of the current one."""
        return self.current.lowest_truncation == NEVER and self._next_records(1) == b""

    def proceed(self, max_bytes: int) -> int:
        """Removes what the current log has no longer, and copies the next batches: at most so many bytes, or one batch. Returns the bytes
        that were copied. Raises AppendRefused or CorruptBatch for a damaged batch."""
        current, future = self.current, self.future
        future.config = current.config
        cut, current.lowest_truncation = current.lowest_truncation, NEVER
        if cut < future.log_end_offset:
            future.truncate(cut)
        if future.log_end_offset < current.log_start_offset:
            future.restart_at(self._first_batch())
        records = self._next_records(max_bytes)
        if records:
            future.append(records, origin=Origin.REPLICATION, leader_epoch=current.leader_epoch)
        future.advance_high_watermark(current.high_watermark)
        if future.log_start_offset < current.log_start_offset <= future.high_watermark:
            future.advance_log_start(current.log_start_offset)
        return len(records)

    def finish(self) -> None:
        """The future log has everything, and is flushed. From now on it can take the place of the current one."""
        self.future.take_over(self.current)

    def _next_records(self, max_bytes: int) -> bytes:
        current, offset = self.current, max(self.future.log_end_offset, self.current.log_start_offset)
        if offset >= current.log_end_offset:
            return b""
        found = bytes(current.read(offset, max_bytes=max_bytes, for_replica=True).records)
        return found[: sum(header.size for header, _ in iter_batches(found))]

    def _first_batch(self) -> int:
        """Where the batch with the log's start begins: earlier than the log's start if records were deleted up to its middle."""
        start = self.current.log_start_offset
        return min(start, self.current.start_of_batch(start))

    def _find_common_end(self) -> None:
        """After a loss of power each of the logs may have records that the other one lacks. The future log is truncated as a follower's."""
        future = self.future
        before: tuple[int, int] | None = None
        while before != (before := (future.log_end_offset, future.leader_epoch)) and future.leader_epoch >= 0:
            truncate_to_leader(future, *self.current.end_offset_for(future.leader_epoch))
        future.truncate(min(future.log_end_offset, self.current.log_end_offset))
