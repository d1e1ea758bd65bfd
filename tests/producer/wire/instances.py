"""Random instances of every message in every version, for the tests that compare and damage bytes."""

from collections.abc import Mapping
from typing import Any

import hypothesis.strategies as st

from fencepost.producer.wire import REQUESTS, RESPONSES, Api, Message, WireStruct
from fencepost.producer.wire.schema.declarations import Array, Blob, FieldSpec, Kind, Nested, Text, Uuid, describe
from fencepost.producer.wire.schema.fields import RecordsType, Scalar

EVERY = [(cls, version) for cls in (*REQUESTS.values(), *RESPONSES.values()) for version in cls.versions]
"""Every (message, version)."""

EVERY_ID = [f"{cls.__name__}-v{version}" for cls, version in EVERY]

REMOVED = {
    Api.PRODUCE: range(3),
    Api.FETCH: range(4),
    Api.LIST_OFFSETS: range(1),
    Api.OFFSET_COMMIT: range(2),
    Api.OFFSET_FETCH: range(1),
    Api.CREATE_TOPICS: range(2),
    Api.DELETE_TOPICS: range(1),
    Api.OFFSET_FOR_LEADER_EPOCH: range(2),
    Api.DESCRIBE_ACLS: range(1),
    Api.CREATE_ACLS: range(1),
    Api.DELETE_ACLS: range(1),
    Api.DESCRIBE_CONFIGS: range(1),
}
"""The versions that Kafka 3.9 speaks and Kafka 4.0 removed (KIP-896)."""

UNSPOKEN = {
    Api.WRITE_TXN_MARKERS: range(1),
    Api.ALTER_REPLICA_LOG_DIRS: range(1),
    Api.DESCRIBE_LOG_DIRS: range(1),
    Api.SHARE_GROUP_HEARTBEAT: range(1),
    Api.SHARE_GROUP_DESCRIBE: range(1),
    Api.SHARE_FETCH: range(1),
    Api.SHARE_ACKNOWLEDGE: range(1),
}
"""Versions of messages between brokers, of ones about log directories, which no known client sends, and of the share groups of Kafka 4.0,
which only tried them out."""

OLDER = [(cls, version) for cls, version in EVERY if version in REMOVED.get(cls.api, ())]
"""Every (message, version) of them."""

OLDER_ID = [f"{cls.__name__}-v{version}" for cls, version in OLDER]

BITS = {"b": 8, "h": 16, "i": 32, "q": 64}

LAST_SECOND = 253_402_300_799
"""The end of the year 9999, where the times of some libraries end; they also know no milliseconds, or lose some to floating point."""

# Lengths around 127 and 128 matter: there a varint becomes one byte longer.
texts = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.integers(120, 140).map(lambda size: "x" * size),
    st.just("é" * 8192),
)
blobs = st.one_of(st.binary(max_size=40), st.integers(4090, 4100).map(bytes), st.just(bytes(range(256)) * 80))


def of_message(row: Mapping[str, Any]) -> str:
    """A kind for `drawn`: a run takes some versions of each message."""
    return str(row["cls"].__name__)


def messages(cls: type[Message], version: int) -> st.SearchStrategy[Any]:
    """Instances that this version can carry."""
    return _structs(cls, version)


def _structs(struct: type[WireStruct], version: int) -> st.SearchStrategy[Any]:
    """Instances of a struct. Sometimes a field keeps its default, which matters for tagged fields."""
    fields = {field.name: _values(field, version) for field in describe(struct) if field.present(version)}
    return st.builds(lambda **values: struct(**values), **fields)


def _values(field: FieldSpec, version: int) -> st.SearchStrategy[Any]:
    """Values of a field, with null if the version allows it."""
    if field.name.endswith("error_code"):
        values = st.integers(-1, 133)
    elif field.name in ("log_append_time_ms", "retention_time_ms"):
        values = st.one_of(st.just(-1), st.integers(0, LAST_SECOND).map(lambda seconds: seconds * 1000))
    elif field.name in ("session_lifetime_ms", "transaction_start_time_ms"):  # kio knows no -1 there, which Kafka sends for no start
        values = st.integers(0, LAST_SECOND).map(lambda seconds: seconds * 1000)
    else:
        values = _kinds(field.kind, version)
    if field.nullable_in(version):
        values = st.one_of(st.none(), values)
    return st.one_of(st.just(field.default), values) if field.tag is not None else values


def _kinds(kind: Kind, version: int) -> st.SearchStrategy[Any]:
    """Values of a wire type."""
    match kind:
        case Scalar(code="?"):
            return st.booleans()
        case Scalar(code="d"):
            return st.floats(allow_nan=False)
        case Scalar(code="H"):
            return st.integers(0, (1 << 16) - 1)
        case Scalar():
            bound = 1 << (BITS[kind.code] - 1)
            return st.integers(-bound, bound - 1)
        case Text():
            return texts
        case Uuid():
            return st.one_of(st.uuids(), st.uuids(allow_nil=True))
        case Blob() | RecordsType():
            return blobs
        case Nested():
            return _structs(kind.struct, version)
        case Array(element=Scalar()):
            return st.one_of(st.lists(_kinds(kind.element, version), max_size=4), st.integers(126, 129).map(lambda size: [7] * size))
        case Array():
            return st.lists(_kinds(kind.element, version), max_size=3)
