"""Which partition senders must be looked at now, and when the next one must. An event costs only what it changed.

A partition sender is looked at when something happened to it and when its linger or backoff ends. All of them are looked at when the
cluster changed or the earliest delivery deadline is reached. Nothing is decided here.
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
        # Deadlines are not in the heap: nearly all are settled long before, and would pile up there. Later batches have later ones, so
        # the earliest of all that were ever seen is never too late.
        self._deadline_ms = NEVER

    def add(self, sender: PartitionSender) -> None:
        """There is something in the partition sender now."""
        self.active[sender] = None
        self.mark(sender)

    def mark(self, sender: PartitionSender) -> None:
        """Something happened to the partition sender."""
        self._due[sender] = None

    def stir(self) -> None:
        """Something happened that may concern every partition sender."""
        self._everything = True

    def drop(self, sender: PartitionSender) -> None:
        """There is nothing in the partition sender any more."""
        del self.active[sender]

    def take(self, now_ms: float) -> list[PartitionSender]:
        """The partition senders to look at now, each once."""
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
        """Note when the partition sender must be looked at again if nothing happens to it."""
        self._deadline_ms = min(self._deadline_ms, sender.deadline(now_ms))
        turn_ms = sender.turn(now_ms)
        if turn_ms < sender.turn_ms:
            sender.turn_ms = turn_ms
            heapq.heappush(self._turns, (turn_ms, next(self._order), sender))

    def next_ms(self) -> float:
        """When to take again at the latest."""
        return min(self._deadline_ms, self._turns[0][0] if self._turns else NEVER)
