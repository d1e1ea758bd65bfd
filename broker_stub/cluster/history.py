"""What happened to brokers and partitions: the newest changes of leaders, in-sync replicas and brokers, for the inspector and reports.

It is bounded and decides nothing. A partition's first leader is no change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from fencepost.broker_stub.cluster.counters import Counters
from fencepost.broker_stub.replication.partition_state import NO_LEADER, PartitionState

CHANGES_MAX: Final = 500
MADE_MAX: Final = 10_000


class What(Enum):
    """A kind of change."""

    STARTED = "started"
    STOPPED = "stopped"
    KILLED = "killed"
    PAUSED = "paused"
    RESUMED = "resumed"
    FENCED = "fenced"
    UNFENCED = "unfenced"
    LEADER = "leader"
    ISR = "isr"


class BrokerChange(NamedTuple):
    """A broker went up or down, was paused, or was fenced by the controller. `requests`: how many requests came before."""

    at_ms: int
    requests: int
    what: What
    node: int


class PartitionChange(NamedTuple):
    """A partition has another leader, or other in-sync replicas. -1 is no leader."""

    at_ms: int
    requests: int
    what: What
    topic_id: UUID
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    leader_epoch: int


class History:
    """The newest changes of one cluster, oldest first. `made`: for the newest topics, how many requests came before they were created."""

    __slots__ = ("_counters", "_now_ms", "changes", "made")

    def __init__(self, now_ms: Callable[[], int], counters: Counters) -> None:
        self._now_ms = now_ms
        self._counters = counters
        self.changes: deque[BrokerChange | PartitionChange] = deque(maxlen=CHANGES_MAX)
        self.made: dict[UUID, int] = {}

    def broker_changed(self, node: int, what: What) -> None:
        self.changes.append(BrokerChange(self._now_ms(), self._counters.requests, what, node))

    def partition_changed(self, state: PartitionState, before: PartitionState) -> None:
        """Keeps what is new in `state`."""
        if before.leader == NO_LEADER and before.leader_epoch < 0:
            if state.topic_id not in self.made:
                self.made[state.topic_id] = self._counters.requests
                if len(self.made) > MADE_MAX:
                    del self.made[next(iter(self.made))]
            return
        if state.leader != before.leader:
            self._add(What.LEADER, state, (before.leader,), (state.leader,))
        if state.isr != before.isr:
            self._add(What.ISR, state, tuple(before.isr), tuple(state.isr))

    def _add(self, what: What, state: PartitionState, before: tuple[int, ...], after: tuple[int, ...]) -> None:
        now_ms, requests = self._now_ms(), self._counters.requests
        self.changes.append(PartitionChange(now_ms, requests, what, state.topic_id, state.index, before, after, state.leader_epoch))
