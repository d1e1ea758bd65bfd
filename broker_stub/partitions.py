"""One partition across its brokers: who replicates, who leads since which epoch, and the leader's log.

The replicas share one storage and are in sync at once; followers do not fetch here yet. A new leader never gets the old leader's log
object: it builds its own from the bytes. A broker that was stopped or killed remembers of each producer only the newest batch from before,
and all of what came after, as Kafka's snapshots have it; one that was up all the time remembers five. A partition without a live in-sync
replica has no leader: there are no unclean elections.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker_stub.log import LogConfig, MemoryStorage, PartitionLog

if TYPE_CHECKING:
    from broker_stub.topics import Topic

NO_LEADER = -1
EXPIRY_CHECK_MS = 600_000  # producer.id.expiration.check.interval.ms


class Waiting(Protocol):
    """A parked reader of a partition."""

    def grew(self, size_bytes: int) -> None:
        """So many bytes more can be read."""
        ...

    def disturbed(self) -> None:
        """Something else changed: the leader, or the partition is gone."""
        ...


class _Left(NamedTuple):
    """What a broker had when it went down: a log up to this offset, and this snapshot of its producers."""

    end_offset: int
    snapshot: bytes


class Partition:
    """One partition; only its cluster changes it."""

    __slots__ = (
        "_clock_ms",
        "_config",
        "_expired_at_ms",
        "_left",
        "index",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "replicas",
        "storage",
        "topic",
        "waiting",
    )

    def __init__(self, topic: Topic, index: int, *, replicas: tuple[int, ...], clock_ms: Callable[[], int], config: LogConfig) -> None:
        self.topic = topic
        self.index = index
        self.replicas = replicas
        self.isr = list(replicas)
        self.leader = NO_LEADER
        self.leader_epoch = -1
        self.storage = MemoryStorage()
        self.log = PartitionLog(self.storage, clock_ms=clock_ms, config=config)
        self.waiting: dict[Waiting, None] = {}  # in the order they came
        self._clock_ms = clock_ms
        self._config = config
        self._expired_at_ms = clock_ms()
        self._left: dict[int, _Left] = {}

    def __str__(self) -> str:
        return f"{self.topic.name}-{self.index}"

    @property
    def min_isr(self) -> int:
        """min.insync.replicas, capped by the number of replicas (KIP-966)."""
        return min(int(self.topic.config["min.insync.replicas"]), len(self.replicas))

    def begin(self, live: Collection[int]) -> None:
        """The first leader of a new partition: nothing to recover."""
        self.isr = [node for node in self.replicas if node in live] or list(self.replicas[:1])
        self.leader = next((node for node in self.isr if node in live), NO_LEADER)
        self.leader_epoch = 0
        self.log.begin_epoch(0)
        self._replicate()

    def lose(self, node: int, *, clean: bool, live: Collection[int]) -> None:
        """That broker went down. The last in-sync replica stays in the ISR: only it may lead again.

        After a clean stop its producers come from the snapshot it wrote, after an unclean one from a scan of the bytes. Kafka writes a
        snapshot at the end of that scan, too, and starts from it.
        """
        if node not in self.replicas:
            return
        log = self.log if clean else self._recovered()
        self._left[node] = _Left(log.log_end_offset, log.snapshot())
        if node in self.isr and len(self.isr) > 1:
            self.isr.remove(node)
        if self.leader == node:
            self.elect(live)
        self._replicate()

    def regain(self, node: int, live: Collection[int]) -> None:
        """That broker is back. Every live replica catches up at once where there is a leader to catch up with."""
        if node not in self.replicas:
            return
        if self.leader == NO_LEADER:
            self.elect(live)
        if self.leader != NO_LEADER:
            self.isr += [replica for replica in self.replicas if replica in live and replica not in self.isr]
        self._replicate()

    def elect(self, live: Collection[int], *, preferred: int | None = None) -> None:
        """A new leader, the next epoch, and a log rebuilt from bytes."""
        able = [node for node in self.replicas if node in self.isr and node in live]
        self.leader = preferred if preferred is not None and preferred in able else next(iter(able), NO_LEADER)
        self.leader_epoch += 1
        if self.leader != NO_LEADER:
            self.log = self._recovered(self._left.get(self.leader))
            self.log.begin_epoch(self.leader_epoch)
            self._replicate()
        self.disturb()

    def configure(self, config: LogConfig) -> None:
        """The topic's configs have changed: the log obeys from the next batch on."""
        self._config = self.log.config = config
        self._replicate()

    def expire_producers(self) -> None:
        """Forgets idle producers, as often as Kafka looks for them; to be called before anybody asks for one."""
        now_ms = self._clock_ms()
        if now_ms - self._expired_at_ms >= EXPIRY_CHECK_MS:
            self._expired_at_ms = now_ms
            self.log.expire_producers()

    def tell_grown(self, size_bytes: int) -> None:
        for each in tuple(self.waiting):
            each.grew(size_bytes)

    def disturb(self) -> None:
        for each in tuple(self.waiting):
            each.disturbed()

    def _replicate(self) -> None:
        """The high watermark follows the log's end only while enough replicas are in sync (KIP-966)."""
        log = self.log
        log.replicated_at_once = len(self.isr) >= self.min_isr
        if log.replicated_at_once and log.high_watermark < log.log_end_offset:
            log.advance_high_watermark(log.log_end_offset)
            self.disturb()

    def _recovered(self, left: _Left | None = None) -> PartitionLog:
        """A log made of the bytes: of a broker that was up all the time, or of one that left that behind."""
        enough = len(self.isr) >= self.min_isr
        return PartitionLog.recover(
            self.storage,
            clock_ms=self._clock_ms,
            config=self._config,
            snapshot=left.snapshot if left is not None else None,
            snapshot_offset=left.end_offset if left is not None else None,
            log_start_offset=self.log.log_start_offset,
            high_watermark=None if enough else self.log.high_watermark,
            check_crcs=False,  # the bytes have not left this process
        )
