"""Whether a broker can serve a partition: it must lead it, or have a copy, in the leader epoch that the client names.

It returns codes and leaders and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fencepost.broker_stub.replication.partition import Partition
from fencepost.broker_stub.replication.replica import Replica
from fencepost.producer.wire import ErrorCode, LeaderIdAndEpoch, NodeEndpoint

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.context import Context
    from fencepost.broker_stub.cluster.metadata_image import MetadataImage

NO_EPOCH = -1


def leadership_error(
    partition: Partition | None, replica: Replica | None, leader_epoch: int = NO_EPOCH, *, follower_will_do: bool = False
) -> int:
    """The code for why a broker with that replica cannot serve the partition to a client with that leader epoch, if any; 0 if it can
    (KIP-320)."""
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if replica is not None and replica.is_offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if replica is None or replica.known is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if leader_epoch != NO_EPOCH and leader_epoch < replica.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if leader_epoch > replica.leader_epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if follower_will_do or replica.leads else ErrorCode.NOT_LEADER_OR_FOLLOWER


def current_leader(image: MetadataImage, partition: Partition) -> LeaderIdAndEpoch:
    """The leader, as far as a broker knows."""
    state = image.state(partition)
    return LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)


def endpoints(context: Context, leaders: Iterable[int]) -> list[NodeEndpoint]:
    """The addresses of these leaders, each once (KIP-951)."""
    brokers = [context.brokers[node_id] for node_id in dict.fromkeys(leaders) if node_id in context.brokers]
    return [NodeEndpoint(node_id=broker.node_id, host=broker.host, port=broker.port) for broker in brokers]
