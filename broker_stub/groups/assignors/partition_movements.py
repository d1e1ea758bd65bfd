"""The moves of partitions between members while an assignment is balanced, so that a move back takes back a partition that came from there.

Without this, two members could exchange partitions of one topic, and neither would have kept its own.
"""

from __future__ import annotations

from collections import defaultdict

from fencepost.broker_stub.cluster.coordinator_partition import string_hash
from fencepost.broker_stub.groups.assignors.java_order import HashOrder
from fencepost.broker_stub.groups.assignors.subscriptions import TopicPartition

Move = tuple[str, str, str]
"""Topic, old owner and new owner."""


def _hash(tp: TopicPartition) -> int:
    """Java's `TopicPartition.hashCode`."""
    return 31 * (31 + tp.partition) + string_hash(tp.topic)


class PartitionMovements:
    """The moves so far. A partition that moved several times counts as one move, from its first owner to its last."""

    def __init__(self) -> None:
        self._moves: dict[TopicPartition, tuple[str, str]] = {}
        self._moved: defaultdict[Move, HashOrder[TopicPartition]] = defaultdict(lambda: HashOrder(_hash))

    def move(self, tp: TopicPartition, old: str, new: str) -> None:
        if tp in self._moves:
            first, last = self._moves.pop(tp)
            moved = self._moved[tp.topic, first, last]
            moved.discard(tp)
            if not moved:
                del self._moved[tp.topic, first, last]
            if first == new:
                return
            old = first
        self._moves[tp] = (old, new)
        self._moved[tp.topic, old, new].add(tp)

    def to_move(self, tp: TopicPartition, old: str, new: str) -> TopicPartition:
        """The partition to move from `old` to `new` in place of `tp`: one of the same topic that came from `new`, if there is one."""
        if tp in self._moves:
            old = self._moves[tp][0]
        came_from_there = self._moved.get((tp.topic, new, old))
        return next(iter(came_from_there)) if came_from_there else tp
