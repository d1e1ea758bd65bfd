"""Offsets that were committed within a transaction and do not count until it ends.

It commits none: who keeps the offsets asks what a transaction has left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple
from uuid import UUID

Key = tuple[str, str, int]
"""Group, topic and partition."""


class Committed(NamedTuple):
    """A committed offset; `topic_id` is that of the topic of that name when it was committed, and all zeros where nobody said it."""

    offset: int
    leader_epoch: int
    metadata: str
    topic_id: UUID
    at_ms: int = -1
    expires_ms: int = -1  # what its committer wanted, -1 for nothing in particular


class PendingOffsets:
    """By producer id. None stands for an offset that a later commit without a transaction has made obsolete: it is pending all the same."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[Key, Committed | None]] = {}

    def add(self, producer_id: int, key: Key, committed: Committed) -> None:
        self._by_producer.setdefault(producer_id, {})[key] = committed

    def supersede(self, key: Key) -> None:
        """This offset was committed by somebody else."""
        for offsets in self._by_producer.values():
            if key in offsets:
                offsets[key] = None

    def has(self, key: Key) -> bool:
        """Whether somebody's transaction will yet decide about this offset."""
        return any(key in offsets for offsets in self._by_producer.values())

    def end(self, producer_id: int) -> dict[Key, Committed | None]:
        """What this producer's transaction has left behind, which is forgotten."""
        return self._by_producer.pop(producer_id, {})

    def every(self) -> Iterator[Key]:
        """Every offset that somebody's transaction will yet decide about."""
        return (key for offsets in self._by_producer.values() for key in offsets)

    def drop(self, gone: Callable[[Key], bool]) -> None:
        """Forgets the offsets of a group or of a topic that is gone."""
        for offsets in self._by_producer.values():
            for key in [key for key in offsets if gone(key)]:
                del offsets[key]
