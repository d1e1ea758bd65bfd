"""The span of the open transaction, if the producer makes spans (`telemetry=True`)."""

from __future__ import annotations

from typing import Final

from fencepost.producer.telemetry.spans import Sending, Telemetry
from fencepost.txn.coordinator.state_machine import Event

OUTCOMES: Final = {Event.COMMIT: "committed", Event.ABORT: "aborted", Event.PREPARE: "prepared"}
UNKNOWN: Final = "unknown"


class TransactionSpans:
    """See the module. The calls of one producer use it, one after another, and the thread that hears the coordinator."""

    def __init__(self, telemetry: Telemetry | None, transactional_id: str | None) -> None:
        self._telemetry = telemetry
        self._transactional_id = str(transactional_id)
        self._open: list[Sending] = []  # one at most; of two threads that end it, one takes it out

    def begin(self) -> None:
        if self._telemetry is not None:
            self._end(UNKNOWN, None)
            self._open.append(self._telemetry.begin_transaction(self._transactional_id))

    def ended(self, event: Event) -> None:
        """The transaction is over, or prepared. Also called if the caller has gone meanwhile."""
        self._end(OUTCOMES[event], None)

    def closed(self) -> None:
        """The producer is closed, and hears no outcome any more."""
        self._end(UNKNOWN, None)

    def failed(self, error: BaseException) -> None:
        """The transaction did not begin, or its outcome is not known."""
        self._end(UNKNOWN, error)

    def _end(self, outcome: str, error: BaseException | None) -> None:
        try:
            span = self._open.pop()
        except IndexError:
            return
        if self._telemetry is not None:
            self._telemetry.end_transaction(span, outcome, error)
