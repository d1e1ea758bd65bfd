"""The producer inside a transactional one: its sender asks the manager, and it takes records only while a transaction is open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from producer.core.errors import ConfigError
from producer.core.gate import Transactions
from producer.producer import Producer
from txn.admission import Admission
from txn.admission import NoTransaction as NoTransaction
from txn.calls import Call
from txn.group_metadata import GroupMetadata
from txn.machine import Event
from txn.manager import Manager
from txn.offsets import Offsets

NEEDED = "a transaction needs acks=all, enable_idempotence=True and retries: leave these settings alone"


class Inner(Producer):
    """See the module."""

    def __init__(self, manager: Manager, settings: Mapping[str, Any]) -> None:
        self._manager = manager
        self._admission: Admission | None = None
        super().__init__(None, **settings)
        if not self._settings.enable_idempotence:
            self.close()
            raise ConfigError(NEEDED)
        self._admission = Admission(self._accumulator, self._shared, self._sender.post)

    def patience_s(self, timeout: float | None) -> float:
        """A call's time: what was given, or max_block_ms."""
        return self._settings.max_block_ms / 1000.0 if timeout is None else timeout

    def call(self, event: Event, timeout_s: float, number: int = 0, offsets: tuple[GroupMetadata, Offsets] | None = None) -> Call:
        """Begin a call; it ends by itself within the time."""
        self._refuse_after_fork()
        assert self._admission is not None
        return self._admission.call(event, timeout_s, number, offsets)

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
        if self._admission is not None:
            self._admission.make_way()
        super()._refuse_records()
