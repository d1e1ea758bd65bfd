"""One partition of `__share_group_state` under one leader: reads its log, and writes what `share_states` decides.

A record counts once the leader's log has it. The response leaves when every in-sync replica has it. Now and then old records are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from fencepost.broker_stub.cluster.internal_append import How, append
from fencepost.broker_stub.share_partitions.coordinator.records import Key, ShareRecord, Snapshot, read_share_record
from fencepost.broker_stub.share_partitions.coordinator.share_states import ShareStates
from fencepost.broker_stub.share_partitions.states import ShareRefused, StateBatch
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.records import encode_batch, read_records

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.context import Context
    from fencepost.broker_stub.replication.replica import Replica

TIDY_EVERY_MS: Final = 300_000
"""share.coordinator.state.topic.prune.interval.ms and share.coordinator.cold.partition.snapshot.interval.ms, which are internal."""

MEANING: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""The code for a write to the log that failed. Any other is UNKNOWN_SERVER_ERROR."""


class Answer(NamedTuple):
    """What a coordinator answers for one share partition. `found`: what was read."""

    code: int = ErrorCode.NONE
    message: str | None = None
    found: Snapshot = Snapshot()


Then = Callable[[Answer], None]


class ShareShard:
    """It watches the leader's replica until that leads no longer, and then calls `over`."""

    def __init__(self, context: Context, replica: Replica, *, over: Callable[[ShareShard], object]) -> None:
        self._context = context
        self._over = over
        self._now_ms = context.brokers[replica.node].now_ms
        self._timeout_ms = int(context.config["share.coordinator.write.timeout.ms"])
        self._tidied_ms = self._now_ms()
        self.replica = replica
        self.leader_epoch = replica.leader_epoch
        self.states = ShareStates(
            self._count_partitions, updates_per_snapshot=int(context.config["share.coordinator.snapshot.update.records.per.snapshot"])
        )
        self._read()
        replica.watchers[self] = None

    # As a watcher of its replica

    def grew(self, size_bytes: int) -> None:
        """Does nothing: the shard itself writes these records."""

    def changed(self) -> None:
        if self.replica.leader_epoch != self.leader_epoch or not self.replica.leads:
            self.replica.watchers.pop(self, None)
            self._over(self)

    # Requests

    def initialize(self, key: Key, state_epoch: int, start_offset: int, then: Then) -> None:
        self._do(then, lambda: self.states.initialize(key, state_epoch=state_epoch, start_offset=start_offset, now_ms=self._now_ms()))

    def read(self, key: Key, leader_epoch: int, then: Then) -> None:
        try:
            found, record = self.states.read(key, leader_epoch=leader_epoch, now_ms=self._now_ms())
        except ShareRefused as refused:
            then(Answer(refused.code, refused.message))
            return
        self._write([record] if record is not None else [], lambda answer: then(answer if answer.code else Answer(found=found)))

    def write(
        self,
        key: Key,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        done_count: int,
        batches: tuple[StateBatch, ...],
        then: Then,
    ) -> None:
        self._do(
            then,
            lambda: self.states.write(
                key,
                state_epoch=state_epoch,
                leader_epoch=leader_epoch,
                start_offset=start_offset,
                done_count=done_count,
                batches=batches,
                now_ms=self._now_ms(),
            ),
        )

    def summary(self, key: Key, then: Then) -> None:
        try:
            then(Answer(found=self.states.summary(key)))
        except ShareRefused as refused:
            then(Answer(refused.code, refused.message))

    def delete(self, key: Key, then: Then) -> None:
        self._do(then, lambda: self.states.delete(key))

    def forget_topics(self) -> None:
        """Ends the share partitions of topics that were deleted."""
        self._write(self.states.of_topics_without({topic.id for topic in self._context.topics}), _unheard)

    def tidy(self) -> None:
        """Deletes records that are obsolete, as often as Kafka does."""
        now_ms = self._now_ms()
        if now_ms - self._tidied_ms < TIDY_EVERY_MS:
            return
        self._tidied_ms = now_ms
        self._write([*self.states.cold(now_ms, TIDY_EVERY_MS)], _unheard)
        first = self.states.first_needed_offset
        if first is not None and self.replica.log.log_start_offset < first <= self.replica.log.high_watermark:
            self.replica.advance_log_start(first)

    def _do(self, then: Then, decide: Callable[[], ShareRecord | None]) -> None:
        try:
            record = decide()
        except ShareRefused as refused:
            then(Answer(refused.code, refused.message))
            return
        self._write([record] if record is not None else [], then)

    def _write(self, records: Sequence[ShareRecord], then: Then) -> None:
        if not records:
            then(Answer())
            return
        if self.replica.leader_epoch != self.leader_epoch:
            then(_failed(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        now_ms = self._now_ms()
        first = self.replica.log.log_end_offset

        def written() -> None:
            for offset, record in enumerate(records, first):
                self.states.replay(record, offset)

        # Kafka also gives sequence numbers to a batch without producer id.
        data = encode_batch([(now_ms, *record.entry()) for record in records], base_sequence=0)
        how = How(written=written)
        append(self._context, self.replica, data, timeout_ms=self._timeout_ms, then=lambda code: then(_failed(code)), how=how)

    def _read(self) -> None:
        for _, batch in self.replica.log.batches():
            for each in read_records(batch, verify_crc=False):
                assert each.key is not None
                record = read_share_record(each.key, each.value)
                if record is not None:
                    self.states.replay(record, each.offset)

    def _count_partitions(self, topic_id: UUID) -> int:
        topic = self._context.brokers[self.replica.node].image.topics.with_id(topic_id)
        return len(topic.partitions) if topic is not None else 0


def _failed(code: int) -> Answer:
    return Answer(MEANING.get(ErrorCode(code), ErrorCode.UNKNOWN_SERVER_ERROR)) if code else Answer()


def _unheard(answer: Answer) -> None:
    """Ignores the result: the next time tries again."""
