"""What a leader knows about one follower, from its fetches (Kafka's `Replica` and `ReplicaState`). It decides nothing."""

from __future__ import annotations

from typing import Final

UNKNOWN: Final = -1
"""The end of a follower's log until it fetches from this leader. It holds the high watermark back while the follower is in the ISR."""


class RemoteReplica:
    """A follower. `end_offset`: where it fetched last, so it has everything before. `caught_up_ms`: when it last had all that the leader
    had. `silent`: its fetches do not arrive any more."""

    __slots__ = ("_fetched_ms", "_leader_end", "caught_up_ms", "end_offset", "log_start_offset", "silent")

    def __init__(self, *, caught_up_ms: int) -> None:
        self.caught_up_ms = caught_up_ms
        self.end_offset = self.log_start_offset = UNKNOWN
        self.silent = False
        self._leader_end = UNKNOWN
        self._fetched_ms = 0

    def fetched(self, offset: int, log_start_offset: int, *, leader_end: int, now_ms: int) -> None:
        """The follower fetches from `offset`, so it has every record before it. It has caught up with the leader's end now, or with the
        leader's end at its previous fetch."""
        if offset >= leader_end:
            self.caught_up_ms = now_ms
        elif offset >= self._leader_end:
            self.caught_up_ms = max(self.caught_up_ms, self._fetched_ms)
        self.end_offset, self.log_start_offset = offset, log_start_offset
        self._leader_end, self._fetched_ms = leader_end, now_ms
        self.silent = False

    def leader_grows(self, end_offset: int, now_ms: int) -> None:
        """The leader's log ends at `end_offset`, and the leader appends now. A follower that waits at that end has caught up until now."""
        if self.end_offset == end_offset and not self.silent:
            self.caught_up_ms = now_ms

    def fell_silent(self, leader_end: int, now_ms: int) -> None:
        """Its fetches do not arrive any more."""
        self.leader_grows(leader_end, now_ms)
        self.silent = True
