"""What a transaction decides about each batch: may it leave now, and as part of a transaction?

The sender knows nothing else of transactions but these hooks and the identity (`ProducerIdSource`). `txn` hands in something that is
both (`Transactions`), so that `producer` never imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from fencepost.producer.config.settings import Settings
from fencepost.producer.core.cluster.broker_connections import PRODUCE_VERSIONS, Nodes, Request
from fencepost.producer.core.cluster.view import ClusterView
from fencepost.producer.core.events import Command
from fencepost.producer.errors import DeliveryError, FencepostError, NoUsableBroker


class TransactionHooks(Protocol):
    """Asked by the core, on the sender's thread, before a fresh batch is stamped.

    `produce_versions`: which its batches may be sent with. `doom`: why everything that is not on its way must fail now, if it must.
    """

    transactional_id: str | None
    produce_versions: range
    doom: tuple[type[DeliveryError], str] | None

    def may_create(self, topic: str) -> bool:
        """Whether brokers may create the topic when it is asked for and not there, where `allow_auto_create_topics` lets them."""

    def may_leave(self, topic: str, partition: int) -> bool:
        """Whether a fresh batch of this partition may be stamped and sent now. When that changes to yes, the core wants a GateOpened."""

    def wrote(self, topic: str, partition: int) -> None:
        """A batch of this partition is about to be written to a socket for the first time."""

    def unanswered(self) -> None:
        """A Produce died with its link: nobody knows when it arrives, if it does."""

    def takes_over(self, topic: str, partition: int) -> int | None:
        """With which sequence the partition begins anew, where somebody else wrote it under the same identity; None: it goes on. Asked
        only while nothing of it is on its way, and only where there is a transactional id; the answer is heeded."""

    def pause_ms(self, code: int, *, introduced: bool, attempts: int) -> tuple[float, float] | None:
        """Between which times to wait, drawn evenly, before a batch that was refused with this code is sent again; None: as long as usual.
        `introduced`: the partition has acknowledged something already; `attempts`: how often the batch was sent."""

    def looked(self, commands: Sequence[Command], *, quiet: bool) -> None:
        """A round is over, and this came of it; `quiet`: nothing is queued or on its way. Only where there is a transactional id."""


class NoTransactionHooks:
    """No transaction: everything may leave at any time."""

    transactional_id: str | None = None
    produce_versions: range = PRODUCE_VERSIONS
    doom: tuple[type[DeliveryError], str] | None = None

    def may_create(self, topic: str) -> bool:
        return True

    def may_leave(self, topic: str, partition: int) -> bool:
        return True

    def wrote(self, topic: str, partition: int) -> None:
        return None

    def unanswered(self) -> None:
        return None

    def takes_over(self, topic: str, partition: int) -> int | None:
        return None

    def pause_ms(self, code: int, *, introduced: bool, attempts: int) -> tuple[float, float] | None:
        return None

    def looked(self, commands: Sequence[Command], *, quiet: bool) -> None:
        return None


class ProducerIdSource(Protocol):
    """Where the identity comes from. `trouble`: why there is none yet."""

    trouble: str

    def identity_after(self, spent_pid: int | None) -> tuple[int, int] | None:
        """An identity whose producer id is not the spent one; it is going to be asked for when there is none."""

    def forget(self) -> None:
        """Everything goes to another cluster from here on."""

    def advance(self, now_ms: float) -> list[Command]:
        """Ask what is to be asked."""

    def answered(self, request: Request, answer: Any, now_ms: float) -> list[Command]:
        """A request of the office's was answered."""

    def lost(self, request: Request, now_ms: float) -> None:
        """It died with its link."""

    def next_deadline(self, now_ms: float) -> float:
        """When to advance at the latest, in ms."""


class Transactions(TransactionHooks, ProducerIdSource, Protocol):
    """Hooks that hand out one identity for all partitions, and speak to a coordinator."""

    def attach(self, settings: Settings, *, nodes: Nodes, view: ClusterView, draw: Callable[[], float]) -> None:
        """The core begins. What is handed over is the core's."""

    def called(self, call: Any, now_ms: float) -> list[Command]:
        """A caller wants something (`Called`)."""

    def despair(self, failure: NoUsableBroker) -> list[Command]:
        """There is nobody to ask, and will be nobody as the settings are: whoever only waits to begin something hears so now."""

    def abandon(self, error: FencepostError) -> list[Command]:
        """The core ends; whoever waits for something hears so."""
