"""The producer inside a transactional one: its sender asks the transaction manager, and it accepts records only while a transaction is
open. A hot module: every record passes through it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fencepost.producer.config.settings import Settings
from fencepost.producer.core.idempotence.transaction_hooks import Transactions
from fencepost.producer.network.exit_and_fork import ExitGuard
from fencepost.producer.producer import Producer
from fencepost.producer.telemetry.spans import Telemetry
from fencepost.txn.coordinator.exit_and_fork import TransactionExitGuard
from fencepost.txn.coordinator.send_admission import NO_TRANSACTION, Admission
from fencepost.txn.coordinator.send_admission import NoTransaction as NoTransaction
from fencepost.txn.coordinator.transaction_manager import TransactionManager


class InnerProducer(Producer):
    """See the module."""

    def __init__(self, manager: TransactionManager, settings: Mapping[str, Any]) -> None:
        self._manager = manager
        self._admission: Admission | None = None
        super().__init__(None, **settings)

    def _guard(self) -> ExitGuard:
        self._admission = Admission(self._settings, self._accumulator, self._shared, self._sender.post, self._manager.is_open)
        return TransactionExitGuard(
            self._sender,
            self._accumulator,
            self._shared,
            exit_flush_s=self._settings.exit_flush_ms / 1000.0,
            admission=self._admission,
            wanted=self._manager.end_at_close,
        )

    @property
    def admission(self) -> Admission:
        assert self._admission is not None
        return self._admission

    def time_to_leave(self, error: BaseException | None) -> float | None:
        """The seconds that a block may take to end when this error leaves it; None without a limit."""
        return self._time_to_leave(error)

    @property
    def telemetry(self) -> Telemetry | None:
        """What makes the producer's spans."""
        return self._telemetry()

    @property
    def settings(self) -> Settings:
        """`Producer`'s."""
        return self._settings

    @property
    def running(self) -> bool:
        """Whether the sender thread still answers calls."""
        return self._sender.running

    def on_sender(self) -> bool:
        """Whether the caller is the sender thread, which would wait for itself forever."""
        return self._shared.on_sender()

    def _transactions(self) -> Transactions | None:
        return self._manager

    def _refuse_records(self) -> None:
        self._refuse_from_now_on(NO_TRANSACTION)
