"""Offsets that were committed within a transaction and do not count until it ends.

`consumer_offsets_log` takes the offsets of a transaction from here when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple
from uuid import UUID

Key = tuple[str, str, int]
"""Group, topic and partition."""


class Committed(NamedTuple):
    """A committed offset. `topic_id` is the topic's id at the commit, and zero where the request had none."""

    offset: int
    leader_epoch: int
    metadata: str
    topic_id: UUID
    at_ms: int = -1
    expires_ms: int = -1  # the expiry that the sender asked for, -1 for none


class PendingOffsets:
    """By producer id. None is an offset that a later commit without a transaction replaced: it is still pending."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[Key, Committed | None]] = {}

    def add(self, producer_id: int, key: Key, committed: Committed) -> None:
        self._by_producer.setdefault(producer_id, {})[key] = committed

    def supersede(self, key: Key) -> None:
        """Notes a commit of this offset outside the producer's transaction."""
        for offsets in self._by_producer.values():
            if key in offsets:
                offsets[key] = None

    def has(self, key: Key) -> bool:
        """Whether an open transaction has this offset."""
        return any(key in offsets for offsets in self._by_producer.values())

    def end(self, producer_id: int) -> dict[Key, Committed | None]:
        """Takes out the offsets of this producer's transaction."""
        return self._by_producer.pop(producer_id, {})

    def every(self) -> Iterator[Key]:
        """Every offset of open transactions."""
        return (key for offsets in self._by_producer.values() for key in offsets)

    def drop(self, gone: Callable[[Key], bool]) -> None:
        """Removes the offsets of a deleted group or topic."""
        for offsets in self._by_producer.values():
            for key in [key for key in offsets if gone(key)]:
                del offsets[key]
