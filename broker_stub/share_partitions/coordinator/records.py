"""What share coordinators write into `__share_group_state`, in Kafka's own format (KIP-932).

A share partition has a snapshot, and updates after it. A snapshot without a value ends it. This file decides nothing.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple
from uuid import UUID

from fencepost.broker_stub.cluster.record_format import prefix_of, read, written
from fencepost.broker_stub.share_partitions.states import NO_OFFSET, StateBatch
from fencepost.producer.wire.schema.fields import ZERO_UUID, WireStruct, i8, i16, i32, i64, tag

NO_COUNT: Final = -1
SNAPSHOT, UPDATE = 0, 1


class Key(NamedTuple):
    """A share partition."""

    group_id: str
    topic_id: UUID
    partition: int


class _Key(WireStruct):
    group_id: str = ""
    topic_id: UUID = ZERO_UUID
    partition: i32 = 0


class _StateBatch(WireStruct):
    first_offset: i64 = 0
    last_offset: i64 = 0
    delivery_state: i8 = 0
    delivery_count: i16 = 0


class _Snapshot(WireStruct):
    snapshot_epoch: i32 = 0
    state_epoch: i32 = 0
    leader_epoch: i32 = 0
    start_offset: i64 = 0
    delivery_complete_count: Annotated[i32, tag(0)] = NO_COUNT
    create_timestamp: i64 = 0
    write_timestamp: i64 = 0
    state_batches: list[_StateBatch] = []


class _Update(WireStruct):
    snapshot_epoch: i32 = 0
    leader_epoch: i32 = 0
    start_offset: i64 = 0
    delivery_complete_count: Annotated[i32, tag(0)] = NO_COUNT
    state_batches: list[_StateBatch] = []


class Snapshot(NamedTuple):
    """The whole state of a share partition. `done_count`: how many records from the start on need no delivery any more."""

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = NO_OFFSET
    done_count: int = NO_COUNT
    batches: tuple[StateBatch, ...] = ()
    created_ms: int = 0
    written_ms: int = 0


class Update(NamedTuple):
    """What changed since the snapshot. A start offset or a leader epoch of -1: unchanged."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    done_count: int
    batches: tuple[StateBatch, ...] = ()


class ShareRecord(NamedTuple):
    """One record. None: the share partition has ended."""

    key: Key
    value: Snapshot | Update | None = None

    def entry(self) -> tuple[bytes, bytes | None]:
        """The key and the value as they are written."""
        kind = UPDATE if isinstance(self.value, Update) else SNAPSHOT
        return written(_Key(**self.key._asdict()), kind, version=0), None if self.value is None else _value(self.value)


def _value(value: Snapshot | Update) -> bytes:
    batches = [
        _StateBatch(first_offset=each.first, last_offset=each.last, delivery_state=each.state, delivery_count=each.deliveries)
        for each in value.batches
    ]
    if isinstance(value, Update):
        update = _Update(
            snapshot_epoch=value.snapshot_epoch,
            leader_epoch=value.leader_epoch,
            start_offset=value.start_offset,
            delivery_complete_count=value.done_count,
            state_batches=batches,
        )
        return written(update, 0, version=0, flexible=True)
    snapshot = _Snapshot(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=value.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.done_count,
        create_timestamp=value.created_ms,
        write_timestamp=value.written_ms,
        state_batches=batches,
    )
    return written(snapshot, 0, version=0, flexible=True)


def read_share_record(key: bytes, value: bytes | None) -> ShareRecord | None:
    """The content of a record. None: a record of another type."""
    kind = prefix_of(key)
    if kind not in (SNAPSHOT, UPDATE):
        return None
    found = read(_Key, key, version=0)
    of = Key(found.group_id, found.topic_id, found.partition)
    if value is None:
        return ShareRecord(of)
    if kind == UPDATE:
        update = read(_Update, value, version=0, flexible=True)
        changed = Update(
            update.snapshot_epoch,
            update.leader_epoch,
            update.start_offset,
            update.delivery_complete_count,
            _batches(update.state_batches),
        )
        return ShareRecord(of, changed)
    whole = read(_Snapshot, value, version=0, flexible=True)
    snapshot = Snapshot(
        whole.snapshot_epoch,
        whole.state_epoch,
        whole.leader_epoch,
        whole.start_offset,
        whole.delivery_complete_count,
        _batches(whole.state_batches),
        whole.create_timestamp,
        whole.write_timestamp,
    )
    return ShareRecord(of, snapshot)


def _batches(found: list[_StateBatch]) -> tuple[StateBatch, ...]:
    return tuple(StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in found)
