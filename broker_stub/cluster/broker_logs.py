"""The logs that brokers create for their replicas, and what happens to replicas when a log directory fails (Kafka's
`ReplicaManager.handleLogDirFailure`, and the controller's `handleDirectoriesOffline`).

A broker with several log directories goes on without one that fails: the replicas in it are offline until it starts again. It halts with
the last one. The controller learns of it when the broker reaches it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from fencepost.broker_stub.cluster.log_dir import LogDir
from fencepost.broker_stub.cluster.log_dir_moves import LogDirMoves
from fencepost.broker_stub.cluster.topics import Topic
from fencepost.broker_stub.log import LogConfig, PartitionLog
from fencepost.broker_stub.log.config import OF_BROKERS
from fencepost.broker_stub.replication.replica import Replica
from fencepost.broker_stub.storage.disk_state import StorageFailed

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.broker import Broker
    from fencepost.broker_stub.cluster.context import Context

_log = logging.getLogger(__name__)


class BrokerLogs:
    """Those of one cluster. `kill`: ends a broker that halts."""

    def __init__(self, context: Context, *, kill: Callable[[int], None]) -> None:
        self._context = context
        self._kill = kill
        self.moves = LogDirMoves(context, disk_failed=self.disk_failed)

    def config(self, topic: Topic, node: int) -> LogConfig:
        """The configs that the topic's logs on that broker obey."""
        config = self._context.config
        return LogConfig.from_properties({**config.of_topic(topic.overrides, node), **{name: config.on(node, name) for name in OF_BROKERS}})

    def create(self, topic: Topic, index: int, nodes: Iterable[int], *, heard: bool = False) -> dict[int, PartitionLog]:
        """The log of each replica. If every disk fails, the replica is there all the same, as in Kafka, and the broker halts. The log
        follows when the broker is back. `heard`: a broker that hears late has heard of it now."""
        logs = dict[int, PartitionLog]()
        for node in nodes:
            config = self.config(topic, node)
            manager = self._context.brokers[node].logs
            if not heard and not self._context.hears(node):
                logs[node] = manager.unheard_of(config)
                continue
            try:
                logs[node] = manager.create((topic.name, index), topic_id=topic.id, config=config, failed=self.disk_failed)
            except StorageFailed as failed:
                logs[node] = manager.stand_in(config)
                self.disk_failed(failed)
        return logs

    def create_unheard_of(self, node: int) -> None:
        """Creates the logs that a broker has not heard of before."""
        logs = {**self._context.brokers[node].logs.logs}
        for topic in self._context.brokers[node].image.topics:
            for partition in topic.partitions:
                replica = partition.on(node)
                if replica is not None and not replica.is_offline and replica.log is not logs.get((topic.name, partition.index)):
                    replica.log = self.create(topic, partition.index, [node], heard=True)[node]

    def delete(self, replica: Replica) -> None:
        """The replica has left its partition: its log and its future log are deleted."""
        self.moves.forget(replica)
        partition = replica.partition
        self._context.brokers[replica.node].logs.delete((partition.topic, partition.index), partition.topic_id)

    def restart(self, node: int) -> None:
        """The broker starts with the logs that it has. Replicas in a directory whose disk still fails are offline."""
        broker = self._context.brokers[node]
        mine = [partition for partition in self._context.every_partition() if node in partition.replicas]
        keys = [(each.topic, each.index) for each in mine]
        logs = [broker.logs.restart(key, topic_id=each.topic_id, config=each.log.config) for key, each in zip(keys, mine, strict=True)]
        broker.logs.started()
        offline = broker.logs.offline_keys
        for key, partition, log in zip(keys, mine, logs, strict=True):
            if key in offline:
                partition.take_offline(node, log)
                partition.lose_directory(node)
        broker.start()
        for key, partition, log in zip(keys, mine, logs, strict=True):
            if key not in offline:
                partition.regain(node, log, killed=broker.killed)
        self.moves.resume(node)

    def disk_failed(self, failed: StorageFailed) -> None:
        """What is on that disk is offline after the request at hand. A broker without another log directory halts, and so do all if the
        controller cannot write what it decides: nothing may follow from it."""
        if not failed.node_id:
            for broker in self._context.brokers.values():
                self._halt(broker, failed)
            return
        broker = self._context.brokers[failed.node_id]
        found = broker.logs.dir_on(failed.disk)
        if len(broker.logs.dirs) == 1:
            self._halt(broker, failed)
        elif found is not None and not found.is_offline and broker.alive:
            self._context.later_on(broker.node_id, 0, partial(self._take_offline, broker, found, failed))

    def report(self, node: int) -> None:
        """The broker reaches the controller, which learns which of its replicas are offline."""
        logs = self._context.brokers[node].logs
        if len(logs.online) < len(logs.dirs) and self._context.reaches_controller(node):
            for partition in self._context.every_partition():
                replica = partition.on(node)
                if replica is not None and replica.is_offline:
                    partition.lose_directory(node)

    def _take_offline(self, broker: Broker, log_dir: LogDir, failed: StorageFailed) -> None:
        if not broker.alive or log_dir.is_offline:
            return
        if broker.logs.online == [log_dir]:
            self._halt(broker, failed)
            return
        _log.error("broker %d takes %s offline: %s", broker.node_id, log_dir.path, failed.strerror)
        log_dir.failed()
        self.moves.directory_failed(broker.node_id, log_dir)
        for key, log in log_dir.logs.items():
            partition = self._context.known(broker.node_id, *key)
            if partition is not None and partition.logs.get(broker.node_id) is log:
                partition.take_offline(broker.node_id, broker.logs.stand_in(log.config))
        self.report(broker.node_id)

    def _halt(self, broker: Broker, failed: StorageFailed) -> None:
        if broker.alive and not broker.halts:
            broker.halts = True
            _log.error("broker %d halts: %s", broker.node_id, failed.strerror)
            self._context.soon(partial(self._kill, broker.node_id))
