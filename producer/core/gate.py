"""The gate between a batch and the wire: may this partition's batch leave now, and as part of a transaction?

This is all that the sender knows of transactions; `txn` puts its own gate here, so that `producer` never imports it.
"""

from __future__ import annotations

from typing import Protocol


class Gate(Protocol):
    """Asked by the core, on the sender's thread, before a fresh batch is stamped."""

    transactional_id: str | None

    def may_leave(self, topic: str, partition: int) -> bool:
        """Whether a fresh batch of this partition may be stamped and sent now. When that changes to yes, the core wants a GateOpened."""

    def wrote(self, topic: str, partition: int) -> None:
        """A batch of this partition is about to be written to a socket for the first time."""


class OpenGate:
    """No transaction: everything may leave at any time."""

    transactional_id: str | None = None

    def may_leave(self, topic: str, partition: int) -> bool:
        return True

    def wrote(self, topic: str, partition: int) -> None:
        return None
