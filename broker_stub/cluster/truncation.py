"""A follower that reaches its leader: it removes what the leader's log does not have, and copies what it lacks.

Leader epochs say where two logs differ (KIP-101, KIP-279; Kafka's `AbstractFetcherThread.getOffsetTruncationState`).
"""

from __future__ import annotations

from typing import Final

from fencepost.broker_stub.log import Origin, PartitionLog

FETCH_BYTES: Final = 1 << 20
"""What is copied at a time (replica.fetch.max.bytes)."""


def catch_up(follower: PartitionLog, leader: PartitionLog, *, leader_epoch: int) -> None:
    """Makes the follower's log the leader's, up to its end."""
    truncate(follower, leader)
    if follower.log_end_offset < leader.log_start_offset:
        follower.restart_at(leader.log_start_offset)
    while follower.log_end_offset < leader.log_end_offset:
        data = leader.read_for_replica(follower.log_end_offset, max_bytes=FETCH_BYTES)
        follower.append(data, origin=Origin.REPLICATION, leader_epoch=leader_epoch)
    follower.advance_high_watermark(leader.high_watermark)
    if follower.log_start_offset < leader.log_start_offset <= follower.high_watermark:
        follower.advance_log_start(leader.log_start_offset)


def truncate(follower: PartitionLog, leader: PartitionLog) -> None:
    """Removes what the leader's log does not have."""
    epoch = follower.leader_epoch
    while epoch >= 0:
        leaders_epoch, leaders_end = leader.end_offset_for(epoch)
        own_epoch, own_end = follower.end_offset_for(leaders_epoch)
        if leaders_end < 0:
            follower.truncate(follower.high_watermark)
            break
        if own_end < 0:
            follower.truncate(leaders_end)
            break
        if own_epoch == leaders_epoch:
            follower.truncate(min(own_end, leaders_end))
            break
        follower.truncate(own_end)  # the leader's epoch is not in this log, so the leader is asked about an older one (KIP-279)
        epoch = own_epoch
    follower.truncate(leader.log_end_offset)
