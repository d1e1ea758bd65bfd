"""The end of a transactional producer that its program did not close: its open transaction is aborted, as `close` would do.

At exit this takes up to `exit_flush_ms`. When the producer is collected, the sender thread aborts and no thread waits. Otherwise the open
transaction would block readers of committed records until `transaction_timeout_ms` has passed. Once its event loop has ended, an async
producer cannot abort.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from typing import Final

from fencepost.producer.accumulator.accumulator import Accumulator
from fencepost.producer.accumulator.batch import Shared
from fencepost.producer.errors import ProducerClosed
from fencepost.producer.network.exit_and_fork import ExitGuard
from fencepost.producer.network.sender_thread import SenderThread
from fencepost.txn.coordinator.pending_calls import Call
from fencepost.txn.coordinator.send_admission import Admission
from fencepost.txn.coordinator.state_machine import Event

GIVEN_UP: Final = "transactional id %s: close() aborted the open transaction, and none of its records is committed: %s"
"""With what `TransactionManager.gives_up_at_close` returns."""
LEFT: Final = {Event.ABORT: "its transaction is not committed", Event.COMMIT: "its commit goes on"}

log = logging.getLogger("fencepost.txn")


class TransactionExitGuard(ExitGuard):
    """See the module. `wanted`: the call that `close` would make for the open transaction, or None."""

    def __init__(
        self,
        sender: SenderThread,
        accumulator: Accumulator,
        shared: Shared,
        *,
        exit_flush_s: float,
        admission: Admission,
        wanted: Callable[[], Event | None],
    ) -> None:
        self._patience_s = exit_flush_s
        self._soon = sender.soon
        self._admission = admission
        self._wanted = wanted
        super().__init__(sender, accumulator, shared, exit_flush_s=exit_flush_s)

    def __del__(self) -> None:
        if self._shared.inside():
            self._soon(self._collected)  # The collection interrupted a step of the sender thread, which has to end first.
        else:
            self._collected()

    def _collected(self) -> None:
        call = None if self._over() else self._end()
        if call is None:
            super().__del__()
            return
        self.end()
        warnings.warn(
            f"a transactional producer was garbage-collected without close(); {LEFT[call.event]}",
            ResourceWarning,
            stacklevel=2,
        )
        sender = self.sender
        reason = ProducerClosed("the producer was garbage-collected before the record was acknowledged")
        call.outcome.when_told(lambda: sender.stop(reason))

    def begin_to_leave(self) -> Callable[[], None]:
        """At exit, end the transaction as `close` would. The returned function waits for that."""
        call = None if self._over() else self._end()
        deadline = time.monotonic() + self._patience_s
        leave = super().begin_to_leave()
        if call is None:
            return leave

        def end_first() -> None:
            told = call.outcome.wait(deadline - time.monotonic())
            error = call.outcome.exception() if told else "no answer came"
            if error is None:
                log.warning("exit without close(): %s() ended the open transaction", call.event.value)
            else:
                log.critical("exit without close(): %s() has not ended the open transaction: %s", call.event.value, error)
            leave()

        return end_first

    def _over(self) -> bool:
        return self._ended or self._shared.forked is not None or not self.sender.running

    def _end(self) -> Call | None:
        """Ask the sender to end the open transaction."""
        event = self._wanted()
        if event is None:
            return None
        call = self._admission.call(event, self._patience_s)
        self._admission.make(call)
        return call
