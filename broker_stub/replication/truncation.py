"""What a follower removes because its leader's log does not have it (KIP-101, KIP-279; Kafka's `getOffsetTruncationState`)."""

from __future__ import annotations

from fencepost.broker_stub.log import PartitionLog


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
