"""When the log warns that no broker can be used, or one of several: after five seconds, and again after pauses that double.

It writes no log line. `cluster_connection_states` does, because it knows the addresses and their failures.
"""

from __future__ import annotations

from typing import Final

from fencepost.producer.core.events import NEVER

FIRST_WARNING_MS: Final = 5_000.0


def was_much_of(late_ms: float, lasted_ms: float) -> bool:
    """Whether a standstill of the producer was so much of what has lasted for so long that it is to begin anew."""
    return late_ms * 3.0 >= lasted_ms


class Outage:
    """The time since a connection was first wanted and there was none. `due_ms`: when the next warning is due."""

    def __init__(self) -> None:
        self.due_ms = NEVER
        self._since_ms = NEVER
        self._pause_ms = FIRST_WARNING_MS

    def begin(self, now_ms: float) -> None:
        """A connection is wanted, and there is none. During an outage this changes nothing."""
        if self._since_ms == NEVER:
            self._since_ms = now_ms
            self._pause_ms = FIRST_WARNING_MS
            self.due_ms = now_ms + FIRST_WARNING_MS

    def end(self) -> None:
        """There is a connection, or none is wanted any more."""
        self.due_ms = self._since_ms = NEVER

    def stood_still(self, late_ms: float, now_ms: float) -> None:
        """The producer itself did nothing for so long. If that was much of the outage, it begins now."""
        if self._since_ms != NEVER and was_much_of(late_ms, now_ms - self._since_ms):
            self.end()
            self.begin(now_ms)

    def warned(self, now_ms: float) -> float:
        """A warning is written now: plan the next one, and return how long the outage lasts, in seconds."""
        self._pause_ms *= 2
        self.due_ms = now_ms + self._pause_ms
        return (now_ms - self._since_ms) / 1000.0
