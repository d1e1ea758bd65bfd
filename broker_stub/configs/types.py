"""The types of configs, as Kafka's ConfigType names them, and the configs that brokers describe and the stub does not implement.

It has no values that are in force.
"""

from __future__ import annotations

from enum import IntEnum


class Type(IntEnum):
    """Kafka's ConfigType."""

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

# Broker configs without a default, and the coarser configs that count instead.
COARSER = {
    "log.flush.interval.ms": (("log.flush.scheduler.interval.ms", str(2**63 - 1), Type.LONG),),
    "log.retention.ms": (("log.retention.minutes", None, Type.INT), ("log.retention.hours", "168", Type.INT)),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", "0", Type.INT),),
    "log.roll.ms": (("log.roll.hours", "168", Type.INT),),
}

# Configs that a client may describe and that have no effect in the stub.
OTHERS = {
    "auto.leader.rebalance.enable": ("true", Type.BOOLEAN),
    "fetch.max.bytes": ("57671680", Type.INT),
    "log.retention.check.interval.ms": ("300000", Type.LONG),
    "offsets.topic.compression.codec": ("0", Type.INT),
    "offsets.topic.segment.bytes": ("104857600", Type.INT),
    "queued.max.requests": ("500", Type.INT),
    "replica.fetch.max.bytes": ("1048576", Type.INT),
    "request.timeout.ms": ("30000", Type.INT),
    "security.inter.broker.protocol": ("PLAINTEXT", Type.STRING),
    "socket.receive.buffer.bytes": ("102400", Type.INT),
    "socket.request.max.bytes": ("104857600", Type.INT),
    "socket.send.buffer.bytes": ("102400", Type.INT),
    "transaction.state.log.segment.bytes": ("104857600", Type.INT),
}


def type_of(topic_config: str) -> Type:
    return _TYPE_OF.get(topic_config, Type.LONG)


def in_kafkas_form(name: str, value: str, *, once: bool = True) -> str:
    """The value of a topic config as Kafka writes it back. `once`: a list has each word once."""
    match type_of(name):
        case Type.BOOLEAN:
            return value.strip().lower()
        case Type.INT | Type.LONG:
            return str(int(value))
        case Type.DOUBLE:
            return str(float(value))
        case Type.LIST:
            words = [each.strip() for each in value.split(",")] if value.strip() else []
            return ",".join(dict.fromkeys(words) if once else words)
        case _:
            return value
