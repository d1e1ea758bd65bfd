"""What group coordinators write into `__consumer_offsets`, in Kafka's own format: committed offsets, and groups of the classic protocol.

The first two bytes of a key are its type. `consumer_group_records` has those of the new protocol's
groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Final, NamedTuple, TypeVar
from uuid import UUID

from fencepost.broker_stub.cluster.record_format import prefix_of, read, written
from fencepost.broker_stub.groups.state.pending_offsets import Committed, Key
from fencepost.producer.wire.schema.fields import ZERO_UUID, WireStruct, i32, i64, since, tag, until

OLD_OFFSET_KEY, OFFSET_KEY, GROUP_KEY = 0, 1, 2
WITH_EXPIRY: Final = 1  # the only version of an offset that has its expiry
BEFORE_IDS: Final = 3
WITH_IDS: Final = 4  # the first flexible one
GROUP_VERSION: Final = 3
KEYS_KEPT: Final = 4096
_NO_TIME: Final = -1


class OffsetCommitKey(WireStruct):
    """The key of an offset."""

    group: str = ""
    topic: str = ""
    partition: i32 = 0


class OffsetCommitValue(WireStruct):
    """An offset."""

    offset: i64 = 0
    leader_epoch: Annotated[i32, since(3)] = -1
    metadata: str = ""
    commit_timestamp: i64 = 0
    expire_timestamp: Annotated[i64, since(1), until(1)] = -1
    topic_id: Annotated[UUID, since(4), tag(0)] = ZERO_UUID


class GroupMetadataKey(WireStruct):
    """The key of a group."""

    group: str = ""


class MemberMetadata(WireStruct):
    """A member at the last assignment."""

    member_id: str = ""
    group_instance_id: Annotated[str | None, since(3)] = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: Annotated[i32, since(1)] = -1
    session_timeout: i32 = 0
    subscription: bytes = b""
    assignment: bytes = b""


class GroupMetadataValue(WireStruct):
    """A group at its last assignment, or when it became empty."""

    protocol_type: str = ""
    generation: i32 = 0
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp: Annotated[i64, since(2)] = -1
    members: list[MemberMetadata] = []


class OffsetRecord(NamedTuple):
    """The record of a committed offset. None: the offset is deleted."""

    key: Key
    committed: Committed | None


class GroupRecord(NamedTuple):
    """The record of a group. None: the group is deleted."""

    group_id: str
    value: GroupMetadataValue | None


S = TypeVar("S", bound=WireStruct)


@lru_cache(maxsize=KEYS_KEPT)
def offset_key(key: Key) -> bytes:
    """Cached, because every commit writes the same keys."""
    group, topic, partition = key
    return written(OffsetCommitKey(group=group, topic=topic, partition=partition), OFFSET_KEY, version=0)


def offset_value(committed: Committed, *, with_ids: bool) -> bytes:
    """Version 1 for an offset with expiry, which has no leader epoch. Other offsets have the topic's id, or not."""
    version = WITH_EXPIRY if committed.expires_ms != _NO_TIME else WITH_IDS if with_ids else BEFORE_IDS
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch if version > WITH_EXPIRY else -1,
        metadata=committed.metadata,
        commit_timestamp=committed.at_ms,
        expire_timestamp=committed.expires_ms,
        topic_id=committed.topic_id if version >= WITH_IDS else ZERO_UUID,
    )
    return written(value, version, version=version, flexible=version >= WITH_IDS)


def group_key(group_id: str) -> bytes:
    return written(GroupMetadataKey(group=group_id), GROUP_KEY, version=0)


def group_value(value: GroupMetadataValue) -> bytes:
    return written(value, GROUP_VERSION, version=GROUP_VERSION)


def tombstones(keys: Iterable[bytes]) -> list[tuple[bytes, None]]:
    return [(key, None) for key in keys]


def read_record(key: bytes, value: bytes | None) -> OffsetRecord | GroupRecord | None:
    """The content of a record. None: a record of another type."""
    kind = prefix_of(key)
    if kind in (OLD_OFFSET_KEY, OFFSET_KEY):
        which = read(OffsetCommitKey, key, version=0)
        return OffsetRecord((which.group, which.topic, which.partition), _committed(value) if value is not None else None)
    if kind == GROUP_KEY:
        group_id = read(GroupMetadataKey, key, version=0).group
        return GroupRecord(group_id, _read_value(GroupMetadataValue, value) if value is not None else None)
    return None


def _committed(data: bytes) -> Committed:
    value = _read_value(OffsetCommitValue, data)
    return Committed(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.topic_id,
        at_ms=value.commit_timestamp,
        expires_ms=value.expire_timestamp,
    )


def _read_value(struct: type[S], data: bytes) -> S:
    version = prefix_of(data)
    # Both values are flexible from this version on; the keys never are.
    return read(struct, data, version=version, flexible=version >= WITH_IDS)
