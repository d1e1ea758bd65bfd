"""What a follower removes because its leader's log does not have it (KIP-101, KIP-279; Kafka's `getOffsetTruncationState`), and where it
begins."""

from __future__ import annotations

from fencepost.broker_stub.log import Origin, PartitionLog
from fencepost.producer.wire.records import iter_batches


def truncate_to_leader(follower: PartitionLog, epoch: int, end_offset: int) -> None:
    """Removes what diverges. `epoch`: the leader's largest epoch not above the follower's. `end_offset`: that epoch's end in the leader's
    log, -1 for none. If the follower does not know that epoch, it must ask again with its own newest epoch."""
    own_epoch, own_end = follower.end_offset_for(epoch)
    if end_offset < 0:
        follower.truncate(follower.high_watermark)
    elif own_end < 0:
        follower.truncate(end_offset)
    elif own_epoch == epoch:
        follower.truncate(min(own_end, end_offset))
    else:
        follower.truncate(own_end)


def start_within(follower: PartitionLog, *, start_offset: int, end_offset: int) -> None:
    """The leader has no batch at the follower's end. Truncates to the leader's end, or restarts the log where the leader's begins."""
    if end_offset < follower.log_end_offset:
        follower.truncate(end_offset)
    elif start_offset > follower.log_end_offset:
        follower.restart_at(start_offset)


def append_from_leader(follower: PartitionLog, records: bytes, *, leader_epoch: int) -> None:
    """Appends what the leader gave. Where records were deleted up to the middle of a batch, an empty log begins with that batch, as in
    Kafka's `appendRecordsToFollowerOrFutureReplica`: earlier than the leader's log start, which the follower hears besides."""
    end = follower.log_end_offset
    if end == follower.log_start_offset:
        first = next((header for header, _ in iter_batches(records)), None)
        if first is not None and first.base_offset < end <= first.last_offset:
            follower.restart_at(first.base_offset)
    follower.append(records, origin=Origin.REPLICATION, leader_epoch=leader_epoch)
