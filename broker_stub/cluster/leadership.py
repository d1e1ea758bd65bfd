"""Whether a broker can serve a partition: it must lead it, or have a copy, in the leader epoch that the client names.

It returns codes and leaders and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fencepost.broker_stub.replication.partition import Partition
from fencepost.producer.wire import ErrorCode, LeaderIdAndEpoch, NodeEndpoint

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.broker import Broker
    from fencepost.broker_stub.cluster.context import Context

NO_EPOCH = -1


def leadership_error(broker: Broker, partition: Partition | None, leader_epoch: int = NO_EPOCH, *, follower_will_do: bool = False) -> int:
    """The code for why this broker cannot serve the partition to a client with that leader epoch, if any; 0 if it can (KIP-320)."""
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.node_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if leader_epoch != NO_EPOCH and leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if leader_epoch > partition.leader_epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if follower_will_do or partition.leader == broker.node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER


def current_leader(partition: Partition) -> LeaderIdAndEpoch:
    return LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.leader_epoch)


def endpoints(context: Context, leaders: Iterable[int]) -> list[NodeEndpoint]:
    """The addresses of these leaders, each once (KIP-951)."""
    brokers = [context.brokers[node_id] for node_id in dict.fromkeys(leaders) if node_id in context.brokers]
    return [NodeEndpoint(node_id=broker.node_id, host=broker.host, port=broker.port) for broker in brokers]
