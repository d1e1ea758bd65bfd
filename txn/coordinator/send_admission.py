"""Whether a producer inside a transactional one takes records: only while a transaction is open.

That is a matter of one lock: what was accepted before a transaction's end was asked for belongs to it, and nothing is accepted after.
"""

from __future__ import annotations

from collections.abc import Callable

from fencepost.producer.accumulator.accumulator import Accumulator
from fencepost.producer.accumulator.batch import Shared
from fencepost.producer.config.settings import Settings
from fencepost.producer.core.events import Called, Event
from fencepost.producer.errors import ConfigError, FencepostError, Misuse, again
from fencepost.producer.network.engine import now_ms
from fencepost.producer.timeouts import seconds
from fencepost.txn.coordinator import state_machine as machine
from fencepost.txn.coordinator.pending_calls import Call
from fencepost.txn.foundations.call_outcome import SOON_S
from fencepost.txn.group_metadata import GroupMetadata
from fencepost.txn.offsets import Offsets
from fencepost.txn.shared.shared_partitions import ShareRequest

ENDS = (machine.Event.COMMIT, machine.Event.ABORT, machine.Event.PREPARE)


class NoTransaction(Misuse):
    """There is no transaction that the record could be part of: it was not accepted."""


class Admission:
    """See the module. `post`: how a call gets to the sender. `is_open`: whether a transaction is, as the sender sees it. Raises ConfigError
    for settings that cannot be a transaction's."""

    def __init__(
        self, settings: Settings, accumulator: Accumulator, shared: Shared, post: Callable[[Event], None], is_open: Callable[[], bool]
    ) -> None:
        if not settings.enable_idempotence:
            raise ConfigError("a transaction needs acks=all, enable_idempotence=True and retries: leave these settings alone")
        self._max_block_ms = settings.max_block_ms
        self._accumulator = accumulator
        self._shared = shared
        self._post = post
        self._is_open = is_open
        self._ending: list[Call] = []
        accumulator.refusal = NO_TRANSACTION
        accumulator.takes_aside = False  # A record comes into the transaction that is open when it is sent, or into none.

    def patience_s(self, timeout: float | None) -> float:
        """A call's time: what was given, or max_block_ms."""
        return seconds(timeout, self._max_block_ms / 1000.0)

    def call(
        self,
        event: machine.Event,
        timeout_s: float,
        number: int = 0,
        offsets: tuple[GroupMetadata, Offsets] | None = None,
        share_request: ShareRequest | None = None,
    ) -> Call:
        """A call; it ends by itself within the time."""
        self.refuse_after_fork()
        then = self._open if event is machine.Event.BEGIN else self._reopen if event in ENDS else None
        return Call(
            event, deadline_ms=now_ms() + timeout_s * 1000.0, number=number, offsets=offsets, share_request=share_request, then=then
        )

    def make(self, call: Call) -> None:
        """Make it. An end takes no more records from here on, unless it is refused at once."""
        if call.event in ENDS:
            self.stop(call)
        self._post(Called(call))

    def leave(self, call: Call) -> Call | None:
        """Whoever made it does not wait any longer, or was struck on the way to that. A transaction that began, and nobody was told, is
        aborted, by the call that is returned: with nothing in it it ends at once."""
        if call.outcome.cancel():
            if call.event in ENDS:
                self._post(Called(call))  # So that the sender hears of it in any case: what is open goes on.
            return None
        if call.event is not machine.Event.BEGIN or not call.outcome.wait(SOON_S) or call.outcome.exception() is not None:
            return None
        abort = self.call(machine.Event.ABORT, self.patience_s(None), call.number)
        self.make(abort)
        return abort

    def refuse_after_fork(self) -> None:
        """In a child of the process that made the producer nothing of it works."""
        if self._shared.forked is not None:
            raise again(self._shared.forked)

    def stop(self, call: Call | None = None) -> None:
        """Take no more, for this call's sake."""
        with self._shared.region:
            if call is not None:
                self._ending += [call]
            if self._accumulator.refusal is None:
                self._accumulator.refusal = NO_TRANSACTION

    def make_way(self) -> None:
        """Something else is about to be the reason why nothing is taken."""
        self.stop()
        if self._accumulator.refusal is NO_TRANSACTION:
            self._accumulator.refusal = None

    def _open(self, call: Call, error: Exception | None) -> None:
        """On the sender's thread, so that nothing that ends the producer comes in between."""
        if error is None and not call.left and self._accumulator.refusal is NO_TRANSACTION:
            self._accumulator.refusal = None

    def _reopen(self, call: Call, error: Exception | None) -> None:
        """The same for an end that has ended nothing, as it was about an earlier transaction or came too early: the one that is open goes
        on, unless somebody else is about to end it."""
        with self._shared.region:
            self._ending = [each for each in self._ending if each is not call and not each.left]
            if self._is_open() and not self._ending and self._accumulator.refusal is NO_TRANSACTION:
                self._accumulator.refusal = None


NO_TRANSACTION: FencepostError = NoTransaction("no transaction is open: records are sent between begin and commit or abort")
