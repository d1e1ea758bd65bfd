"""A hash of the topics to which a group subscribes (KIP-1101). When it changes, the group's partitions are assigned again."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from fencepost.broker_stub.cluster.topics import Topic, Topics
from fencepost.broker_stub.groups.consumer.xxh3 import xxh3_64

NO_TOPICS: Final = 0
_VERSION: Final = b"\0"


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """Of those of the topics that exist, in the order of their names."""
    found = [topic for name in sorted(names) if (topic := topics.named(name)) is not None]
    if not found:
        return NO_TOPICS
    (signed,) = struct.unpack("<q", struct.pack("<Q", xxh3_64(b"".join(struct.pack("<Q", _topic_hash(topic)) for topic in found))))
    return int(signed)


def _topic_hash(topic: Topic) -> int:
    """Of its id, its name and its partitions. (Kafka adds the racks of their replicas, and no broker here has one.)"""
    high, low = topic.id.int >> 64, topic.id.int & (1 << 64) - 1
    name = topic.name.encode("utf-16-le")
    count = len(topic.partitions)
    facts = struct.pack(f"<QQ{len(name)}sii", high, low, name, len(topic.name), count)
    return xxh3_64(_VERSION + facts + struct.pack(f"<{count}i", *range(count)))
