"""The partition senders that the core has to look at now, and the time of the next one. An event costs only what it changed.

The core looks at a partition sender after an event of it, and when its linger or backoff ends. It looks at all of them when the cluster
changed, or the earliest delivery deadline is reached. This module decides nothing about batches.
"""

from __future__ import annotations

import heapq
from itertools import count

from fencepost.producer.core.events import NEVER
from fencepost.producer.core.partition_sender import PartitionSender


class ReadyPartitions:
    """See the module. `active`: partition senders with something to send, resolve or publish, in the order of their first batch."""

    def __init__(self) -> None:
        self.active: dict[PartitionSender, None] = {}
        self._due: dict[PartitionSender, None] = {}
        self._everything = False
        self._turns: list[tuple[float, int, PartitionSender]] = []
        self._order = count()
        # Deadlines are not in the heap: nearly all batches are settled long before, and their deadlines would pile up there. Later batches
        # have later deadlines, so the earliest one since the last look at all senders is never too late.
        self._deadline_ms = NEVER

    def add(self, sender: PartitionSender) -> None:
        """The partition sender has something to do now."""
        self.active[sender] = None
        self.mark(sender)

    def mark(self, sender: PartitionSender) -> None:
        """The core has to look at the partition sender."""
        self._due[sender] = None

    def stir(self) -> None:
        """The core has to look at every partition sender."""
        self._everything = True

    def drop(self, sender: PartitionSender) -> None:
        """The partition sender has nothing to do any more."""
        del self.active[sender]

    def take(self, now_ms: float) -> list[PartitionSender]:
        """Take the partition senders to look at now, each once."""
        while self._turns and self._turns[0][0] <= now_ms:
            at_ms, _, sender = heapq.heappop(self._turns)
            if sender.turn_ms == at_ms:
                sender.turn_ms = NEVER
                self.mark(sender)
        if self._everything or now_ms >= self._deadline_ms:
            self._everything = False
            self._deadline_ms = NEVER
            senders = list(self.active)
        else:
            senders = [sender for sender in self._due if sender in self.active]
        self._due.clear()
        return senders

    def plan(self, sender: PartitionSender, now_ms: float) -> None:
        """Note when the core has to look at the partition sender again if there is no event of it."""
        self._deadline_ms = min(self._deadline_ms, sender.deadline(now_ms))
        turn_ms = sender.turn(now_ms)
        if turn_ms < sender.turn_ms:
            sender.turn_ms = turn_ms
            heapq.heappush(self._turns, (turn_ms, next(self._order), sender))

    def next_ms(self) -> float:
        """When to call `take` again at the latest."""
        return min(self._deadline_ms, self._turns[0][0] if self._turns else NEVER)
