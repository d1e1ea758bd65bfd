"""The embedded protocol "consumer": subscriptions and assignments, which members pass each other through the group coordinator as bytes.

A version that is newer than the newest known one begins with that one's fields. Bytes behind them are ignored.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from fencepost.broker_stub.groups.assignors.subscriptions import NO_GENERATION, TopicPartition
from fencepost.producer.foundations.counted import counted

T = TypeVar("T")

OWNED_SINCE = 1
GENERATION_SINCE = 2
RACK_SINCE = 3
NEWEST = 3


class Unreadable(ValueError):
    """The bytes are no subscription, or no assignment."""


class Subscription(NamedTuple):
    """What a member subscribes to, and what it owned when it joined."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None


def read_subscription(data: bytes) -> Subscription:
    """Raises Unreadable."""
    return _read(_subscription, data, "subscription")


def read_topics(data: bytes) -> tuple[str, ...]:
    """The topics of a subscription, read as version 0, with which every version begins. Raises struct.error and UnicodeDecodeError."""
    reader = _Reader(data)
    reader.number("h")
    return reader.topics()


def read_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Nothing for no bytes. Raises Unreadable."""
    return _read(_assignment, data, "assignment") if data else ()


def read_user_data(data: bytes) -> bytes | None:
    """What an assignor of the program's own put into an assignment. None: nothing. Raises Unreadable."""
    return _read(_assigned_user_data, data, "assignment") if data else None


def read_version(data: bytes) -> int:
    """The version of a subscription or an assignment. Raises Unreadable."""
    return _read(lambda reader: reader.number("h"), data, "subscription")


def write_assignment(partitions: Mapping[str, Sequence[int]], version: int) -> bytes:
    """An assignment without user data, by topic. A version above Kafka's newest one becomes that."""
    parts = [struct.pack(">hi", min(version, NEWEST), len(partitions))]
    for topic, indexes in partitions.items():
        name = topic.encode()
        parts.append(struct.pack(f">h{len(name)}si{len(indexes)}i", len(name), name, len(indexes), *indexes))
    return b"".join([*parts, struct.pack(">i", -1)])


def _read(read: Callable[[_Reader], T], data: bytes, what: str) -> T:
    try:
        return read(_Reader(data))
    except (struct.error, UnicodeDecodeError) as error:
        raise Unreadable(f"{counted(len(data), 'byte')} are no {what} of the protocol 'consumer': {error}") from None


def _subscription(reader: _Reader) -> Subscription:
    version = reader.number("h")
    topics = reader.topics()
    user_data = reader.nullable("i")
    owned = reader.partitions() if version >= OWNED_SINCE else ()
    generation = reader.number("i") if version >= GENERATION_SINCE else NO_GENERATION
    rack = reader.nullable("h") if version >= RACK_SINCE else None
    return Subscription(topics, user_data, owned, generation, rack.decode() if rack is not None else None)


def _assigned_user_data(reader: _Reader) -> bytes | None:
    _assignment(reader)
    return reader.nullable("i")


def _assignment(reader: _Reader) -> tuple[TopicPartition, ...]:
    reader.number("h")
    return reader.partitions()


class _Reader:
    """Reads values one after the other. Raises struct.error where the bytes end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, code: str) -> int:
        (value,) = struct.unpack_from(f">{code}", self._data, self._at)
        self._at += struct.calcsize(f">{code}")
        return int(value)

    def nullable(self, code: str) -> bytes | None:
        """Bytes behind their length; None for a negative one."""
        size = self.number(code)
        if size < 0:
            return None
        (value,) = struct.unpack_from(f"{size}s", self._data, self._at)
        self._at += size
        return bytes(value)

    def text(self) -> str:
        found = self.nullable("h")
        if found is None:
            raise struct.error(f"a name is null, behind {counted(self._at, 'byte')}")
        return found.decode()

    def topics(self) -> tuple[str, ...]:
        return tuple(self.text() for _ in range(self.number("i")))

    def partitions(self) -> tuple[TopicPartition, ...]:
        found: list[TopicPartition] = []
        for _ in range(self.number("i")):
            topic = self.text()
            found += [TopicPartition(topic, self.number("i")) for _ in range(self.number("i"))]
        return tuple(found)
