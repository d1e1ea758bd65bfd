"""The producer inside a transactional one: its sender asks the manager, and it takes records only while a transaction is open.

That is a matter of one lock: what was accepted before a transaction's end was asked for belongs to it, and nothing is accepted after.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from producer.core.errors import ConfigError, FencepostError, Misuse
from producer.core.events import Called
from producer.core.gate import Transactions
from producer.engine import now_ms
from producer.producer import Producer
from txn.calls import Call
from txn.machine import Event
from txn.manager import Manager


class NoTransaction(Misuse):
    """There is no transaction that the record could be part of: it was not accepted."""


class Inner(Producer):
    """See the module."""

    def __init__(self, manager: Manager, settings: Mapping[str, Any]) -> None:
        self._manager = manager
        super().__init__(None, **settings)
        if not self._settings.enable_idempotence:
            self.close()
            raise ConfigError("a transaction needs acks=all, enable_idempotence=True and retries: leave these settings alone")
        self._accumulator.refusal = NO_TRANSACTION

    def patience_s(self, timeout: float | None) -> float:
        """A call's time: what was given, or max_block_ms."""
        return self._settings.max_block_ms / 1000.0 if timeout is None else timeout

    def call(self, event: Event, timeout_s: float, number: int) -> Call:
        """Begin a call; it ends by itself within the time. An end takes no more records from here on."""
        self._refuse_after_fork()
        call = Call(event, deadline_ms=now_ms() + timeout_s * 1000.0, number=number, then=self._open if event is Event.BEGIN else None)
        if event in (Event.COMMIT, Event.ABORT):
            self._take_no_more()
        self._sender.post(Called(call))
        return call

    def time_to_leave(self, error: BaseException | None) -> float | None:
        """Seconds for whoever leaves a block with this error, None where there is no hurry."""
        return self._time_to_leave(error)

    @property
    def running(self) -> bool:
        """Whether calls are still answered."""
        return self._sender.running

    def on_sender(self) -> bool:
        """Whether the caller is the thread that answers calls, where waiting for one would never end."""
        return self._shared.on_sender()

    def _transactions(self) -> Transactions | None:
        return self._manager

    def _refuse_records(self) -> None:
        self._take_no_more()
        if self._accumulator.refusal is NO_TRANSACTION:
            self._accumulator.refusal = None
        super()._refuse_records()

    def _open(self, call: Call, error: Exception | None) -> None:
        """On the sender's thread, so that nothing that ends the producer comes in between."""
        if error is None and not call.left and self._accumulator.refusal is NO_TRANSACTION:
            self._accumulator.refusal = None

    def _take_no_more(self) -> None:
        with self._shared.lock:
            if self._accumulator.refusal is None:
                self._accumulator.refusal = NO_TRANSACTION


NO_TRANSACTION: FencepostError = NoTransaction("no transaction is open: records are sent between begin and commit or abort")
