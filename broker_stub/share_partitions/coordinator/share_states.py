"""The share partitions of one partition of `__share_group_state`: what their records say, the checks of requests, and the next record.

It makes the same checks in the same order as Kafka's ShareCoordinatorShard. It does no I/O; the time is passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final
from uuid import UUID

from fencepost.broker_stub.share_partitions.coordinator.records import NO_COUNT, Key, ShareRecord, Snapshot, Update
from fencepost.broker_stub.share_partitions.coordinator.state_batches import combined
from fencepost.broker_stub.share_partitions.states import NO_OFFSET, ShareRefused, StateBatch
from fencepost.producer.wire import ErrorCode

NO_EPOCH: Final = -1
_UNKNOWN: Final = "This server does not host this topic-partition."
_OLD_LEADER: Final = "The leader epoch in the request is older than the epoch on the broker."
_OLD_STATE: Final = "The share coordinator rejected the request because the share-group state epoch did not match."

CountPartitions = Callable[[UUID], int]
"""How many partitions a topic has; 0 if the broker does not know it."""


class ShareStates:
    """See the module."""

    def __init__(self, count_partitions: CountPartitions, *, updates_per_snapshot: int) -> None:
        self._count_partitions = count_partitions
        self._updates_per_snapshot = updates_per_snapshot
        self.found: dict[Key, Snapshot] = {}
        self._leader_epochs: dict[Key, int] = {}
        self._state_epochs: dict[Key, int] = {}
        self._updates: dict[Key, int] = {}
        self._snapshot_at: dict[Key, int] = {}

    # What records say

    def replay(self, record: ShareRecord, offset: int) -> None:
        key, value = record
        if value is None:
            for of in (self.found, self._leader_epochs, self._state_epochs, self._updates, self._snapshot_at):
                of.pop(key, None)
            return
        self._leader_epochs[key] = max(self._leader_epochs.get(key, value.leader_epoch), value.leader_epoch)
        if isinstance(value, Snapshot):
            self._state_epochs[key] = max(self._state_epochs.get(key, value.state_epoch), value.state_epoch)
            self.found[key] = value
            self._snapshot_at[key] = offset
            if self._updates.get(key, 0) >= self._updates_per_snapshot:
                self._updates[key] = 0
            return
        before = self.found.get(key, Snapshot(snapshot_epoch=value.snapshot_epoch))
        start = value.start_offset if value.start_offset != NO_OFFSET else before.start_offset
        self.found[key] = before._replace(
            start_offset=start,
            done_count=value.done_count,
            leader_epoch=value.leader_epoch if value.leader_epoch != NO_EPOCH else before.leader_epoch,
            batches=combined(before.batches, value.batches, start),
        )
        self._updates[key] = self._updates.get(key, 0) + 1

    @property
    def first_needed_offset(self) -> int | None:
        """Every record before it is obsolete."""
        return min(self._snapshot_at.values(), default=None)

    # Requests

    def initialize(self, key: Key, *, state_epoch: int, start_offset: int, now_ms: int) -> ShareRecord:
        self._check_partition(key)
        if state_epoch != NO_EPOCH and self._state_epochs.get(key, state_epoch) > state_epoch:
            raise ShareRefused(ErrorCode.FENCED_STATE_EPOCH, _OLD_STATE)
        self._check_topic(key)
        before = self.found.get(key)
        snapshot = Snapshot(
            snapshot_epoch=before.snapshot_epoch + 1 if before is not None else 0,
            state_epoch=state_epoch,
            start_offset=start_offset,
            done_count=NO_COUNT if start_offset == NO_OFFSET else 0,
            created_ms=now_ms,
            written_ms=now_ms,
        )
        return ShareRecord(key, snapshot)

    def read(self, key: Key, *, leader_epoch: int, now_ms: int) -> tuple[Snapshot, ShareRecord | None]:
        """The state, and a record if the leader is a newer one."""
        found = self._known(key, "Read", leader_epoch)
        self._check_topic(key)
        if leader_epoch in (NO_EPOCH, self._leader_epochs.get(key)):
            return found, None
        return found, self._changed(key, found._replace(leader_epoch=leader_epoch), (), now_ms)

    def write(
        self,
        key: Key,
        *,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        done_count: int,
        batches: tuple[StateBatch, ...],
        now_ms: int,
    ) -> ShareRecord:
        found = self._known(key, "Write", leader_epoch)
        if state_epoch != NO_EPOCH and self._state_epochs.get(key, state_epoch) > state_epoch:
            raise ShareRefused(ErrorCode.FENCED_STATE_EPOCH, _OLD_STATE)
        self._check_topic(key)
        return self._changed(key, found._replace(start_offset=start_offset, done_count=done_count), batches, now_ms)

    def summary(self, key: Key) -> Snapshot:
        self._check_partition(key)
        self._check_topic(key)
        return self.found.get(key, Snapshot())

    def delete(self, key: Key) -> ShareRecord | None:
        """None: there is nothing to delete."""
        self._check_partition(key)
        self._check_topic(key)
        return ShareRecord(key) if key in self.found else None

    # What no request asks for

    def of_topics_without(self, known: Collection[UUID]) -> list[ShareRecord]:
        """Ends the share partitions of deleted topics."""
        return [ShareRecord(key) for key in self.found if key.topic_id not in known]

    def cold(self, now_ms: int, after_ms: int) -> Iterator[ShareRecord]:
        """New snapshots of share partitions that did not change for that long, so that old records can go."""
        if all(each.created_ms != each.written_ms for each in self.found.values()):
            return
        for key, each in self.found.items():
            if now_ms - each.written_ms >= after_ms:
                yield ShareRecord(key, each._replace(snapshot_epoch=each.snapshot_epoch + 1, written_ms=now_ms))

    def _changed(self, key: Key, coming: Snapshot, batches: tuple[StateBatch, ...], now_ms: int) -> ShareRecord:
        """An update, or a snapshot after so many of them. `coming`: with everything new but the batches."""
        if self._updates.get(key, 0) < self._updates_per_snapshot:
            found = combined((), batches, coming.start_offset)
            return ShareRecord(key, Update(coming.snapshot_epoch, coming.leader_epoch, coming.start_offset, coming.done_count, found))
        start = coming.start_offset if coming.start_offset != NO_OFFSET else self.found[key].start_offset
        snapshot = coming._replace(
            snapshot_epoch=coming.snapshot_epoch + 1,
            start_offset=start,
            batches=combined(coming.batches, batches, start),
            created_ms=now_ms,
            written_ms=now_ms,
        )
        return ShareRecord(key, snapshot)

    def _known(self, key: Key, what: str, leader_epoch: int) -> Snapshot:
        self._check_partition(key)
        found = self.found.get(key)
        if found is None:
            raise ShareRefused(ErrorCode.INVALID_REQUEST, f"{what} operation on uninitialized share partition not allowed.")
        if leader_epoch != NO_EPOCH and self._leader_epochs.get(key, leader_epoch) > leader_epoch:
            raise ShareRefused(ErrorCode.FENCED_LEADER_EPOCH, _OLD_LEADER)
        return found

    def _check_partition(self, key: Key) -> None:
        if key.partition < 0:
            raise ShareRefused(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")

    def _check_topic(self, key: Key) -> None:
        if key.partition >= self._count_partitions(key.topic_id):
            raise ShareRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN)
