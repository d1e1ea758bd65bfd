"""`inner_producer` for the caller's event loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fencepost.producer.async_producer import AsyncProducer
from fencepost.producer.config.settings import Settings
from fencepost.producer.core.idempotence.transaction_hooks import Transactions
from fencepost.producer.telemetry.spans import Telemetry
from fencepost.txn.coordinator.send_admission import NO_TRANSACTION, Admission
from fencepost.txn.coordinator.transaction_manager import TransactionManager


class InnerAsyncProducer(AsyncProducer):
    """See the module."""

    def __init__(self, manager: TransactionManager, settings: Mapping[str, Any]) -> None:
        self._manager = manager
        super().__init__(None, **settings)
        self.admission = Admission(self._settings, self._accumulator, self._shared, self._post, manager.is_open)

    @property
    def telemetry(self) -> Telemetry | None:
        """What makes the producer's spans."""
        return self._telemetry()

    @property
    def settings(self) -> Settings:
        """`AsyncProducer`'s."""
        return self._settings

    def time_to_leave(self, error: BaseException | None) -> float | None:
        """The seconds that a block may take to end when this error leaves it; None without a limit."""
        return self._time_to_leave(error)

    def _transactions(self) -> Transactions | None:
        return self._manager

    def _refuse_records(self) -> None:
        self._refuse_from_now_on(NO_TRANSACTION)
