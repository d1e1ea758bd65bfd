"""The groups and offsets of one partition of `__consumer_offsets`, which this file reads from the log and writes to it.

An offset counts once every in-sync replica has it, even if its sender got an error for the time that this took. This file decides nothing
about groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from fencepost.broker_stub.cluster.internal_append import How, Then, append
from fencepost.broker_stub.groups.state.classic_and_offset_records import (
    GroupMetadataValue,
    GroupRecord,
    MemberMetadata,
    OffsetRecord,
    group_key,
    group_value,
    offset_key,
    offset_value,
    read_record,
    tombstones,
)
from fencepost.broker_stub.groups.state.classic_group import Group, Member
from fencepost.broker_stub.groups.state.classic_states import State
from fencepost.broker_stub.groups.state.consumer_group import ConsumerGroupStates
from fencepost.broker_stub.groups.state.consumer_group_records import ConsumerRecord, read_consumer_record
from fencepost.broker_stub.groups.state.pending_offsets import Committed, Key, PendingOffsets
from fencepost.broker_stub.groups.state.share_group import ShareGroupStates
from fencepost.broker_stub.groups.state.share_group_records import ShareGroupRecord, read_share_group_record
from fencepost.producer.wire import ErrorCode
from fencepost.producer.wire.records import ControlType, encode_batch, read_marker, read_records

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.context import Context
    from fencepost.broker_stub.cluster.producer_ids import Identity
    from fencepost.broker_stub.cluster.timers import Timer
    from fencepost.broker_stub.replication.replica import Replica

FOREVER_MS: Final = 1 << 60
MEANING: Final = {
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The code that a client gets when a write to the log fails. Any other passes unchanged."""

Offsets = Mapping[Key, Committed]
Entry = tuple[bytes, bytes | None]


class Store:
    """One partition under one leader, at whose broker this is. The next leader reads the log again."""

    def __init__(self, context: Context, replica: Replica) -> None:
        self.offsets: dict[str, dict[str, dict[int, Committed]]] = {}  # by group, topic and partition
        self.pending = PendingOffsets()
        self.consumers = ConsumerGroupStates()
        self._context = context
        self._now_ms = context.brokers[replica.node].now_ms
        self.shares = ShareGroupStates(self._now_ms)
        self._replica = replica
        self._epoch = replica.leader_epoch
        self._timeout_ms = int(context.config["offsets.commit.timeout.ms"])
        self._with_ids = context.release.differs.offsets_have_topic_ids
        self._with_young = context.release.differs.young_groups_are_written
        self._saved: dict[str, GroupMetadataValue | None] = {}
        self._read()

    def load(self, now_ms: int) -> list[Group]:
        """Every classic group of the log: stable with members, empty without. A group that has only offsets is empty, too."""
        saved = {
            group_id: value
            for group_id, value in self._saved.items()
            if group_id not in self.consumers.groups and group_id not in self.shares.groups
        }
        self._saved = {}
        return [_group(group_id, value) if value is not None else Group(group_id, now_ms) for group_id, value in saved.items()]

    def save(self, group: Group, then: Then | None = None, *, assigned: Mapping[str, bytes] | None = None) -> None:
        """Writes the group as it is now, or with these assignments. A coordinator writes only assignments, and that a group is empty."""
        if group.generation == 0 and not self._with_young:
            return
        self._write([(group_key(group.id), group_value(_value(group, assigned)))], _nothing, then or _unheard)

    def write_consumer_group(
        self,
        group_id: str,
        records: Sequence[ConsumerRecord],
        then: Then | None = None,
        *,
        replaced: Callable[[], None] | None = None,
        becomes: Group | None = None,
        adopt: Callable[[], None] | None = None,
    ) -> None:
        """Writes records of a group of the consumer protocol, which changes once the leader's log has them. `replaced`: called then, if the
        group takes the place of a classic one. `becomes` and `adopt`: a classic group takes its place, and what is called then."""

        def apply() -> None:
            if replaced is not None:
                replaced()
            for record in records:
                self.consumers.replay(record)
            if adopt is not None:
                adopt()

        first = tombstones([group_key(group_id)] if replaced is not None else [])
        last = [(group_key(group_id), group_value(_value(becomes, None)))] if becomes is not None else []
        self._write([*first, *(record.entry() for record in records), *last], apply, then or _unheard, at_append=True)

    def write_share_group(self, records: Sequence[ShareGroupRecord], then: Then | None = None) -> None:
        """Writes records of a share group, which changes once the leader's log has them."""

        def apply() -> None:
            for record in records:
                self.shares.replay(record)

        self._write([record.entry() for record in records], apply, then or _unheard, at_append=True)

    def delete_consumer_group(self, group_id: str, records: Sequence[ConsumerRecord], then: Then | None = None) -> None:
        """Writes the deletion of a group of the consumer protocol, and of its offsets."""
        keys = self.keys(group_id)

        def apply() -> None:
            for key in keys:
                self._forget(key)
            for record in records:
                self.consumers.replay(record)

        entries = [*tombstones(map(offset_key, keys)), *(record.entry() for record in records)]
        self._write(entries, apply, then or _unheard, at_append=then is None)

    def commit(self, offsets: Offsets, then: Then) -> None:
        """Writes offsets that count once they are written."""

        def apply() -> None:
            for key, committed in offsets.items():
                self._commit(key, committed)

        self._write(self._entries(offsets), apply, then)

    def commit_pending(self, identity: Identity, offsets: Offsets, *, guard: int | None, then: Then) -> None:
        """Writes offsets that count once that producer's transaction commits. `guard`: from the partition's log, for the batch."""
        now_ms = self._now_ms()
        data = encode_batch(
            [(now_ms, key, value) for key, value in self._entries(offsets)],
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            transactional=True,
        )

        def written() -> None:
            for key, committed in offsets.items():
                self.pending.add(identity.producer_id, key, committed)

        how = How(guard=guard, written=written)
        append(self._context, self._replica, data, timeout_ms=self._timeout_ms, then=lambda code: then(_told(code)), how=how)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Commits or aborts the offsets of that producer's transaction."""
        for (group_id, topic, partition), committed in self.pending.end(producer_id).items():
            if commit and committed is not None:
                self.offsets.setdefault(group_id, {}).setdefault(topic, {})[partition] = committed

    def delete(self, group: Group, then: Then | None = None) -> None:
        """Writes the deletion of the group and its offsets."""
        known = self._with_young or group.generation > 0
        self._forget_all(self.keys(group.id), [group_key(group.id)] if known else [], then)

    def forget(self, keys: Sequence[Key], then: Then | None = None) -> None:
        """Writes the deletion of these offsets."""
        self._forget_all(keys, [], then)

    def _forget_all(self, keys: Sequence[Key], groups: list[bytes], then: Then | None) -> None:

        def apply() -> None:
            for key in keys:
                self._forget(key)

        # Offsets expire when a request comes, long after Kafka would have replicated that. So a deletion that no request waits for counts
        # at once.
        self._write(tombstones([*map(offset_key, keys), *groups]), apply, then or _unheard, at_append=then is None)

    def keys(self, group_id: str) -> list[Key]:
        """Every offset of the group, committed and pending. A partition may have both."""
        committed = [(group_id, topic, partition) for topic, offsets in self.offsets.get(group_id, {}).items() for partition in offsets]
        return [*committed, *(key for key in self.pending.every() if key[0] == group_id)]

    def keys_of_topic(self, topic: str) -> list[Key]:
        """The same for all offsets of a topic, of every group."""
        groups = dict.fromkeys([*self.offsets, *(group_id for group_id, _, _ in self.pending.every())])
        return [key for group_id in groups for key in self.keys(group_id) if key[1] == topic]

    def _entries(self, offsets: Offsets) -> list[Entry]:
        return [(offset_key(key), offset_value(committed, with_ids=self._with_ids)) for key, committed in offsets.items()]

    def _write(self, entries: Sequence[Entry], apply: Callable[[], None], then: Then, *, at_append: bool = False) -> None:
        """`apply` is called when the records are replicated; `at_append`: already when the leader's log has them."""
        if not entries:
            then(ErrorCode.NONE)
            return
        if self._replica.leader_epoch != self._epoch:
            then(ErrorCode.NOT_COORDINATOR)
            return
        context = self._context
        now_ms = self._now_ms()
        answer = _Answer(then)

        def written(code: int) -> None:
            if not code and not at_append:
                apply()
            answer(_told(code))

        # Kafka also gives sequence numbers to a batch without producer id.
        data = encode_batch([(now_ms, key, value) for key, value in entries], base_sequence=0)
        append(context, self._replica, data, timeout_ms=FOREVER_MS, then=written, how=How(written=apply if at_append else None))
        if not answer.given:
            answer.timer = context.later_on(self._replica.node, self._timeout_ms, lambda: answer(_told(ErrorCode.REQUEST_TIMED_OUT)))

    # The log

    def _read(self) -> None:
        for header, batch in self._replica.log.batches():
            if header.is_control:
                kind, _, _ = read_marker(batch)
                if kind in (ControlType.COMMIT, ControlType.ABORT):
                    self.end_transaction(header.producer_id, commit=kind == ControlType.COMMIT)
                continue
            producer_id = header.producer_id if header.is_transactional else None
            for record in read_records(batch, verify_crc=False):
                assert record.key is not None
                of_consumers = read_consumer_record(record.key, record.value)
                of_shares = read_share_group_record(record.key, record.value) if of_consumers is None else None
                if of_consumers is not None:
                    self.consumers.replay(of_consumers)
                elif of_shares is not None:
                    self.shares.replay(of_shares)
                else:
                    self._replay(read_record(record.key, record.value), producer_id)

    def _replay(self, record: OffsetRecord | GroupRecord | None, producer_id: int | None) -> None:
        if isinstance(record, GroupRecord):
            if record.value is not None:
                self._saved[record.group_id] = record.value
            else:
                self._saved.pop(record.group_id, None)
        elif isinstance(record, OffsetRecord):
            if record.committed is None:
                self._forget(record.key)
                return
            self._saved.setdefault(record.key[0])
            if producer_id is None:
                self._commit(record.key, record.committed)
            else:
                self.pending.add(producer_id, record.key, record.committed)

    def _commit(self, key: Key, committed: Committed) -> None:
        group_id, topic, partition = key
        self.pending.supersede(key)
        self.offsets.setdefault(group_id, {}).setdefault(topic, {})[partition] = committed

    def _forget(self, key: Key) -> None:
        group_id, topic, partition = key
        topics = self.offsets.get(group_id, {})
        offsets = topics.get(topic, {})
        offsets.pop(partition, None)
        if not offsets:
            topics.pop(topic, None)
        if not topics:
            self.offsets.pop(group_id, None)
        self.pending.drop(lambda each: each == key)


class _Answer:
    """Answers the request that waits for a write, once."""

    __slots__ = ("_then", "given", "timer")

    def __init__(self, then: Then) -> None:
        self._then = then
        self.given = False
        self.timer: Timer | None = None

    def __call__(self, code: int) -> None:
        if self.given:
            return
        self.given = True
        if self.timer is not None:
            self.timer.cancel()
        self._then(code)


def _told(code: int) -> int:
    return MEANING.get(ErrorCode(code), ErrorCode(code)) if code else ErrorCode.NONE


def _nothing() -> None:
    """Ignores a group's own record."""


def _unheard(code: int) -> None:
    """Ignores the result."""


def _value(group: Group, assigned: Mapping[str, bytes] | None) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=group.since_ms,
        members=[
            MemberMetadata(
                member_id=member.id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol),
                assignment=assigned.get(member.id, b"") if assigned is not None else member.assignment,
            )
            for member in (() if group.state is State.EMPTY else group.members.values())
        ],
    )


def _group(group_id: str, value: GroupMetadataValue) -> Group:
    group = Group(group_id, value.current_state_timestamp, state=State.STABLE if value.members else State.EMPTY)
    group.generation, group.protocol_type, group.protocol = value.generation, value.protocol_type or None, value.protocol
    for each in value.members:
        group.add(
            Member(
                each.member_id,
                instance_id=each.group_instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                session_timeout_ms=each.session_timeout,
                rebalance_timeout_ms=each.rebalance_timeout,
                protocol_type=value.protocol_type,
                protocols=((value.protocol or "", each.subscription),),
                assignment=each.assignment,
            )
        )
    group.leader = value.leader
    group.note_subscriptions()
    return group
