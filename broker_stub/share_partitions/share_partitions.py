"""The share partitions and share sessions of every broker (Kafka's SharePartitionManager).

What a broker has ends with it. This file decides nothing about records.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fencepost.broker_stub.cluster.current_leader import leadership_error
from fencepost.broker_stub.share_partitions.coordinator.persister import Persister
from fencepost.broker_stub.share_partitions.coordinator.records import Key
from fencepost.broker_stub.share_partitions.live_partition import LivePartition
from fencepost.broker_stub.share_partitions.sessions import ShareSessions
from fencepost.broker_stub.share_partitions.states import ShareRefused
from fencepost.producer.wire import ErrorCode

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.cluster import Cluster


class BrokerShares:
    """What one broker has, from a start to its stop."""

    def __init__(self, cluster: Cluster, persister: Persister, node: int) -> None:
        self._cluster = cluster
        self._persister = persister
        self._node = node
        self.generation = cluster.brokers[node].generation
        self.sessions = ShareSessions(limit=int(cluster.config["group.share.max.share.sessions"]))
        self._partitions: dict[Key, LivePartition] = {}

    def find(self, key: Key) -> LivePartition | None:
        return self._partitions.get(key)

    def find_or_load(self, key: Key, topic: str) -> LivePartition:
        """Raises ShareRefused if the broker does not lead the partition, or if it could not be loaded."""
        live = self._partitions.get(key)
        if live is None:
            partition = self._cluster.known(self._node, topic, key.partition)
            replica = partition.on(self._node) if partition is not None else None
            code = leadership_error(partition, replica)
            if code or replica is None:
                raise ShareRefused(ErrorCode(code))
            live = self._partitions[key] = LivePartition(self._cluster, self._persister, key, replica, over=self._ended)
            live.load()
        if live.failure is not None:
            raise live.failure
        return live

    def release(self, group_id: str, member_id: str) -> None:
        """Ends the member's session, and releases what it has."""
        session = self.sessions.remove(group_id, member_id)
        for each in session.partitions if session is not None else ():
            live = self.find(Key(group_id, each.topic_id, each.partition))
            if live is not None:
                live.release(member_id)

    def disconnected(self, connection_id: int) -> None:
        """Ends the session that this connection opened. The last one of a group ends its share partitions here, too."""
        session, is_open = self.sessions.disconnected(connection_id)
        if session is None:
            return
        if is_open:
            self.release(session.group_id, session.member_id)
        if not self.sessions.has_members(session.group_id):
            for live in [each for each in self._partitions.values() if each.key.group_id == session.group_id]:
                live.end()

    def stop(self) -> None:
        for live in [*self._partitions.values()]:
            live.end()

    def _ended(self, live: LivePartition) -> None:
        if self._partitions.get(live.key) is live:
            del self._partitions[live.key]


class SharePartitions:
    """Of one cluster."""

    def __init__(self, cluster: Cluster, persister: Persister) -> None:
        self._cluster = cluster
        self._persister = persister
        self._brokers: dict[int, BrokerShares] = {}
        for node, broker in cluster.brokers.items():
            broker.on_disconnected.append(partial(self._disconnected, node))

    def at(self, node: int) -> BrokerShares:
        """What that broker has in its present life."""
        found = self._brokers.get(node)
        if found is None or found.generation != self._cluster.brokers[node].generation:
            if found is not None:
                found.stop()
            found = self._brokers[node] = BrokerShares(self._cluster, self._persister, node)
        return found

    def _disconnected(self, node: int, connection_id: int) -> None:
        if node in self._brokers:
            self.at(node).disconnected(connection_id)
