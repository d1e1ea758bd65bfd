"""The span of the open transaction, if the producer makes spans (`telemetry=True`)."""

from __future__ import annotations

from typing import Final

from fencepost.producer.telemetry.spans import OpenTransaction, Sending, Telemetry
from fencepost.txn.coordinator.state_machine import Event

OUTCOMES: Final = {Event.COMMIT: "committed", Event.ABORT: "aborted", Event.PREPARE: "prepared"}
UNKNOWN: Final = "unknown"


class TransactionSpans:
    """See the module. The calls of one producer use it, and the thread that hears the coordinator.

    Several callers may begin at the same time, and one of them gets the transaction: each has a span, and puts it into `open` if it is the
    one. That is no call, because Ctrl-C could interrupt there.
    """

    def __init__(self, telemetry: Telemetry | None, transactional_id: str | None) -> None:
        self._telemetry = telemetry
        self._transactional_id = str(transactional_id)
        self.open = telemetry.open if telemetry is not None else OpenTransaction()

    def begin(self) -> Sending | None:
        """A span for a transaction that may begin."""
        return self._telemetry.begin_transaction(self._transactional_id) if self._telemetry is not None else None

    def not_begun(self, span: Sending | None, error: BaseException) -> None:
        """The transaction of that span did not begin."""
        if span is not None:
            span.end(error, outcome(UNKNOWN))

    def ended(self, event: Event) -> None:
        """The transaction is over, or prepared. Also called if the caller has gone meanwhile."""
        self._end(OUTCOMES[event], None)

    def failed(self, error: BaseException) -> None:
        """The outcome of the transaction is not known."""
        self._end(UNKNOWN, error)

    def closed(self) -> None:
        """The producer is closed, and hears no outcome any more."""
        self._end(UNKNOWN, None)

    def _end(self, name: str, error: BaseException | None) -> None:
        span, self.open.sending = self.open.sending, None
        if span is not None:
            span.end(error, outcome(name))


def outcome(name: str) -> dict[str, str]:
    """The attribute: committed, aborted, prepared or unknown."""
    return {"messaging.kafka.transaction.outcome": name}
