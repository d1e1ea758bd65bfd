"""The group coordinators of a cluster: for each partition of __consumer_offsets the broker that leads it.

A shard is what the leader of one partition knows. When the leader changes, everybody who waits is told NOT_COORDINATOR, and the next
leader begins with what its predecessor would have written down: the last assignment of each group and its offsets. It decides nothing
about groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from broker_stub.coordinators.classic import ClassicGroups
from broker_stub.coordinators.offsets import GroupOffsets
from broker_stub.coordinators.placement import partition_for
from broker_stub.coordinators.rebalances import Surroundings
from broker_stub.coordinators.store import Store
from broker_stub.partitions import NO_LEADER, Partition
from broker_stub.topics import OFFSETS_TOPIC
from producer.wire import ErrorCode

if TYPE_CHECKING:
    from broker_stub.cluster import Cluster


class NotHere(Exception):
    """This broker does not coordinate the group."""

    code = ErrorCode.NOT_COORDINATOR


class Shard:
    """The groups of one partition, under one leader. It waits at the partition to hear of the next one."""

    def __init__(self, partition: Partition, groups: ClassicGroups, offsets: GroupOffsets) -> None:
        self.groups = groups
        self.offsets = offsets
        self.leader_epoch = partition.leader_epoch
        self.partition = partition
        partition.waiting[self] = None

    def grew(self, size_bytes: int) -> None:
        """What is in the partition is of no interest."""

    def disturbed(self) -> None:
        if self.partition.leader_epoch != self.leader_epoch or self.partition.leader == NO_LEADER:
            self.partition.waiting.pop(self, None)
            self.leader_epoch = -1
            self.groups.unload()


class GroupCoordinators:
    """Every shard of the cluster, loaded when it is first asked for."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._stores: dict[tuple[UUID, int], Store] = {}
        self._shards: dict[tuple[UUID, int], Shard] = {}
        config = cluster.config
        self._metadata_bytes_max = int(config["offset.metadata.max.bytes"])
        self._around = Surroundings(
            timers=cluster.timers,
            now_ms=cluster.now_ms,
            new_id=cluster.new_id,
            initial_delay_ms=int(config["group.initial.rebalance.delay.ms"]),
            members_max=int(config["group.max.size"]),
        )

    def shard_for(self, group_id: str, node_id: int) -> Shard:
        """The shard of that group, if this broker leads it; raises NotHere if not."""
        topic = self._cluster.topics.named(OFFSETS_TOPIC)
        if topic is None:
            raise NotHere
        partition = topic.partitions[partition_for(group_id, len(topic.partitions))]
        if partition.leader != node_id:
            raise NotHere
        return self._shard(partition)

    def shards_of(self, node_id: int) -> list[Shard]:
        """Every shard that this broker leads."""
        topic = self._cluster.topics.named(OFFSETS_TOPIC)
        return [self._shard(each) for each in topic.partitions if each.leader == node_id] if topic is not None else []

    def end_transaction(self, partition: Partition, producer_id: int, *, commit: bool) -> None:
        """That partition of the offsets topic has the marker of a producer's transaction."""
        store = self._stores.get((partition.topic.id, partition.index))
        if store is not None:
            store.end_transaction(producer_id, commit=commit)

    def forget_topic(self, topic: str) -> None:
        """Offsets of a deleted topic are deleted with it."""
        for store in self._stores.values():
            store.forget_topic(topic)

    def _shard(self, partition: Partition) -> Shard:
        key = (partition.topic.id, partition.index)
        shard = self._shards.get(key)
        if shard is None or shard.leader_epoch != partition.leader_epoch:
            store = self._stores.setdefault(key, Store())
            groups = ClassicGroups(store, self._around)
            offsets = GroupOffsets(store, groups, metadata_bytes_max=self._metadata_bytes_max)
            shard = self._shards[key] = Shard(partition, groups, offsets)
        return shard
