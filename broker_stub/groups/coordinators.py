"""The group coordinators of a cluster: for each partition of __consumer_offsets the broker that leads it.

A shard is the state of one partition under one leader. When the leader changes, waiting members get NOT_COORDINATOR. The next leader
reads the partition: the last assignment of each classic group, each consumer group, and their offsets. This file decides nothing about
groups.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from fencepost.broker_stub.cluster.coordinator_partition import coordinating, led_by
from fencepost.broker_stub.cluster.topics import OFFSETS_TOPIC
from fencepost.broker_stub.configs.group_configs import ASSIGNMENT_INTERVAL, HEARTBEAT_INTERVAL, SESSION_TIMEOUT
from fencepost.broker_stub.groups.classic.classic_protocol import ClassicGroups
from fencepost.broker_stub.groups.classic.rebalances import Surroundings
from fencepost.broker_stub.groups.consumer.classic_members import ClassicMembers
from fencepost.broker_stub.groups.consumer.consumer_protocol import ConsumerGroups, ConsumerSurroundings, Timeouts
from fencepost.broker_stub.groups.consumer.online_migration import MigrationPolicy
from fencepost.broker_stub.groups.offsets.offset_expiration import expire
from fencepost.broker_stub.groups.offsets.offsets import GroupOffsets
from fencepost.broker_stub.groups.share.share_protocol import ShareGroups, ShareSurroundings
from fencepost.broker_stub.groups.state.consumer_offsets_log import Store
from fencepost.broker_stub.replication.partition_state import NO_LEADER
from fencepost.broker_stub.replication.replica import Replica
from fencepost.broker_stub.share_partitions.coordinator.records import Key
from fencepost.producer.wire import ErrorCode

if TYPE_CHECKING:
    from uuid import UUID

    from fencepost.broker_stub.cluster.context import Context
    from fencepost.broker_stub.cluster.internal_append import Then
    from fencepost.broker_stub.share_partitions.coordinator.persister import Persister


class NotHere(Exception):
    """This broker does not coordinate the group."""

    code = ErrorCode.NOT_COORDINATOR


class Loading(NotHere):
    """This broker coordinates the group, and has not loaded the partition yet."""

    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class Shard:
    """The groups of one partition, under one leader. It watches the leader's replica until that leads no longer, and then calls `over`."""

    def __init__(
        self,
        replica: Replica,
        store: Store,
        groups: ClassicGroups,
        consumers: ConsumerGroups,
        shares: ShareGroups,
        offsets: GroupOffsets,
        *,
        now_ms: int,
        over: Callable[[Shard], object],
    ) -> None:
        self._over = over
        self.expired_at_ms = now_ms
        self.store = store
        self.groups = groups
        self.consumers = consumers
        self.classic_members = ClassicMembers(consumers)
        self.shares = shares
        self.offsets = offsets
        self.leader_epoch = replica.leader_epoch
        self.replica = replica
        replica.watchers[self] = None

    def grew(self, size_bytes: int) -> None:
        """Does nothing: the shard itself writes these records."""

    def changed(self) -> None:
        if self.replica.leader_epoch != self.leader_epoch or not self.replica.leads:
            self.replica.watchers.pop(self, None)
            self.leader_epoch = -1
            self._over(self)
            self.groups.unload()
            self.consumers.unload()
            self.shares.unload()


class GroupCoordinators:
    """Every shard of every broker. A shard is loaded at its first use."""

    def __init__(self, context: Context, persister: Persister) -> None:
        self._context = context
        self._persister = persister
        self._shards: dict[Replica, Shard] = {}
        config = context.config
        self._expire_every_ms = int(config["offsets.retention.check.interval.ms"])
        self._retention_ms = int(config["offsets.retention.minutes"]) * 60_000
        self._metadata_bytes_max = int(config["offset.metadata.max.bytes"])
        self._around = partial(
            Surroundings,
            new_id=context.new_id,
            initial_delay_ms=int(config["group.initial.rebalance.delay.ms"]),
            members_max=int(config["group.max.size"]),
            groups_outlive_offsets=context.release.differs.groups_outlive_offsets,
            groups_begin_with_offsets=context.release.differs.groups_begin_with_offsets,
        )

        self.assignors = [name.strip() for name in config["group.consumer.assignors"].split(",")]
        self._around_consumers = partial(
            ConsumerSurroundings,
            new_id=context.new_id,
            members_max=int(config["group.consumer.max.size"]),
            classic_members_max=int(config["group.max.size"]),
            policy=MigrationPolicy(config["group.consumer.migration.policy"].lower()),
            assignors=self.assignors,
        )

        context.on_topic_deleted.append(self.forget_topic)
        context.on_transaction_ended.append(self.end_transaction)

    def shard_for(self, group_id: str, node_id: int) -> Shard:
        """The shard of that group. Raises NotHere if this broker does not lead it."""
        replica = coordinating(self._context, node_id, OFFSETS_TOPIC, group_id)
        if replica is None:
            raise NotHere
        if self._context.loading_ms(replica):
            raise Loading
        return self._shard(replica)

    @property
    def loaded(self) -> list[Shard]:
        """Every shard that a broker has loaded."""
        return [*self._shards.values()]

    def shards_of(self, node_id: int) -> list[Shard]:
        """Every shard that this broker leads. Raises Loading while one is not loaded."""
        led = led_by(self._context, node_id, OFFSETS_TOPIC)
        if any(self._context.loading_ms(each) for each in led):
            raise Loading
        return [self._shard(each) for each in led]

    def committed(self, group_id: str, node_id: int) -> list[tuple[str, int]]:
        """The partitions in which that group has offsets. Empty where this broker does not coordinate it."""
        try:
            offsets = self.shard_for(group_id, node_id).offsets.every(group_id)
        except NotHere:
            return []
        return [(topic, index) for topic, committed in offsets for index in committed]

    def _timeouts(self, node_id: int, group_id: str) -> Timeouts:
        """What counts for a group on that broker now."""
        session, heartbeat, assignment = (
            int(self._context.group_config(group_id, name, node_id)) for name in (SESSION_TIMEOUT, HEARTBEAT_INTERVAL, ASSIGNMENT_INTERVAL)
        )
        return Timeouts(session, heartbeat, assignment)

    def end_transaction(self, replica: Replica, producer_id: int, *, commit: bool) -> None:
        """Ends a producer's transaction in that partition. A shard that has not read its log yet finds the marker there."""
        shard = self._shards.get(replica)
        if shard is not None and shard.leader_epoch == replica.leader_epoch:
            shard.store.end_transaction(producer_id, commit=commit)

    def forget_topic(self, name: str) -> None:
        """Deletes the offsets of a deleted topic."""
        topic = self._context.topics.named(OFFSETS_TOPIC)
        for partition in topic.partitions if topic is not None else ():
            if partition.leader != NO_LEADER and partition.log.log_end_offset:
                shard = self._shard(partition.leading)
                shard.groups.forget_offsets(shard.store.keys_of_topic(name))
                shard.shares.forget_topics()

    def _forget(self, shard: Shard) -> None:
        if self._shards.get(shard.replica) is shard:  # not one of the next epoch
            del self._shards[shard.replica]

    def _shard(self, replica: Replica) -> Shard:
        """The shard of the broker that leads, after removing expired offsets as often as Kafka does."""
        broker = self._context.brokers[replica.node]
        now_ms = broker.now_ms()
        shard = self._shards.get(replica)
        if shard is None or shard.leader_epoch != replica.leader_epoch:
            store = Store(self._context, replica)
            later = partial(self._context.later_on, replica.node)
            groups = ClassicGroups(store, self._around(later=later, now_ms=broker.now_ms))
            around = self._around_consumers(
                later=later, now_ms=broker.now_ms, topics=lambda: broker.image.topics, timeouts=partial(self._timeouts, replica.node)
            )
            consumers = ConsumerGroups(store, groups, around)
            offsets = GroupOffsets(store, groups, consumers, metadata_bytes_max=self._metadata_bytes_max)
            shares = ShareGroups(
                store,
                ShareSurroundings(
                    later=later,
                    now_ms=broker.now_ms,
                    topics=lambda: broker.image.topics,
                    config=partial(self._context.group_config, node_id=replica.node),
                    members_max=int(self._context.config["group.share.max.size"]),
                    other_type=lambda group_id: group_id in groups.groups or group_id in consumers.groups,
                    initialize=partial(self._initialize, replica.node),
                ),
            )
            shard = self._shards[replica] = Shard(replica, store, groups, consumers, shares, offsets, now_ms=now_ms, over=self._forget)
            return shard
        if now_ms - shard.expired_at_ms >= self._expire_every_ms:
            shard.expired_at_ms = now_ms
            expire(shard.groups, shard.consumers, shard.store, now_ms=now_ms, retention_ms=self._retention_ms)
        return shard

    def _initialize(
        self, node: int, group_id: str, topic_id: UUID, partition: int, *, state_epoch: int, start_offset: int, then: Then
    ) -> None:
        """Asks the share coordinator, in the name of that broker, to begin a share partition."""
        key = Key(group_id, topic_id, partition)
        self._persister.initialize(node, key, state_epoch=state_epoch, start_offset=start_offset, then=lambda answer: then(answer.code))
