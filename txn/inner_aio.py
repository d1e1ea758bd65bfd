"""The same as `inner` on the caller's event loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from producer.aio import AsyncProducer
from producer.core.gate import Transactions
from producer.core.settings import Settings
from txn.admission import Admission
from txn.manager import Manager


class AsyncInner(AsyncProducer):
    """See the module."""

    def __init__(self, manager: Manager, settings: Mapping[str, Any]) -> None:
        self._manager = manager
        super().__init__(None, **settings)
        self.admission = Admission(self._settings, self._accumulator, self._shared, self._post, manager.is_open)

    @property
    def settings(self) -> Settings:
        """The producer's."""
        return self._settings

    def time_to_leave(self, error: BaseException | None) -> float | None:
        """Seconds for whoever leaves a block with this error, None where there is no hurry."""
        return self._time_to_leave(error)

    def _transactions(self) -> Transactions | None:
        return self._manager

    def _refuse_records(self) -> None:
        self.admission.make_way()
        super()._refuse_records()
