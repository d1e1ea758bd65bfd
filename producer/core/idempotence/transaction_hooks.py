"""The hooks of transactions: they decide whether a batch may be sent now, and with which identity.

The core only knows these hooks and the identity (`ProducerIdSource`). `txn` passes an object that is both (`Transactions`), so `producer`
never imports `txn`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from fencepost.producer.config.settings import Settings
from fencepost.producer.core.cluster.cluster_connection_states import PRODUCE_VERSIONS, ClusterConnectionStates, Request
from fencepost.producer.core.cluster.view import ClusterView
from fencepost.producer.core.events import Command
from fencepost.producer.errors import DeliveryError, FencepostError, NoUsableBroker


class TransactionHooks(Protocol):
    """The core calls them on the sender thread, before it stamps a fresh batch.

    `produce_versions`: the versions of Produce that may be used. `drop_reason`: the error with which everything that is not in flight must
    fail now; None if nothing must.
    """

    transactional_id: str | None
    produce_versions: range
    drop_reason: tuple[type[DeliveryError], str] | None

    def may_create(self, topic: str) -> bool:
        """Whether a metadata request may create the topic, if `allow_auto_create_topics` is set."""

    def admit(self, topic: str, partition: int) -> bool:
        """Whether a fresh batch of this partition may be stamped and sent now. If not, the hooks may begin to ask for it. A change to True
        must be posted as SendingAllowed."""

    def wrote(self, topic: str, partition: int) -> None:
        """The first attempt of a batch of this partition is about to be written to a socket."""

    def unanswered(self) -> None:
        """A connection was lost before a Produce response: the request may still arrive, at any time."""

    def takes_over(self, topic: str, partition: int) -> int | None:
        """The first sequence of the partition, if another process wrote to it with the same identity; None to continue. Only called for a
        partition without batches in flight, and only with a transactional id. The core uses the returned sequence."""

    def pause_ms(self, code: int, *, introduced: bool, attempts: int) -> tuple[float, float] | None:
        """The bounds of the random wait before a batch that was refused with this code is sent again; None for the usual backoff.
        `introduced`: the partition has acknowledged a batch already. `attempts`: how often the batch was sent."""

    def looked(self, commands: Sequence[Command], *, quiet: bool) -> None:
        """A round ended with these commands. `quiet`: nothing is queued or in flight. Only called with a transactional id."""


class NoTransactionHooks:
    """Without a transaction, everything may be sent at any time."""

    transactional_id: str | None = None
    produce_versions: range = PRODUCE_VERSIONS
    drop_reason: tuple[type[DeliveryError], str] | None = None

    def may_create(self, topic: str) -> bool:
        return True

    def admit(self, topic: str, partition: int) -> bool:
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
    """Provides the identity. `trouble`: why there is none yet."""

    trouble: str

    def identity_after(self, spent_pid: int | None) -> tuple[int, int] | None:
        """An identity whose producer id is not the spent one. Without one, None, and a request follows."""

    def forget(self) -> None:
        """Forget the identity: from now on everything goes to another cluster."""

    def advance(self, now_ms: float) -> list[Command]:
        """Send the requests that are due."""

    def answered(self, request: Request, answer: Any, now_ms: float) -> list[Command]:
        """Use the response to one of its requests."""

    def lost(self, request: Request, now_ms: float) -> None:
        """The connection was lost before the response to one of its requests."""

    def next_deadline(self, now_ms: float) -> float:
        """The latest time for the next `advance`, in ms."""


class Transactions(TransactionHooks, ProducerIdSource, Protocol):
    """Hooks that provide one identity for all partitions, and send requests to a coordinator."""

    def attach(self, settings: Settings, *, nodes: ClusterConnectionStates, view: ClusterView, draw: Callable[[], float]) -> None:
        """The core starts, and passes its own objects."""

    def called(self, call: Any, now_ms: float) -> list[Command]:
        """Begin a caller's call (`Called`)."""

    def no_usable_broker(self, failure: NoUsableBroker) -> list[Command]:
        """No broker can be used with these settings: fail the calls that wait to begin."""

    def abandon(self, error: FencepostError) -> list[Command]:
        """The core ends: fail all waiting calls."""
