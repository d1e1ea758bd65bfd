"""The types of configs, as Kafka's ConfigType names them, and the form in which Kafka writes their values.

It holds no values: `topic_configs` has the defaults.
"""

from __future__ import annotations

from enum import IntEnum

from fencepost.broker_stub.configs.values import double, shown_double


class Type(IntEnum):
    """Kafka's ConfigType."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


_TOPIC_TYPES = {
    Type.BOOLEAN: (
        "preallocate",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "unclean.leader.election.enable",
    ),
    Type.STRING: ("compression.type", "message.timestamp.type"),
    Type.INT: (
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "index.interval.bytes",
        "max.message.bytes",
        "min.insync.replicas",
        "segment.bytes",
        "segment.index.bytes",
    ),
    Type.DOUBLE: ("min.cleanable.dirty.ratio",),
    Type.LIST: ("cleanup.policy", "follower.replication.throttled.replicas", "leader.replication.throttled.replicas"),
}
_TYPE_OF = {name: kind for kind, names in _TOPIC_TYPES.items() for name in names}


def type_of(topic_config: str) -> Type:
    return _TYPE_OF.get(topic_config, Type.LONG)


def in_kafkas_form(name: str, value: str, *, once: bool = True) -> str:
    """The value of a topic config as Kafka writes it back. `once`: a list has each word once."""
    return formed(type_of(name), value, once=once)


def formed(kind: Type, value: str, *, once: bool = True) -> str:
    """A value of that type as Kafka writes it back. `once`: a list has each word once."""
    match kind:
        case Type.BOOLEAN:
            return value.strip().lower()
        case Type.INT | Type.LONG:
            return str(int(value))
        case Type.DOUBLE:
            return shown_double(double(value) or 0.0)
        case Type.LIST:
            words = [each.strip() for each in value.split(",")] if value.strip() else []
            return ",".join(dict.fromkeys(words) if once else words)
        case _:
            return value
