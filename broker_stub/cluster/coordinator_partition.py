"""Which partition of an internal topic a group or a transactional id belongs to; that partition's leader is its coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.context import Context
    from fencepost.broker_stub.replication.replica import Replica


def string_hash(text: str) -> int:
    """Java's `String.hashCode`, over UTF-16 code units."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(data), 2):
        value = (31 * value + (data[at] << 8 | data[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def partition_for(key: str, partitions: int) -> int:
    """Java's `Utils.abs(key.hashCode()) % partitions`."""
    value = string_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partitions


def coordinating(context: Context, node: int, topic: str, key: str) -> Replica | None:
    """The replica with which that broker coordinates the key. None: it does not, as far as it knows."""
    known = context.brokers[node].image.topics.named(topic)
    replica = known.partitions[partition_for(key, len(known.partitions))].on(node) if known is not None else None
    return replica if replica is not None and replica.leads else None


def led_by(context: Context, node: int, topic: str) -> list[Replica]:
    """The replicas of that topic with which the broker leads, as far as it knows."""
    known = context.brokers[node].image.topics.named(topic)
    replicas = [each.on(node) for each in known.partitions] if known is not None else []
    return [each for each in replicas if each is not None and each.leads]
