"""The share coordinators of a cluster: for each partition of `__share_group_state` the broker that leads it.

A shard is loaded at its first use, and ends when its broker leads no longer. This file decides nothing about share groups.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING
from uuid import UUID

from fencepost.broker_stub.cluster.coordinator_partition import coordinating, partition_for
from fencepost.broker_stub.cluster.topics import SHARE_STATE_TOPIC
from fencepost.broker_stub.replication.partition_state import NO_LEADER
from fencepost.broker_stub.share_partitions.coordinator.records import Key
from fencepost.broker_stub.share_partitions.coordinator.shard import ShareShard
from fencepost.producer.wire import ErrorCode

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.context import Context
    from fencepost.broker_stub.replication.replica import Replica


def coordinator_key(key: Key) -> str:
    """The key of FindCoordinator: the group, the topic's id as Kafka writes it, and the partition."""
    return f"{key.group_id}:{kafka_uuid(key.topic_id)}:{key.partition}"


def kafka_uuid(topic_id: UUID) -> str:
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


class ShareCoordinators:
    """Every shard of every broker."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._shards: dict[Replica, ShareShard] = {}
        context.on_topic_deleted.append(self._forget_topic)

    def leader_of(self, key: Key, node: int) -> int:
        """The broker that coordinates the share partition, as far as that broker knows; NO_LEADER if it knows none."""
        topic = self._context.brokers[node].image.topics.named(SHARE_STATE_TOPIC)
        if topic is None:
            return NO_LEADER
        return self._context.led_by(node, SHARE_STATE_TOPIC, partition_for(coordinator_key(key), len(topic.partitions)))

    def shard_for(self, key: Key, node: int) -> tuple[ShareShard | None, int]:
        """The shard of that share partition, or the code for a broker that does not have it."""
        replica = coordinating(self._context, node, SHARE_STATE_TOPIC, coordinator_key(key))
        if replica is None:
            return None, ErrorCode.NOT_COORDINATOR
        if self._context.loading_ms(replica):
            return None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return self._shard(replica), ErrorCode.NONE

    def _shard(self, replica: Replica) -> ShareShard:
        shard = self._shards.get(replica)
        if shard is None or shard.leader_epoch != replica.leader_epoch:
            shard = self._shards[replica] = ShareShard(self._context, replica, over=self._forget)
        shard.tidy()
        return shard

    def _forget(self, shard: ShareShard) -> None:
        if self._shards.get(shard.replica) is shard:  # not one of the next epoch
            del self._shards[shard.replica]

    def _forget_topic(self, name: str) -> None:
        """Ends the share partitions of a deleted topic."""
        topic = self._context.topics.named(SHARE_STATE_TOPIC)
        for partition in topic.partitions if topic is not None and name != SHARE_STATE_TOPIC else ():
            if partition.leader != NO_LEADER and partition.log.log_end_offset:
                self._shard(partition.leading).forget_topics()
