"""The warning that records of a partition wait although brokers answer: it has no leader, or its leader refuses them for now.

The log warns after five seconds and again after pauses that double, in one line for all partitions. It looks when such an answer comes.
Meanwhile the producer asks again at least every `retry_backoff_max_ms`, so this has no timer. `Outage` is about brokers that cannot be
reached.
"""

from __future__ import annotations

import logging
from typing import Final

from fencepost.producer.core.cluster.outage import FIRST_WARNING_MS, was_much_of
from fencepost.producer.core.events import NEVER
from fencepost.producer.core.partition_sender import PartitionSender
from fencepost.producer.foundations.counted import counted

log = logging.getLogger("fencepost.producer")

NO_LEADER: Final = "the partition has no known leader"
WARNING: Final = "%s-%d: its oldest records have waited for %.0f s: %s%s; `fencepost doctor --topic %s` examines the topic"


class Stall:
    """`batch_ms`: when the oldest batch was made. Another one is oldest later, so the partition has made progress."""

    __slots__ = ("batch_ms", "since_ms", "why")

    def __init__(self, batch_ms: float, since_ms: float, why: str) -> None:
        self.batch_ms = batch_ms
        self.since_ms = since_ms
        self.why = why


class StalledPartitions:
    """See the module."""

    def __init__(self) -> None:
        self._stalls: dict[PartitionSender, Stall] = {}
        self._due_ms = 0.0
        self._pause_ms = FIRST_WARNING_MS

    def note(self, sender: PartitionSender, why: str, now_ms: float) -> None:
        """The partition's oldest batch cannot be written now."""
        batch_ms = sender.oldest_ms()
        if batch_ms == NEVER:  # It only resolves what failed before.
            return
        stall = self._stalls.get(sender)
        if stall is None or stall.batch_ms != batch_ms:
            self._stalls[sender] = Stall(batch_ms, now_ms, why)
        else:
            stall.why = why
        if now_ms >= self._due_ms:
            self._look(now_ms)

    def stood_still(self, late_ms: float, now_ms: float) -> None:
        """The producer itself did nothing for so long. Where that was much of the time, it begins now."""
        for stall in self._stalls.values():
            if was_much_of(late_ms, now_ms - stall.since_ms):
                stall.since_ms = now_ms

    def _look(self, now_ms: float) -> None:
        self._stalls = {sender: stall for sender, stall in self._stalls.items() if sender.oldest_ms() == stall.batch_ms}
        first = min(self._stalls, key=lambda sender: self._stalls[sender].since_ms)
        stall = self._stalls[first]
        if now_ms - stall.since_ms < FIRST_WARNING_MS:
            self._pause_ms = FIRST_WARNING_MS
            self._due_ms = stall.since_ms + FIRST_WARNING_MS
            return
        others = sum(now_ms - each.since_ms >= FIRST_WARNING_MS for each in self._stalls.values()) - 1
        more = f"; so have those of {counted(others, 'other partition')}" if others else ""
        log.warning(WARNING, first.topic, first.partition, (now_ms - stall.since_ms) / 1000.0, stall.why, more, first.topic)
        self._pause_ms *= 2
        self._due_ms = now_ms + self._pause_ms
