"""A share partition at its leader: loads it from the share coordinator, keeps there what changes, and ends locks when their time is over.

It ends when its broker leads the partition no longer, or when the coordinator knows of a newer leader. What members may do is decided in
`share_partition`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from fencepost.broker_stub.configs.group_configs import AUTO_OFFSET_RESET, ISOLATION_LEVEL, LOCK_DURATION, READ_COMMITTED, duration_ms
from fencepost.broker_stub.share_partitions.coordinator.persister import Persister
from fencepost.broker_stub.share_partitions.coordinator.records import Key
from fencepost.broker_stub.share_partitions.coordinator.shard import Answer
from fencepost.broker_stub.share_partitions.share_partition import SharePartition, Write
from fencepost.broker_stub.share_partitions.states import NO_OFFSET, Acknowledgement, Limits, ShareRefused
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.messages.list_offsets import EARLIEST, LATEST

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.cluster import Cluster
    from fencepost.broker_stub.cluster.timers import Timer
    from fencepost.broker_stub.replication.replica import Replica

Then = Callable[[int, str | None], None]

_TOLD: Final = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""The code that a client gets when the share coordinator refuses. Any other is UNKNOWN_SERVER_ERROR."""

_FENCED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
"""After these the share partition is loaded again."""


class Waiting(Protocol):
    """A ShareFetch that waits."""

    def changed(self) -> None: ...


class State(Enum):
    """Whether it can be used."""

    LOADING = "loading"
    ACTIVE = "active"
    ENDED = "ended"


class LivePartition:
    """See the module. `over` is called once when it has ended."""

    def __init__(
        self, cluster: Cluster, persister: Persister, key: Key, replica: Replica, *, over: Callable[[LivePartition], object]
    ) -> None:
        self._cluster = cluster
        self._persister = persister
        self._over = over
        self._timer: Timer | None = None
        self._state_epoch = 0
        self._now_ms = cluster.brokers[replica.node].now_ms
        self.key = key
        self.replica = replica
        self.leader_epoch = replica.leader_epoch
        self.state = State.LOADING
        self.failure: ShareRefused | None = None  # why it could not be loaded
        self.waiting: dict[Waiting, None] = {}
        self.core = SharePartition(0)
        replica.watchers[self] = None

    def load(self) -> None:
        self._persister.read(self.replica.node, self.key, leader_epoch=self.leader_epoch, then=self._loaded)

    @property
    def limits(self) -> Limits:
        """The configs of the group as they are now."""
        value = self._config
        return Limits(
            lock_ms=int(value(LOCK_DURATION)),
            deliveries_max=int(value("share.delivery.count.limit")),
            locks_max=int(value("share.partition.max.record.locks")),
            renews=value("share.renew.acknowledge.enable").lower() == "true",
        )

    @property
    def reads_committed(self) -> bool:
        return self._config(ISOLATION_LEVEL) == READ_COMMITTED

    @property
    def can_acquire(self) -> bool:
        return self.state is State.ACTIVE and self.core.window.can_acquire(self.limits.locks_max)

    # As a watcher of its replica

    def grew(self, size_bytes: int) -> None:
        """Does nothing: a fetch that waits for records watches the replica itself."""

    def changed(self) -> None:
        if not self.replica.leads:
            self.end()

    def end(self) -> None:
        """It is not used any more. Fetches that wait for it learn of it."""
        if self.state is State.ENDED:
            return
        self.state = State.ENDED
        self.replica.watchers.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
        self._over(self)
        self._tell()

    # What members say

    def acknowledge(self, member: str, acknowledgements: Sequence[Acknowledgement], then: Then) -> None:
        """`then` gets the code and the message when the share coordinator has kept it."""
        try:
            write = self.core.acknowledge(member, acknowledgements, limits=self.limits, now_ms=self._now_ms())
        except ShareRefused as refused:
            then(refused.code, refused.message)
            return
        self._keep(write, then)

    def release(self, member: str) -> None:
        """The member's session is over."""
        if self.state is State.ACTIVE:
            self._keep(self.core.release(member, limits=self.limits), _unheard)

    def locks_changed(self) -> None:
        """Looks again when the next lock ends."""
        expiry_ms = self.core.next_expiry_ms if self.state is State.ACTIVE else None
        if self._timer is not None and self._timer.live and self._timer.deadline_ms == expiry_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if expiry_ms is not None:
            self._timer = self._cluster.later_on(self.replica.node, max(0, expiry_ms - self._now_ms()), self._expire)

    def _expire(self) -> None:
        write = self.core.expire(limits=self.limits, now_ms=self._now_ms())
        if write.batches:
            self._send(write, lambda answer: self._completed(write, committed=True))  # it counts, also if the coordinator refuses it
            self._tell()
        self.locks_changed()

    def _keep(self, write: Write, then: Then) -> None:
        """Has the share coordinator keep a pending change, and completes it."""

        def kept(answer: Answer) -> None:
            self._completed(write, committed=not answer.code)
            if not answer.code:
                then(ErrorCode.NONE, None)
                return
            refused = _refused(answer)
            if refused.code in _FENCED:
                self.end()
            then(refused.code, refused.message)

        if write.batches:
            self._send(write, kept)
        else:
            then(ErrorCode.NONE, None)
            self.locks_changed()

    def _send(self, write: Write, then: Callable[[Answer], None]) -> None:
        self._persister.write(
            self.replica.node,
            self.key,
            state_epoch=self._state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=write.start_offset,
            done_count=write.done_count,
            batches=write.batches,
            then=then,
        )

    def _completed(self, write: Write, *, committed: bool) -> None:
        self.core.complete(write, committed=committed, now_ms=self._now_ms())
        self.locks_changed()
        self._tell()

    def _tell(self) -> None:
        for each in tuple(self.waiting):
            each.changed()

    # Loading

    def _loaded(self, answer: Answer) -> None:
        if self.state is not State.LOADING:
            return
        try:
            if answer.code:
                raise _refused(answer)
            found = answer.found
            start = found.start_offset if found.start_offset != NO_OFFSET else self._first_offset()
            self._state_epoch = found.state_epoch
            self.core = SharePartition(start, found.batches)
        except (ShareRefused, ValueError) as error:  # a state that there is not, as only a broken leader can have written it
            self.failure = error if isinstance(error, ShareRefused) else ShareRefused(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
            self.end()
            return
        self.state = State.ACTIVE
        self._tell()

    def _config(self, name: str) -> str:
        return self._cluster.group_config(self.key.group_id, name, self.replica.node)

    def _first_offset(self) -> int:
        """Where a group begins, by its share.auto.offset.reset."""
        reset, log = self._config(AUTO_OFFSET_RESET), self.replica.log
        duration = duration_ms(reset)
        time = EARLIEST if reset == "earliest" else LATEST if duration is None else self._now_ms() - duration
        offset = log.offset_for_timestamp(time).offset
        if offset < 0:
            name = f"{self.key.topic_id}:{self.replica.partition}"
            raise ShareRefused(ErrorCode.OFFSET_NOT_AVAILABLE, f"Offset for timestamp {time} not found for topic partition: {name}")
        return offset


def _refused(answer: Answer) -> ShareRefused:
    code = _TOLD.get(ErrorCode(answer.code), ErrorCode.UNKNOWN_SERVER_ERROR)
    return ShareRefused(code, answer.message)


def _unheard(code: int, message: str | None) -> None:
    """Ignores the result: the locks end anyway."""
