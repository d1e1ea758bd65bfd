"""Whether a producer inside a transactional one accepts records: only while a transaction is open.

One lock decides this. Records that were accepted before the end was requested belong to the transaction, and none is accepted after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import SupportsFloat

from fencepost.producer.accumulator.accumulator import Accumulator
from fencepost.producer.accumulator.batch import Shared
from fencepost.producer.config.settings import Settings
from fencepost.producer.core.events import Called, Event
from fencepost.producer.errors import ConfigError, FencepostError, Misuse
from fencepost.producer.foundations.timeouts import seconds
from fencepost.producer.network.engine import now_ms
from fencepost.txn.coordinator import state_machine as machine
from fencepost.txn.coordinator.pending_calls import Call
from fencepost.txn.foundations.call_outcome import SOON_S
from fencepost.txn.group_metadata import GroupMetadata
from fencepost.txn.offsets import Offsets
from fencepost.txn.shared.shared_partitions import ShareRequest

ENDS = (machine.Event.COMMIT, machine.Event.ABORT, machine.Event.PREPARE)


class NoTransaction(Misuse):
    """No transaction is open, so the record was not accepted."""


class Admission:
    """See the module. `post`: sends a call to the sender thread. `is_open`: whether a transaction is open for the sender thread. Raises
    ConfigError for settings that a transaction cannot have."""

    def __init__(
        self, settings: Settings, accumulator: Accumulator, shared: Shared, post: Callable[[Event], None], is_open: Callable[[], bool]
    ) -> None:
        if not settings.enable_idempotence:
            raise ConfigError("a transaction needs acks=all, enable_idempotence=True and retries: leave these settings out")
        self._max_block_ms = settings.max_block_ms
        self._accumulator = accumulator
        self._shared = shared
        self._post = post
        self._is_open = is_open
        self._ending: list[Call] = []
        accumulator.refusal = NO_TRANSACTION
        accumulator.takes_aside = False  # A record becomes part of the transaction that is open when it is sent, or of none.

    def patience_s(self, timeout: SupportsFloat | None) -> float:
        """The time limit of a call: the given one, or max_block_ms."""
        return seconds(timeout, self._max_block_ms / 1000.0)

    def call(
        self,
        event: machine.Event,
        timeout_s: float,
        number: int = 0,
        offsets: tuple[GroupMetadata, Offsets] | None = None,
        share_request: ShareRequest | None = None,
    ) -> Call:
        """Make a call that ends within the limit."""
        self.refuse_after_fork()
        then = self._open if event is machine.Event.BEGIN else self._reopen if event in ENDS else None
        return Call(
            event, deadline_ms=now_ms() + timeout_s * 1000.0, number=number, offsets=offsets, share_request=share_request, then=then
        )

    def make(self, call: Call) -> None:
        """Send the call. After a commit, abort or prepare no record is accepted, unless the sender refuses the call at once."""
        if call.event in ENDS:
            self.stop(call)
        self._post(Called(call))

    def leave(self, call: Call) -> Call | None:
        """The caller has stopped waiting, or Ctrl-C interrupted it. If a transaction has begun and the caller has no result, the returned
        call aborts it. That is instant, because the transaction is empty."""
        if call.outcome.cancel():
            if call.event in ENDS:
                self._post(Called(call))  # In any case the sender thread must know, because an open transaction continues.
            return None
        if call.event is not machine.Event.BEGIN or not call.outcome.wait(SOON_S) or call.outcome.exception() is not None:
            return None
        abort = self.call(machine.Event.ABORT, self.patience_s(None), call.number)
        self.make(abort)
        return abort

    def refuse_after_fork(self) -> None:
        """Raise in a child of the process that made the producer: nothing works there."""
        self._shared.refuse_after_fork()

    def stop(self, call: Call | None = None) -> None:
        """Accept no more records because of this call."""
        with self._shared.region:
            if call is not None:
                self._ending += [call]
            if self._accumulator.refusal is None:
                self._accumulator.refusal = NO_TRANSACTION

    def _open(self, call: Call, error: Exception | None) -> None:
        """Runs on the sender thread, so that the producer cannot end in between."""
        with self._shared.region:
            if error is None and not call.left and self._accumulator.refusal is NO_TRANSACTION:
                self._accumulator.refusal = None

    def _reopen(self, call: Call, error: Exception | None) -> None:
        """The same after an end that has ended nothing, because it was about an earlier transaction or came too early. The open transaction
        accepts records again, unless another call is about to end it."""
        with self._shared.region:
            self._ending = without(self._ending, call)
            if self._is_open() and not self._ending and self._accumulator.refusal is NO_TRANSACTION:
                self._accumulator.refusal = None


def without(calls: list[Call], over: Call) -> list[Call]:
    """The calls that have not left, without this one."""
    return [each for each in calls if each is not over and not each.left]


NO_TRANSACTION: FencepostError = NoTransaction("no transaction is open: send records between begin and commit or abort")
