"""A call from a caller's thread to the transaction manager: the caller makes it and waits, and the sender thread finishes it.

The waiting itself is in `call_outcome`, for threads and event loops alike. `Waiting` holds the calls without an outcome.
"""

from __future__ import annotations

from collections.abc import Callable

from fencepost.producer.core.events import Command, Return
from fencepost.producer.errors import FencepostError, again
from fencepost.txn.coordinator.state_machine import Event
from fencepost.txn.foundations.call_outcome import CallOutcome
from fencepost.txn.group_metadata import GroupMetadata
from fencepost.txn.offsets import Offsets
from fencepost.txn.shared.shared_partitions import ShareRequest


class Call:
    """See the module. `number`: the transaction that the call is about, 0 for the open one; after a begin, the one that began. `offsets`:
    those of a send_offsets. `share_request`: that of a share or a `returned`. `then` runs on the sender thread right before the caller gets
    the outcome, and also if the caller has stopped waiting."""

    def __init__(
        self,
        event: Event,
        *,
        deadline_ms: float,
        number: int = 0,
        offsets: tuple[GroupMetadata, Offsets] | None = None,
        share_request: ShareRequest | None = None,
        then: Callable[[Call, Exception | None], None] | None = None,
    ) -> None:
        self.event = event
        self.deadline_ms = deadline_ms
        self.number = number
        self.offsets = offsets
        self.share_request = share_request
        self.outcome: CallOutcome[int] = CallOutcome()
        self._then = then

    @property
    def left(self) -> bool:
        """Whether the caller no longer waits."""
        return self.outcome.done()

    def finish(self, error: Exception | None) -> None:
        """The call has this outcome."""
        waits = self.outcome.claim()
        if self._then is not None:
            self._then(self, error)
        if not waits:
            return
        if error is None:
            self.outcome.set_result(self.number)
        else:
            self.outcome.set_error(error)


class Waiting:
    """The calls without an outcome, in the order in which they came."""

    def __init__(self) -> None:
        self._calls: list[Call] = []

    def add(self, call: Call) -> None:
        self._calls.append(call)

    def take(self) -> list[Call]:
        """All of them; they are no longer waiting here."""
        calls, self._calls = self._calls, []
        return calls

    def answer(self, error: FencepostError | None, *events: Event) -> list[Command]:
        """End the calls of these kinds with the error, each with an instance of its own."""
        told = [call for call in self._calls if call.event in events]
        self._calls = [call for call in self._calls if call.event not in events]
        return [Return(call, again(error) if error is not None else None) for call in told]

    def of(self, event: Event) -> list[Call]:
        """The calls of this kind."""
        return [call for call in self._calls if call.event is event]

    def finish(self, calls: list[Call]) -> list[Command]:
        """End these calls successfully."""
        self._calls = [call for call in self._calls if call not in calls]
        return [Return(call) for call in calls]

    def expire(self, now_ms: float, lateness: Callable[[Call], FencepostError]) -> list[Command]:
        """End the calls whose deadline has passed."""
        late = [call for call in self._calls if call.deadline_ms <= now_ms]
        self._calls = [call for call in self._calls if call.deadline_ms > now_ms]
        return [Return(call, lateness(call)) for call in late]

    def deadlines_ms(self) -> list[float]:
        """The next deadline of a call."""
        return [call.deadline_ms for call in self._calls]
