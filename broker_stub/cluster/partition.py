"""One partition across its brokers: its replicas, its leader and leader epoch, and the leader's log.

The replicas share one log. A follower that reaches its leader has at once what the leader has. A follower that does not reach it stays
behind (`followers`), and holds back the high watermark while it is in the ISR. When it becomes leader, the log is truncated to its end.

A new leader knows the producers as its own replica would. A broker that was stopped or killed knows of each producer the newest batch
from before the stop, and everything since, as with Kafka's snapshots. A broker that was always up knows five batches of each. No bytes
are read for that, however long the log is.

A replica that leaves the ISR while this has fewer than min.insync.replicas becomes eligible to lead (KIP-966). It has every
acknowledged record, because the high watermark stands still from then on. A kill ends its eligibility, because it may have lost records.

A partition without a live replica that is in sync or eligible has no leader. It gets one when the last leader is back and no other
replica is eligible, or by an unclean election: through unclean.leader.election.enable or by an administrator. An unclean election loses
the records that the new leader lacks. Before Kafka 4.1 no replica is ever eligible; the last in-sync replica stays in the ISR instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol
from uuid import UUID

from fencepost.broker_stub.cluster.followers import Followers
from fencepost.broker_stub.log import Checkpoint, LogConfig, PartitionLog
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


Reaches = Callable[[int, int], bool]
"""Whether two brokers can talk to each other."""


class _Left(NamedTuple):
    """The state of a broker when it went down: where its log ended, and the snapshot of its producers. None: the snapshot is obsolete."""

    log: Checkpoint
    snapshot: bytes | None


class Partition:
    """One partition of the topic of that name. Only its cluster changes it."""

    __slots__ = (
        "_clock_ms",
        "_expired_at_ms",
        "_has_eligible",
        "_left",
        "_reaches",
        "eligible",
        "followers",
        "index",
        "isr",
        "last_leader",
        "leader",
        "leader_epoch",
        "log",
        "replicas",
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
        replicas: tuple[int, ...],
        clock_ms: Callable[[], int],
        config: LogConfig,
        reaches: Reaches,
        has_eligible: bool = True,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.topic_config = topic_config
        self.index = index
        self.replicas = replicas
        self.isr = list(replicas)
        self.eligible: list[int] = []  # may lead, though not in sync
        self.last_leader = NO_LEADER  # the leader when the last replica left the ISR, until there is another
        self.leader = NO_LEADER
        self.leader_epoch = -1
        self.followers = Followers()
        self.log = PartitionLog(clock_ms=clock_ms, config=config)
        self.watchers: dict[Watcher, None] = {}  # in the order of their arrival
        self._clock_ms = clock_ms
        self._expired_at_ms = clock_ms()
        self._left: dict[int, _Left] = {}
        self._reaches = reaches
        self._has_eligible = has_eligible

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def min_isr(self) -> int:
        """min.insync.replicas, capped by the number of replicas (KIP-966)."""
        return min(int(self.topic_config["min.insync.replicas"]), len(self.replicas))

    @property
    def elects_unclean(self) -> bool:
        """Whether a replica that is not in sync may become leader without an administrator."""
        return self.topic_config["unclean.leader.election.enable"].lower() == "true"

    def begin(self, live: Collection[int]) -> None:
        """Elects the first leader of a new partition. Its live replicas are the ISR."""
        self.isr = [node for node in self.replicas if node in live] or list(self.replicas[:1])
        self.leader = next((node for node in self.isr if node in live), NO_LEADER)
        self.leader_epoch = 0
        self._left = {node: _Left(self.log.checkpoint(), None) for node in self.replicas if node not in self.isr}
        self.log.begin_epoch(0)
        self.follow(live)

    def lose(self, node: int, *, live: Collection[int]) -> None:
        """Notes that a broker went down. It leaves a snapshot of its producers, after a stop and after a kill: Kafka writes one when it
        stops, and after a kill at the end of the scan of its logs.
        """
        if node not in self.replicas:
            return
        behind = self.followers.log_of(node)
        if behind is not None:
            self._left[node] = _Left(behind, None)
            self.followers.catch_up(node)
        elif node in self.isr:
            self._left[node] = _Left(self.log.checkpoint(), self.log.snapshot())
        if node in self.isr and (self._has_eligible or len(self.isr) > 1):
            self._in_sync([each for each in self.isr if each != node])
        if self.leader == node:
            self.elect(live)
        self._replicate()

    def regain(self, node: int, live: Collection[int], *, killed: bool = False) -> None:
        """Notes that a broker is back. Every live replica catches up at once where it reaches a leader."""
        if node not in self.replicas:
            return
        if killed and node in self.eligible:
            self.eligible.remove(node)
        if self.leader == NO_LEADER:
            self.elect(live)
        self.follow(live)

    def follow(self, live: Collection[int]) -> None:
        """Makes live followers catch up or fall behind, after a change of the leader, of the live brokers or of their links."""
        if self.leader != NO_LEADER:
            self.followers.catch_up(self.leader)
            for node in self.replicas:
                if node == self.leader or node not in live:
                    continue
                if self._reaches(self.leader, node):
                    self.followers.catch_up(node)
                    if node not in self.isr:
                        self._in_sync([*self.isr, node])
                elif self.followers.log_of(node) is None:
                    self.followers.fall_behind(node, self._log_of(node), now_ms=self._clock_ms())
        self._replicate()

    def give_up(self, *, lag_max_ms: int) -> None:
        """Removes followers from the ISR that have been behind for that long. The high watermark does not wait for them any more."""
        overdue = self.followers.overdue(self._clock_ms(), lag_max_ms=lag_max_ms)
        if any(node in self.isr for node in overdue):
            self._in_sync([node for node in self.isr if node not in overdue])
            self._replicate()
            self.tell_changed()

    def elect(self, live: Collection[int], *, preferred: int | None = None, unclean: bool = False) -> None:
        """Elects a leader, begins the next epoch, and truncates the log to the leader's. `unclean`: if no live replica is in sync, another
        one may lead, also where the topic's config forbids it."""
        able = [node for node in self.replicas if node in live and (node in self.isr or node in self.eligible)]
        if not able and not self.isr and not self.eligible and self.last_leader in live:
            able = [self.last_leader]
        if not able and (unclean or self.elects_unclean):
            able = [node for node in self.replicas if node in live][:1]
        if not able and self.leader == NO_LEADER:
            return  # nothing has changed
        before, self.leader = self.leader, preferred if preferred is not None and preferred in able else next(iter(able), NO_LEADER)
        self.last_leader = before if self.leader == NO_LEADER and not self.isr else NO_LEADER
        self.leader_epoch += 1
        if self.leader != NO_LEADER:
            self._cut(self._log_of(self.leader))
            if self.leader not in self.isr:
                self.eligible = [node for node in self.eligible if node != self.leader] if self.leader in self.eligible else []
                self.isr = [self.leader]
            left = self._left.get(self.leader)
            self.log.hand_over(left.snapshot if left is not None else None, left.log.end_offset if left is not None else 0)
            self.log.begin_epoch(self.leader_epoch)
            self.follow(live)
        self.tell_changed()

    def replicated(self, end_offset: int, leader_epoch: int) -> ErrorCode | None:
        """The code for a batch that was written in that leader epoch and ends before that offset. None: an in-sync replica still lacks
        it."""
        if self.leader_epoch != leader_epoch or self.leader == NO_LEADER:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < end_offset:
            return None
        return ErrorCode.NONE if len(self.isr) >= self.min_isr else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def configure(self, topic_config: Mapping[str, str], config: LogConfig) -> None:
        """Sets the topic's configs. The log obeys them from the next batch on."""
        self.topic_config = topic_config
        self.log.config = config
        self._in_sync(self.isr)
        self._replicate()

    def expire_producers(self) -> None:
        """Removes idle producers, as often as Kafka does. Call this before each look at the log's producers."""
        now_ms = self._clock_ms()
        if now_ms - self._expired_at_ms >= EXPIRY_CHECK_MS:
            self._expired_at_ms = now_ms
            self.log.expire_producers()

    def tell_grown(self, size_bytes: int) -> None:
        for each in tuple(self.watchers):
            each.grew(size_bytes)

    def tell_changed(self) -> None:
        for each in tuple(self.watchers):
            each.changed()

    def copied(self, node: int) -> Checkpoint | None:
        """Where the log of a replica ends that is behind. None: it has everything."""
        behind = self.followers.log_of(node)
        if behind is None and node not in self.isr:
            left = self._left.get(node)
            return left.log if left is not None else None
        return behind

    def _in_sync(self, nodes: list[int]) -> None:
        """Sets the in-sync replicas. If they are too few, a replica that left, or was eligible, is eligible."""
        before = {*self.isr, *self.eligible} if self._has_eligible and len(nodes) < self.min_isr else set()
        self.isr, self.eligible = nodes, [node for node in self.replicas if node in before and node not in nodes]

    def _replicate(self) -> None:
        """Raises the high watermark to what every in-sync replica has, while these are enough (KIP-966)."""
        log, held_back = self.log, self.followers.least(self.isr)
        enough = len(self.isr) >= self.min_isr
        log.replicated_at_once = enough and held_back is None
        replicated = log.log_end_offset if held_back is None else held_back
        if enough and log.high_watermark < replicated:
            log.advance_high_watermark(replicated)
            self.tell_changed()

    def _log_of(self, node: int) -> Checkpoint:
        """A replica's own log. One that is not behind has everything, or had it when it went down."""
        return self.copied(node) or self.log.checkpoint()

    def _cut(self, to: Checkpoint) -> None:
        """Truncates the log, and the logs of all replicas, to the new leader's."""
        if to.end_offset >= self.log.log_end_offset:
            return
        self.log.truncate(to)
        self.followers.cut(to)
        self._left = {node: left if left.log.end_offset <= to.end_offset else _Left(to, None) for node, left in self._left.items()}
