"""What group coordinators write into `__consumer_offsets`, in Kafka's own format: committed offsets, and groups of the classic protocol.

The first two bytes of a key are its type. Records of the newer protocols' groups are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct as Layout
from typing import Annotated, Final, NamedTuple, TypeVar
from uuid import UUID

from fencepost.broker_stub.groups.pending_offsets import Committed, Key
from fencepost.producer.wire.schema.compiler import decoder_of, encoder_of
from fencepost.producer.wire.schema.fields import ZERO_UUID, WireStruct, i32, i64, since, tag, until

_VERSION: Final = Layout(">h")
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
    return _written(OffsetCommitKey(group=group, topic=topic, partition=partition), OFFSET_KEY, version=0)


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
    return _written(value, version, version=version)


def group_key(group_id: str) -> bytes:
    return _written(GroupMetadataKey(group=group_id), GROUP_KEY, version=0)


def group_value(value: GroupMetadataValue) -> bytes:
    return _written(value, GROUP_VERSION, version=GROUP_VERSION)


def tombstones(keys: Iterable[bytes]) -> list[tuple[bytes, None]]:
    return [(key, None) for key in keys]


def read_record(key: bytes, value: bytes | None) -> OffsetRecord | GroupRecord | None:
    """The content of a record. None: a record of another type."""
    kind = _version(key)
    if kind in (OLD_OFFSET_KEY, OFFSET_KEY):
        which = _read(OffsetCommitKey, key, version=0)
        return OffsetRecord((which.group, which.topic, which.partition), _committed(value) if value is not None else None)
    if kind == GROUP_KEY:
        group_id = _read(GroupMetadataKey, key, version=0).group
        return GroupRecord(group_id, _read(GroupMetadataValue, value, version=_version(value)) if value is not None else None)
    return None


def _committed(data: bytes) -> Committed:
    value = _read(OffsetCommitValue, data, version=_version(data))
    return Committed(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.topic_id,
        at_ms=value.commit_timestamp,
        expires_ms=value.expire_timestamp,
    )


def _version(data: bytes) -> int:
    (version,) = _VERSION.unpack_from(data)
    return int(version)


def _written(struct: WireStruct, prefix: int, *, version: int) -> bytes:
    kind = type(struct)
    parts: list[bytes | bytearray | memoryview] = []
    encode = encoder_of(kind, version, flexible=_is_flexible(kind, version))
    last = encode(struct, bytearray(_VERSION.pack(prefix)), parts)
    return b"".join((*parts, last)) if parts else bytes(last)


def _read(struct: type[S], data: bytes, *, version: int) -> S:
    decode = decoder_of(struct, version, flexible=_is_flexible(struct, version), api=None)
    found: S = decode(data, _VERSION.size, len(data))
    return found


def _is_flexible(struct: type[WireStruct], version: int) -> bool:
    # Both values are flexible from version 4 on; the keys never are.
    return version >= WITH_IDS and struct in (OffsetCommitValue, GroupMetadataValue)
