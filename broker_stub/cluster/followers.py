"""The live followers of a partition that cannot reach its leader: where the log of each ends, and since when.

Followers that can reach their leader are never behind here and have no entry. This file moves no data and elects no leader.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from fencepost.broker_stub.log import Checkpoint


class _Behind(NamedTuple):
    log: Checkpoint
    since_ms: int


class Followers:
    """Of one partition."""

    __slots__ = ("_behind",)

    def __init__(self) -> None:
        self._behind: dict[int, _Behind] = {}

    def __bool__(self) -> bool:
        return bool(self._behind)

    def fall_behind(self, node: int, log: Checkpoint, *, now_ms: int) -> None:
        """Stops the follower's log at its current end."""
        self._behind[node] = _Behind(log, now_ms)

    def catch_up(self, node: int) -> None:
        """Removes the follower, because it has caught up."""
        self._behind.pop(node, None)

    def log_of(self, node: int) -> Checkpoint | None:
        """Where its log ends. None: it is not behind."""
        behind = self._behind.get(node)
        return behind.log if behind is not None else None

    def cut(self, to: Checkpoint) -> None:
        """Truncates the followers' logs to where the leader's log ends."""
        self._behind = {
            node: each if each.log.end_offset <= to.end_offset else _Behind(to, each.since_ms) for node, each in self._behind.items()
        }

    def least(self, nodes: Collection[int]) -> int | None:
        """The lowest end among these followers. None: none of them is behind."""
        return min((each.log.end_offset for node, each in self._behind.items() if node in nodes), default=None)

    def overdue(self, now_ms: int, *, lag_max_ms: int) -> list[int]:
        """The followers that have been behind for longer than that."""
        return [node for node, each in self._behind.items() if now_ms - each.since_ms >= lag_max_ms]
