"""The time in which the producer did nothing although something was due: its process was stopped, or its thread was held.

Deadlines go on meanwhile. Then errors and warnings say what happened here, and do not blame the brokers. What arrived meanwhile is read
before a request counts as unanswered.
"""

from __future__ import annotations

import logging
from typing import Final

from fencepost.producer.core.cluster.outage import FIRST_WARNING_MS
from fencepost.producer.core.events import NEVER

log = logging.getLogger("fencepost.producer")

LEAST_MS: Final = 1_000.0
"""What is later than that was held up by a standstill, and not by a busy machine."""

WHAT: Final = (
    "the producer stood still for %.1f s: its process was stopped, the machine is too busy, or a callback or other work held its thread or "
    "event loop"
)


class Standstill:
    """See the module. `due_ms`: when something is due next."""

    __slots__ = ("_ended_ms", "_late_ms", "due_ms")

    def __init__(self) -> None:
        self.due_ms = NEVER
        self._late_ms = 0.0
        self._ended_ms = 0.0

    def over(self, now_ms: float) -> float:
        """How long it lasted if one is over now, else 0."""
        late_ms = now_ms - self.due_ms
        if late_ms < LEAST_MS:
            return 0.0
        self.due_ms = NEVER
        self._late_ms, self._ended_ms = late_ms, now_ms
        if late_ms >= FIRST_WARNING_MS:
            log.warning(f"{WHAT}; deadlines went on meanwhile", late_ms / 1000.0)
        return late_ms

    def what(self, least_ms: float, since_ms: float) -> str:
        """What an error says if one that lasted at least so long has ended since then; empty if none has."""
        if self._ended_ms < since_ms or self._late_ms < least_ms:
            return ""
        return WHAT % (self._late_ms / 1000.0)
