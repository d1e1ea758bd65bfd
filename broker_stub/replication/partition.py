"""One partition across its brokers: its replicas, each with a log, its leader and leader epoch, and its in-sync replicas.

The leader appends. Followers fetch from it (`replica_fetcher`), and each fetch tells the leader what its follower has
(`remote_replica`). What every in-sync replica has is below the high watermark. A follower learns the high watermark with its next fetch.

A follower that does not fetch stays behind, and holds back the high watermark while it is in the ISR. The leader removes it from the ISR
after replica.lag.time.max.ms. It joins again when its log reaches the high watermark and the start of the leader's epoch.

A replica that leaves the ISR while this has fewer than min.insync.replicas becomes eligible to lead (KIP-966). It has every
acknowledged record, because the high watermark stands still from then on. A kill ends its eligibility, because it may have lost records.

A partition without a live replica that is in sync or eligible has no leader. It gets one when the last leader is back and no other
replica is eligible, or by an unclean election: through unclean.leader.election.enable or by an administrator. An unclean election loses
the records that the new leader lacks. Before Kafka 4.1 no replica is ever eligible; the last in-sync replica stays in the ISR instead.

An administrator can give it other replicas. The old ones leave when the new ones are in the ISR (`reassignment`): a leader epoch begins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol
from uuid import UUID

import msgspec

from fencepost.broker_stub.log import AppendRefused, AppendResult, LogConfig, Origin, PartitionLog
from fencepost.broker_stub.log.partition_log import PRODUCE_VERSION
from fencepost.broker_stub.replication.reassignment import Assignment, without
from fencepost.broker_stub.replication.remote_replica import RemoteReplica
from fencepost.broker_stub.storage.disk_state import StorageFailed
from fencepost.producer.wire.codes import ErrorCode

NO_LEADER = -1
EXPIRY_CHECK_MS = 600_000  # producer.id.expiration.check.interval.ms


class Watcher(Protocol):
    """A delayed operation or a coordinator's shard, which the partition tells of its changes."""

    def grew(self, size_bytes: int) -> None:
        """So many bytes were appended and can be read."""
        ...

    def changed(self) -> None:
        """The leader changed, the high watermark moved, or the partition was deleted."""
        ...


class PartitionState(msgspec.Struct, frozen=True, tag="partition", tag_field="type"):
    """What the controller decides about a partition, and what lasts when every broker is down."""

    topic_id: UUID
    index: int
    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int
    isr: list[int]
    eligible: list[int]
    last_leader: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def assignment(self) -> Assignment:
        return Assignment(self.replicas, self.adding, self.removing)


class Fetchers(Protocol):
    """What the followers fetch."""

    def follow(self, partition: Partition, follower: int) -> None:
        """The follower fetches from the partition's leader in its present epoch."""
        ...

    def forget(self, partition: Partition, follower: int) -> None:
        """The follower does not fetch it any more."""
        ...


class Partition:
    """One partition of the topic of that name. Only its cluster changes it.

    `logs`: each replica's, by its broker, in the order in which they are preferred as leaders. `save` is called after each change of the
    leader, the ISR or the replicas, before anything follows from it, `halt` when a broker's disk fails, `delete_log` with the broker of
    each replica that left, and `joined` when a replica has joined the ISR during a reassignment. `changes` counts what a follower can
    learn by a fetch. Without `leader_epochs` a follower truncates to its high watermark, as before Kafka 0.11.
    """

    __slots__ = (
        "_clock_ms",
        "_delete_log",
        "_epoch_start",
        "_expired_at_ms",
        "_fetchers",
        "_halt",
        "_has_eligible",
        "_joined",
        "_leads_since",
        "_newest",
        "_remotes",
        "_save_state",
        "assignment",
        "changes",
        "eligible",
        "index",
        "isr",
        "last_leader",
        "leader",
        "leader_epoch",
        "leader_epochs",
        "logs",
        "topic",
        "topic_config",
        "topic_id",
        "watchers",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        *,
        topic_id: UUID,
        topic_config: Mapping[str, str],
        logs: Mapping[int, PartitionLog],
        clock_ms: Callable[[], int],
        fetchers: Fetchers,
        has_eligible: bool = True,
        leader_epochs: bool = True,
        save: Callable[[PartitionState], object] = lambda _: None,
        halt: Callable[[StorageFailed], None],
        delete_log: Callable[[int], object] = lambda _: None,
        joined: Callable[[], object] = lambda: None,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.topic_config = topic_config
        self.index = index
        self.assignment = Assignment(tuple(logs))
        self.isr = list(logs)
        self.eligible: list[int] = []  # may lead, though not in sync
        self.last_leader = NO_LEADER  # the leader when the last replica left the ISR, until there is another
        self.leader = NO_LEADER
        self.leader_epoch = -1
        self._leads_since = 0  # the epoch in which this leader was elected; when replicas leave, an epoch begins with the same leader
        self.logs = dict(logs)
        for log in self.logs.values():
            log.replicated_at_once = len(logs) == 1
        self.watchers: dict[Watcher, None] = {}  # in the order of their arrival
        self._clock_ms = clock_ms
        self._expired_at_ms = clock_ms()
        self._newest = self.replicas[0]  # the leader, or without one the last leader
        self._epoch_start = 0  # where the log ended when this leader epoch began
        self._remotes: dict[int, RemoteReplica] = {}  # what the leader knows about the other replicas
        self._fetchers = fetchers
        self._has_eligible = has_eligible
        self._joined = joined
        self.changes = 0
        self.leader_epochs = leader_epochs
        self._save_state = save
        self._halt = halt
        self._delete_log = delete_log

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def replicas(self) -> tuple[int, ...]:
        """Its brokers, in the order in which they are preferred as leaders."""
        return self.assignment.replicas

    @property
    def log(self) -> PartitionLog:
        """The leader's log; without a leader that of the last one."""
        return self.logs[self._newest]

    @property
    def min_isr(self) -> int:
        """min.insync.replicas, capped by the number of replicas (KIP-966)."""
        return min(int(self.topic_config["min.insync.replicas"]), len(self.replicas))

    @property
    def elects_unclean(self) -> bool:
        """Whether a replica that is not in sync may become leader without an administrator."""
        return self.topic_config["unclean.leader.election.enable"].lower() == "true"

    @property
    def high_watermark_lags(self) -> bool:
        """Whether the leader does not know yet that everything from before its epoch is replicated."""
        return self.leader != NO_LEADER and self.log.high_watermark < self._epoch_start

    @property
    def low_watermark(self) -> int:
        """The smallest log start of its live replicas, as the leader knows them."""
        return min([self.log.log_start_offset, *(each.log_start_offset for each in self._remotes.values())])

    def begin(self, live: Collection[int]) -> None:
        """Elects the first leader of a new partition. Its live replicas are the ISR."""
        self.isr = [node for node in self.replicas if node in live] or list(self.replicas[:1])
        self.leader = next((node for node in self.isr if node in live), NO_LEADER)
        self.leader_epoch = 0
        self._newest = self.leader if self.leader != NO_LEADER else self.isr[0]
        self._save()
        self._lead(live, new_leader=True)
        self.follow(live)

    def resume(self, state: PartitionState, live: Collection[int], *, unclean: Collection[int]) -> None:
        """Goes on after every broker was down: elects a leader, the same one if it may lead. `unclean`: the brokers that did not shut down
        cleanly, which are not eligible any more."""
        self.assignment, self.isr = state.assignment, state.isr
        self.eligible = [node for node in state.eligible if node not in unclean]
        self.last_leader = state.last_leader if state.leader == NO_LEADER else NO_LEADER
        self.leader_epoch = max(state.leader_epoch, *(log.leader_epoch for log in self.logs.values()))
        self._newest = next((node for node in (state.leader, state.last_leader) if node in self.logs), self.replicas[0])
        self.elect(live, preferred=state.leader)

    def lose(self, node: int, *, live: Collection[int]) -> None:
        """Notes that a broker went down."""
        if node not in self.replicas:
            return
        self._fetchers.forget(self, node)
        self._remotes.pop(node, None)
        if node in self.isr and (self._has_eligible or len(self.isr) > 1):
            self._in_sync([each for each in self.isr if each != node])
        if self.leader == node:
            self.elect(live)
        self._replicate()

    def regain(self, node: int, log: PartitionLog, live: Collection[int], *, killed: bool = False) -> None:
        """Notes that a broker is back, with the log that it has. Then it fetches from its leader."""
        log.replicated_at_once = len(self.logs) == 1
        self.logs[node] = log
        self._remotes[node] = RemoteReplica(caught_up_ms=0)
        if killed and node in self.eligible:
            self.eligible.remove(node)
            self._save()
        if self.leader == NO_LEADER:
            self.elect(live)
        self.follow(live)

    def follow(self, live: Collection[int]) -> None:
        """Makes the live replicas follow their leader, and ends a reassignment whose replicas are in sync."""
        for node in self.replicas:
            if self.leader in (NO_LEADER, node) or node not in live:
                self._fetchers.forget(self, node)
            else:
                self._fetchers.follow(self, node)
        if self.assignment.ends_with(self.isr):
            self._assign(Assignment(self.assignment.target), without(self.isr, self.assignment.removing), live)
        self._replicate()

    def fetched(self, node: int, offset: int, log_start_offset: int) -> None:
        """Notes that a follower fetched from that offset on (`Partition.updateFollowerFetchState`). It may join the ISR by that, or move
        the high watermark."""
        remote, log = self._remotes.get(node), self.log
        if remote is None:
            return
        moved = log_start_offset > remote.log_start_offset >= 0
        remote.fetched(offset, log_start_offset, leader_end=log.log_end_offset, now_ms=self._clock_ms())
        if moved:
            self.tell_changed()  # a DeleteRecords may wait for it
        if node not in self.isr and offset >= max(log.high_watermark, self._epoch_start):
            self._in_sync([*self.isr, node])
            if self.assignment.is_changing:
                self._joined()
        self._replicate()

    def fell_silent(self, node: int) -> None:
        """Notes that the fetches of a follower do not arrive any more."""
        if node in self._remotes:
            self._remotes[node].fell_silent(self.log.log_end_offset, self._clock_ms())

    def shrink_isr(self, *, lag_max_ms: int) -> bool:
        """Removes followers from the ISR that have not caught up for that long. The high watermark does not wait for them any more.
        Returns whether it must be looked at again, because a follower in the ISR is behind."""
        if self.leader == NO_LEADER:
            return False
        end, now_ms = self.log.log_end_offset, self._clock_ms()
        behind = {node: each for node, each in self._remotes.items() if node in self.isr and (each.end_offset != end or each.silent)}
        overdue = [node for node, each in behind.items() if each.end_offset != end and now_ms - each.caught_up_ms >= lag_max_ms]
        if overdue:
            self._in_sync([node for node in self.isr if node not in overdue])
            self._replicate()
            self.tell_changed()
        return len(overdue) < len(behind)

    def elect(self, live: Collection[int], *, preferred: int | None = None, unclean: bool = False) -> None:
        """Elects a leader and begins the next epoch. `unclean`: if no live replica is in sync, another one may lead, also where the topic's
        config forbids it."""
        able = [node for node in self.replicas if node in live and node in (self.isr or self.eligible)]
        if not able and not self.isr and not self.eligible and self.last_leader in live:
            able = [self.last_leader]
        if not able and (unclean or self.elects_unclean):
            able = [node for node in self.replicas if node in live][:1]
        if not able and self.leader == NO_LEADER:
            return  # nothing has changed
        before, self.leader = self.leader, preferred if preferred is not None and preferred in able else next(iter(able), NO_LEADER)
        self.last_leader = before if self.leader == NO_LEADER and not self.isr else NO_LEADER
        self.leader_epoch += 1
        if self.leader != before:
            self._leads_since = self.leader_epoch
        if self.leader != NO_LEADER:
            self._newest = self.leader
            if self.leader not in self.isr:
                self.eligible = [node for node in self.eligible if node != self.leader] if self.leader in self.eligible else []
                self.isr = [self.leader]
        self._save()
        if self.leader != NO_LEADER:
            self._lead(live, new_leader=self.leader != before)
        self.follow(live)
        self.tell_changed()

    def _lead(self, live: Collection[int], *, new_leader: bool) -> None:
        """Begins the leader epoch at the leader. A new leader knows nothing of what the others have (`Partition.makeLeader`)."""
        known, now_ms = {} if new_leader else self._remotes, self._clock_ms()
        self._remotes = {
            node: known.get(node) or RemoteReplica(caught_up_ms=now_ms if node in self.isr else 0)
            for node in self.replicas
            if node != self.leader and node in live
        }
        self._epoch_start = self.log.log_end_offset
        try:
            self.log.lead(self.leader_epoch)
        except StorageFailed as failed:
            self._halt(failed)

    def reassign(self, target: Sequence[int], logs: Mapping[int, PartitionLog], live: Collection[int]) -> None:
        """Begins a reassignment to these replicas. It replaces one that is in progress. `logs`: of the new replicas, empty."""
        for log in logs.values():
            log.replicated_at_once = False
        self.logs.update(logs)
        self._remotes.update({node: RemoteReplica(caught_up_ms=0) for node in logs if node in live})
        self._assign(self.assignment.towards(target), tuple(self.isr), live)

    def cancel_reassignment(self, live: Collection[int]) -> bool:
        """The replicas that are being added leave. False: they are the whole ISR, and no other replica may become leader."""
        original, isr = self.assignment.original, without(self.isr, self.assignment.adding)
        if not isr and not self.elects_unclean:
            return False
        self._assign(Assignment(original), isr or original[:1], live)
        return True

    def _assign(self, assignment: Assignment, isr: tuple[int, ...], live: Collection[int]) -> None:
        """Sets the replicas and the ISR. If replicas leave, a leader epoch begins, with the same leader if it is still in the ISR."""
        gone = without(self.replicas, assignment.replicas)
        self.assignment = assignment
        self._in_sync(list(isr))
        self._save()
        for node in gone:
            self._fetchers.forget(self, node)
            self._remotes.pop(node, None)
            del self.logs[node]
        if self.last_leader in gone:
            self.last_leader = NO_LEADER
        if self._newest in gone:
            self._newest = isr[0]
        if gone:
            self.elect(live, preferred=self.leader)
        else:
            self.follow(live)
        for node in gone:
            self._delete_log(node)

    def append(
        self,
        data: bytes | memoryview,
        *,
        origin: Origin,
        request_version: int = PRODUCE_VERSION,
        transaction_version: int = 0,
        guard: int | None = None,
    ) -> AppendResult:
        """`PartitionLog.append` to the leader's log."""
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
            self._halt(failed)
            raise AppendRefused(ErrorCode.KAFKA_STORAGE_ERROR, str(failed), rule="disk") from failed
        if result.batches:
            self.changes += 1
            for remote in self._remotes.values():
                remote.leader_grows(before, self._clock_ms())
            if len(self.isr) == 1:
                self._raise_high_watermark()
        return result

    def advance_log_start(self, offset: int) -> None:
        """`PartitionLog.advance_log_start` of the leader's log. The followers learn of it with their next fetch."""
        self.log.advance_log_start(offset)
        self.tell_changed()

    def delete_old_segments(self) -> int:
        """`PartitionLog.delete_old_segments` of each replica; returns how many the leader's log had."""
        start = self.log.log_start_offset
        deleted = {node: log.delete_old_segments() for node, log in self.logs.items()}[self._newest]
        if self.log.log_start_offset != start:
            self.tell_changed()
        return deleted

    def replicated(self, end_offset: int, leader_epoch: int) -> ErrorCode | None:
        """The code for a batch that was written in that leader epoch and ends before that offset. None: an in-sync replica still lacks
        it."""
        if leader_epoch < self._leads_since or self.leader == NO_LEADER:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < end_offset:
            return None
        return ErrorCode.NONE if len(self.isr) >= self.min_isr else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def configure(self, topic_config: Mapping[str, str], config: LogConfig) -> None:
        """Sets the topic's configs. The log obeys them from the next batch on."""
        self.topic_config = topic_config
        for log in self.logs.values():
            log.config = config
        self._in_sync(self.isr)
        self._replicate()

    def expire_producers(self) -> None:
        """Removes idle producers, as often as Kafka does. Call this before each look at the log's producers."""
        now_ms = self._clock_ms()
        if now_ms - self._expired_at_ms >= EXPIRY_CHECK_MS:
            self._expired_at_ms = now_ms
            for log in self.logs.values():
                log.expire_producers()

    def tell_grown(self, size_bytes: int) -> None:
        for each in tuple(self.watchers):
            each.grew(size_bytes)

    def tell_changed(self) -> None:
        self.changes += 1
        for each in tuple(self.watchers):
            each.changed()

    def _in_sync(self, nodes: list[int]) -> None:
        """Sets the in-sync replicas. If they are too few, a replica that left, or was eligible, is eligible."""
        before = {*self.isr, *self.eligible} if self._has_eligible and len(nodes) < self.min_isr else set()
        was = self.isr, self.eligible
        self.isr, self.eligible = nodes, [node for node in self.replicas if node in before and node not in nodes]
        if (self.isr, self.eligible) != was:
            self._save()

    def _save(self) -> None:
        self._save_state(
            PartitionState(
                self.topic_id,
                self.index,
                self.replicas,
                self.leader,
                self.leader_epoch,
                self.isr,
                self.eligible,
                self.last_leader,
                self.assignment.adding,
                self.assignment.removing,
            )
        )

    def _replicate(self) -> None:
        """Raises the high watermark to what every in-sync replica has, and tells the watchers. A log without followers raises its own."""
        self.log.replicated_at_once = len(self.logs) == 1 and len(self.isr) >= self.min_isr
        if self._raise_high_watermark():
            self.tell_changed()

    def _raise_high_watermark(self) -> bool:
        """Raises it while the in-sync replicas are enough (KIP-966); whether it moved (`Partition.maybeIncrementLeaderHW`)."""
        log = self.log
        if self.leader == NO_LEADER or len(self.isr) < self.min_isr:
            return False
        before, end = log.high_watermark, log.log_end_offset
        for node, remote in self._remotes.items():
            if remote.end_offset < end and node in self.isr:
                end = remote.end_offset
        log.advance_high_watermark(end)
        return log.high_watermark > before
