"""The replica of one broker: its log, and what the broker knows about the partition (Kafka's `Partition`, which each broker has).

The leader appends. Followers fetch from it (`replica_fetcher`), and each fetch tells the leader what its follower has
(`remote_replica`). What every in-sync replica has is below the high watermark. A follower learns the high watermark with its next fetch.

A follower that does not fetch stays behind, and holds back the high watermark while it is in the ISR. The leader asks the controller to
remove it after replica.lag.time.max.ms, and to add it when its log reaches the high watermark and the start of the leader's epoch. The high
watermark waits for a follower that is about to join, so that it can.

A leader that the controller cannot reach still serves clients. Its ISR stays. Its high watermark stops once its followers fetch from the
new leader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from fencepost.broker_stub.log import AppendRefused, AppendResult, LogConfig, Origin, PartitionLog
from fencepost.broker_stub.log.partition_log import PRODUCE_VERSION
from fencepost.broker_stub.replication.partition_state import NO_LEADER, PartitionState, min_isr
from fencepost.broker_stub.replication.remote_replica import UNKNOWN, RemoteReplica
from fencepost.broker_stub.storage.disk_state import StorageFailed
from fencepost.producer.wire.codes import ErrorCode

EXPIRY_CHECK_MS = 600_000  # producer.id.expiration.check.interval.ms


class Watcher(Protocol):
    """A delayed operation or a coordinator's shard, which the replica tells of its changes."""

    def grew(self, size_bytes: int) -> None:
        """So many bytes were appended and can be read."""
        ...

    def changed(self) -> None:
        """The leader changed, the high watermark moved, or the replica was deleted."""
        ...


class Registration(Protocol):
    """The partition, at the controller."""

    topic: str
    topic_id: UUID
    topic_config: Mapping[str, str]
    index: int

    def on(self, node: int) -> Replica | None:
        """The replica of that broker."""
        ...

    def alter_isr(self, node: int, isr: Sequence[int]) -> bool:
        """The leader asks for another ISR."""
        ...


class Fetchers(Protocol):
    """What the followers fetch."""

    def follow(self, replica: Replica) -> None:
        """The replica fetches from its leader in its present epoch."""
        ...

    def forget(self, replica: Replica) -> None:
        """It does not fetch any more."""
        ...


class Surroundings(Protocol):
    """What a replica needs of its cluster."""

    @property
    def fetchers(self) -> Fetchers:
        """What the followers fetch."""
        ...

    def known_live(self, node: int) -> list[int]:
        """The brokers that are up and not fenced, as far as that broker knows."""
        ...

    @property
    def now_ms(self) -> Callable[[], int]:
        """The clock."""
        ...

    @property
    def lag_max_ms(self) -> int:
        """The broker config replica.lag.time.max.ms."""
        ...

    def reaches_controller(self, node: int) -> bool:
        """Whether the controller answers that broker."""
        ...

    def watch_lag(self) -> None:
        """A follower may be behind, so its leader must look at its ISR."""
        ...

    def soon(self, run: Callable[[], None]) -> None:
        """Runs it in the next tick."""
        ...

    def disk_failed(self, failed: StorageFailed) -> None:
        """The log directory on that disk goes offline. A broker without another one halts."""
        ...

    def leads(self, replica: Replica) -> None:
        """The replica leads now, in a new epoch."""
        ...


class Replica:
    """The replica of broker `node`. `known`: what the broker last heard about the partition; None: nothing, or the broker is down.
    `changes` counts what a follower can learn by a fetch. `future`: the log that is to take the place of `log`, from another log directory.
    `is_offline`: its log directory failed, until the broker starts again; `log` is an empty one then."""

    __slots__ = (
        "_cluster",
        "_epoch_start",
        "_expired_at_ms",
        "_leads_since",
        "_remotes",
        "asking",
        "changes",
        "future",
        "is_offline",
        "isr",
        "known",
        "leader",
        "leader_epoch",
        "led_since_ms",
        "log",
        "node",
        "partition",
        "watchers",
    )

    def __init__(self, partition: Registration, node: int, log: PartitionLog, cluster: Surroundings) -> None:
        self.partition = partition
        self.node = node
        self.log = log
        self.future: PartitionLog | None = None
        self.is_offline = False
        self.known: PartitionState | None = None
        self.isr: list[int] = []
        self.leader = NO_LEADER
        self.leader_epoch = -1
        self.asking: Sequence[int] = ()  # the ISR for which it has asked the controller, until it hears what became of that
        self.watchers: dict[Watcher, None] = {}  # in the order of their arrival
        self.changes = 0
        self.led_since_ms = 0  # when its leader epoch began
        self._cluster = cluster
        self._leads_since = 0  # the epoch in which it became the leader; when replicas leave, an epoch begins with the same leader
        self._epoch_start = 0  # where the log ended when this leader epoch began
        self._remotes: dict[int, RemoteReplica] = {}  # what the leader knows about the other replicas
        self._expired_at_ms = cluster.now_ms()

    def __str__(self) -> str:
        return f"{self.partition} of broker {self.node}"

    @property
    def leads(self) -> bool:
        """Whether it leads, as far as its broker knows."""
        return self.leader == self.node

    @property
    def min_isr(self) -> int:
        """How many in-sync replicas a write needs, as far as its broker knows."""
        return min_isr(self.partition.topic_config, len(self.known.replicas) if self.known is not None else 1)

    @property
    def high_watermark_lags(self) -> bool:
        """Whether the leader does not know yet that everything from before its epoch is replicated."""
        return self.leads and self.log.high_watermark < self._epoch_start

    @property
    def low_watermark(self) -> int:
        """The smallest log start of the live replicas and its future log, as the leader knows them (`Partition.lowWatermarkIfLeader`)."""
        live = self._cluster.known_live(self.node)
        own = [each.log_start_offset for each in (self.log, self.future) if each is not None]
        return min([*own, *(each.log_start_offset for node, each in self._remotes.items() if node in live)])

    def hear(self, state: PartitionState) -> None:
        """Learns what the controller decided (`Partition.makeLeader` and `makeFollower`). An offline replica learns nothing."""
        if self.is_offline:
            return
        was, self.known = self.known, state
        if state is not was:
            self.asking = ()
        led, begins = self.leads, was is None or was.leader_epoch != state.leader_epoch
        self.leader, self.leader_epoch, self.isr = state.leader, state.leader_epoch, state.isr
        if self.leads:
            self._know_others({} if begins and not led else self._remotes)
            if begins:
                self._begin_epoch(new_leader=not led)
        else:
            self._remotes = {}
        if self.leader in (NO_LEADER, self.node):
            self._cluster.fetchers.forget(self)
        else:
            self._cluster.fetchers.follow(self)
        self._replicate()
        if begins:
            self.tell_changed()

    def stop(self) -> None:
        """Its broker went down, or it left the partition."""
        self._cluster.fetchers.forget(self)
        self.asking = ()
        self.known, self.leader, self.leader_epoch, self.isr, self._remotes = None, NO_LEADER, -1, [], {}
        self.tell_changed()

    def look_again(self) -> None:
        """A follower may be gone for which the high watermark waits, though it is not in the ISR."""
        self._replicate()

    def refused(self, isr: Sequence[int]) -> None:
        """The controller has refused its request for that ISR."""
        if self.asking is isr:
            self.asking = ()
            self._replicate()

    def go_offline(self, stand_in: PartitionLog) -> None:
        """Its log directory failed (`Partition.markOffline`)."""
        self.is_offline, self.log, self.future = True, stand_in, None
        self.stop()

    def regain(self, log: PartitionLog) -> None:
        """Its broker is up again, with that log."""
        self.is_offline, self.log, self.future = False, log, None

    def move_to(self, log: PartitionLog) -> None:
        """The future log has taken the place of the log."""
        self.log, self.future = log, None
        self.tell_changed()

    def forget(self, node: int) -> None:
        """Forgets what a follower had: its broker went down, and may come back with less."""
        if node in self._remotes:
            self._remotes[node] = RemoteReplica(caught_up_ms=0)
            self._replicate()

    def fetched(self, node: int, offset: int, log_start_offset: int) -> None:
        """Notes that a follower fetched from that offset on (`Partition.updateFollowerFetchState`). It may join the ISR by that, or move
        the high watermark."""
        remote, log = self._remotes.get(node), self.log
        if remote is None:
            return
        moved = log_start_offset > remote.log_start_offset >= 0
        remote.fetched(offset, log_start_offset, leader_end=log.log_end_offset, now_ms=self._cluster.now_ms())
        if moved:
            self.tell_changed()  # a DeleteRecords may wait for it
        if node not in self.isr and offset >= max(log.high_watermark, self._epoch_start) and node in self._cluster.known_live(self.node):
            self.partition.alter_isr(self.node, [*self.isr, node])
        self._replicate()

    def fell_silent(self, node: int) -> None:
        """Notes that the fetches of a follower do not arrive any more."""
        if node in self._remotes:
            self._remotes[node].fell_silent(self.log.log_end_offset, self._cluster.now_ms())

    def shrink_isr(self, *, lag_max_ms: int) -> bool:
        """Asks to remove followers from the ISR that have not caught up for that long. The high watermark does not wait for them any more.
        Returns whether it must be looked at again, because a follower in the ISR is behind."""
        if not self.leads:
            return False
        end, now_ms = self.log.log_end_offset, self._cluster.now_ms()
        behind = {node: each for node, each in self._remotes.items() if node in self.isr and (each.end_offset != end or each.silent)}
        joins = any(each.end_offset != end and node not in self.isr and self._may_join(node, each) for node, each in self._remotes.items())
        overdue = [node for node, each in behind.items() if each.end_offset != end and now_ms - each.caught_up_ms > lag_max_ms]
        if overdue and self.partition.alter_isr(self.node, [node for node in self.isr if node not in overdue]):
            self.tell_changed()
            return joins or len(overdue) < len(behind)
        self._replicate()  # a follower that did not join is not waited for any more
        return joins or bool(behind)

    def append(
        self,
        data: bytes | memoryview,
        *,
        origin: Origin,
        request_version: int = PRODUCE_VERSION,
        transaction_version: int = 0,
        guard: int | None = None,
    ) -> AppendResult:
        """`PartitionLog.append`, as the leader."""
        before = self.log.log_end_offset
        try:
            result = self.log.append(
                data,
                origin=origin,
                leader_epoch=self.leader_epoch,
                request_version=request_version,
                transaction_version=transaction_version,
                guard=guard,
            )
        except StorageFailed as failed:
            self._cluster.disk_failed(failed)
            raise AppendRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(failed), rule="disk") from failed
        if result.batches:
            self.changes += 1
            for remote in self._remotes.values():
                remote.leader_grows(before, self._cluster.now_ms())
            if len(self.isr) == 1:
                self._raise_high_watermark()
        return result

    def advance_log_start(self, offset: int) -> None:
        """`PartitionLog.advance_log_start`, as the leader. The followers learn of it with their next fetch."""
        self.log.advance_log_start(offset)
        self.tell_changed()

    def delete_old_segments(self) -> int:
        """`PartitionLog.delete_old_segments`. As in Kafka, not while the log moves to another directory."""
        if self.future is not None:
            return 0
        start = self.log.log_start_offset
        deleted = self.log.delete_old_segments()
        if self.log.log_start_offset != start:
            self.tell_changed()
        return deleted

    def replicated(self, end_offset: int, leader_epoch: int) -> ErrorCode | None:
        """The code for a batch that it wrote in that leader epoch and that ends before that offset. None: an in-sync replica still lacks
        it."""
        if self.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if leader_epoch < self._leads_since or not self.leads:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < end_offset:
            return None
        return ErrorCode.NONE if len(self.isr) >= self.min_isr else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def configure(self, config: LogConfig) -> None:
        """Sets the log's configs, and obeys a new min.insync.replicas."""
        self.log.config = config
        self._replicate()

    def expire_producers(self) -> None:
        """Removes idle producers, as often as Kafka does. Call this before each look at the log's producers."""
        now_ms = self._cluster.now_ms()
        if now_ms - self._expired_at_ms >= EXPIRY_CHECK_MS:
            self._expired_at_ms = now_ms
            self.log.expire_producers()

    def tell_grown(self, size_bytes: int) -> None:
        for each in tuple(self.watchers):
            each.grew(size_bytes)

    def tell_changed(self) -> None:
        self.changes += 1
        for each in tuple(self.watchers):
            each.changed()

    def _know_others(self, known: dict[int, RemoteReplica]) -> None:
        """A new leader knows nothing of what the others have."""
        assert self.known is not None
        now_ms, others = self._cluster.now_ms(), [node for node in self.known.replicas if node != self.node]
        self._remotes = {node: known.get(node) or RemoteReplica(caught_up_ms=now_ms if node in self.isr else 0) for node in others}

    def _begin_epoch(self, *, new_leader: bool) -> None:
        if new_leader:
            self._leads_since = self.leader_epoch
        self._epoch_start, self.led_since_ms = self.log.log_end_offset, self._cluster.now_ms()
        try:
            self.log.lead(self.leader_epoch)
        except StorageFailed as failed:
            self._cluster.disk_failed(failed)
        self._cluster.leads(self)

    def _replicate(self) -> None:
        """Raises the high watermark to what every in-sync replica has, and tells the watchers. A log without followers raises its own."""
        self.log.replicated_at_once = self.known is not None and len(self.known.replicas) == 1 and len(self.isr) >= self.min_isr
        if self._raise_high_watermark():
            self.tell_changed()

    def _raise_high_watermark(self) -> bool:
        """Raises it while the in-sync replicas are enough (KIP-966); whether it moved (`Partition.maybeIncrementLeaderHW`)."""
        log = self.log
        if not self.leads or len(self.isr) < self.min_isr:
            return False
        before, end = log.high_watermark, log.log_end_offset
        for node, remote in self._remotes.items():
            if remote.end_offset < end and (node in self.isr or node in self.asking or self._may_join(node, remote)):
                end = remote.end_offset
        log.advance_high_watermark(end)
        return log.high_watermark > before

    def _may_join(self, node: int, remote: RemoteReplica) -> bool:
        """Whether a follower outside the ISR keeps up, and the controller lets it join (`isReplicaIsrEligible`)."""
        if remote.end_offset == UNKNOWN or self._cluster.now_ms() - remote.caught_up_ms > self._cluster.lag_max_ms:
            return False
        return node in self._cluster.known_live(self.node)
