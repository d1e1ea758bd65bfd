"""Moves of replicas between the log directories of their brokers (Kafka's `ReplicaAlterLogDirsManager` and its threads).

A future log in the new directory is filled from the current one in slices, each in a tick, and takes its place when it has everything.
Neither is compacted or shortened by retention meanwhile. A move whose broker stops goes on when it starts. One whose directory fails ends.
As in Kafka, the controller must hear of the new directory before the log is there.

Moves take no time on the stub's clock, unless the broker has a limit of bytes per second.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from fencepost.broker_stub.cluster.log_dir import Key, LogDir
from fencepost.broker_stub.log import AppendRefused
from fencepost.broker_stub.replication.log_copy import LogCopy
from fencepost.broker_stub.replication.replica import Replica
from fencepost.broker_stub.storage.disk_state import StorageFailed
from fencepost.producer.wire.records import CorruptBatch

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.context import Context
    from fencepost.broker_stub.cluster.timers import Timer

UNHEARD_MS: Final = 500
"""How long a move that is complete waits before it tells the controller again."""

WAIT_MS_MAX: Final = 11_000
"""How long a move waits at most for its limit: Kafka looks back that far, with the default replication.quota windows."""

_log = logging.getLogger(__name__)


class LogDirMoves:
    """Those of one cluster. `disk_failed`: a log directory goes offline."""

    def __init__(self, context: Context, *, disk_failed: Callable[[StorageFailed], None]) -> None:
        self._context = context
        self._disk_failed = disk_failed
        self._moves: dict[Replica, _Move] = {}

    def __len__(self) -> int:
        return len(self._moves)

    def begin(self, replica: Replica, target: LogDir) -> None:
        """Begins to move the replica to that directory, where it is not yet. Raises StorageFailed."""
        key, topic_id = _key(replica), replica.partition.topic_id
        replica.future = target.create_future(key, topic_id=topic_id, config=replica.log.config)
        self._context.brokers[replica.node].logs.preferred.pop(key, None)
        self._go_on(replica)

    def cancel(self, replica: Replica) -> None:
        """The replica stays where it is: its future log is deleted."""
        self.forget(replica)
        replica.future = None
        logs, key = self._context.brokers[replica.node].logs, _key(replica)
        found = logs.dir_of_future(key)
        if found is not None:
            found.delete_future(key, replica.partition.topic_id)

    def forget(self, replica: Replica) -> None:
        """The replica has left its partition."""
        move = self._moves.pop(replica, None)
        if move is not None and move.timer is not None:
            move.timer.cancel()

    def limit(self, node: int, bytes_per_second: int | None) -> None:
        """From now on the moves of that broker copy no more; None: as much as they can."""
        self._context.brokers[node].move_bytes_per_second = bytes_per_second
        for replica in self._of(node):
            self._soon(replica, self._moves[replica])

    def stopped(self, node: int) -> None:
        """The broker is down."""
        for replica in self._of(node):
            self.forget(replica)

    def resume(self, node: int) -> None:
        """The broker is up again: moves that it had begun go on."""
        for log_dir in self._context.brokers[node].logs.online:
            for key, future in [*log_dir.futures.items()]:
                replica = self._context.replica(node, *key)
                if replica is not None and not replica.is_offline:
                    replica.future = future
                    self._go_on(replica)

    def directory_failed(self, node: int, log_dir: LogDir) -> None:
        """Ends the moves to a directory that failed. Future logs of replicas that were in it stay until the broker starts again."""
        for replica in self._of(node):
            key = _key(replica)
            if key in log_dir.futures or key in log_dir.logs:
                self.forget(replica)
                replica.future = None
        log_dir.futures.clear()

    def _go_on(self, replica: Replica) -> None:
        assert replica.future is not None
        move = self._moves[replica] = _Move(LogCopy(replica.log, replica.future))
        self._soon(replica, move)

    def _of(self, node: int) -> list[Replica]:
        return [replica for replica in self._moves if replica.node == node]

    def _soon(self, replica: Replica, move: _Move, delay_ms: int = 0) -> None:
        if move.timer is not None:
            move.timer.cancel()
        move.timer = self._context.later_on(replica.node, delay_ms, partial(self._proceed, replica, move))

    def _proceed(self, replica: Replica, move: _Move) -> None:
        if self._moves.get(replica) is not move:
            return  # it ended while its broker was paused
        copy = move.copy
        config, limit = self._context.config, self._context.brokers[replica.node].move_bytes_per_second
        slice_bytes = int(config["replica.fetch.max.bytes"])
        try:
            copied = copy.proceed(slice_bytes if limit is None else min(slice_bytes, limit))
            if not copy.is_complete:
                self._soon(replica, move, 0 if limit is None else min(copied * 1000 // max(limit, 1), WAIT_MS_MAX))
            elif not self._context.reaches_controller(replica.node):
                self._soon(replica, move, UNHEARD_MS)
            else:
                self._finish(replica, copy)
        except StorageFailed as failed:
            self._disk_failed(failed)
        except (AppendRefused, CorruptBatch, ValueError) as damaged:
            _log.error("%s cannot be copied to another log directory: %s", replica, damaged)
            self._soon(replica, move, int(config["replica.fetch.backoff.ms"]))

    def _finish(self, replica: Replica, copy: LogCopy) -> None:
        """The future log takes the place. If a disk fails before that, the replica stays where it is."""
        try:
            copy.finish()
            failed = self._context.brokers[replica.node].logs.promote(_key(replica), replica.partition.topic_id)
        except StorageFailed:
            self.cancel(replica)
            raise
        self.forget(replica)
        replica.move_to(copy.future)
        if failed is not None:
            self._disk_failed(failed)


class _Move:
    """A move, and the timer of its next slice."""

    __slots__ = ("copy", "timer")

    def __init__(self, copy: LogCopy) -> None:
        self.copy = copy
        self.timer: Timer | None = None


def _key(replica: Replica) -> Key:
    return replica.partition.topic, replica.partition.index
