"""A call of the user's on its way to the manager and back: made and waited for by the caller, finished on the sender's thread.

It waits for nothing itself: `upshot` does, in a thread and on an event loop alike. `Waiting` holds those without an outcome.
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
    """See the module. `number`: the transaction that it is about, 0 for whichever there is; after a begin, the one that began. `offsets`:
    of a send_offsets. `share_request`: of a share, or of what is returned. `then` runs on the sender's thread right before the caller hears
    of the outcome, also of one who has left."""

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
        """Whether the caller waits no longer."""
        return self.outcome.done()

    def finish(self, error: Exception | None) -> None:
        """This came of it."""
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
    """The calls that have no outcome yet, in the order in which they came."""

    def __init__(self) -> None:
        self._calls: list[Call] = []

    def add(self, call: Call) -> None:
        self._calls.append(call)

    def take(self) -> list[Call]:
        """All of them, which wait here no longer."""
        calls, self._calls = self._calls, []
        return calls

    def answer(self, error: FencepostError | None, *events: Event) -> list[Command]:
        """Tell the calls of these kinds, each with an instance of its own."""
        told = [call for call in self._calls if call.event in events]
        self._calls = [call for call in self._calls if call.event not in events]
        return [Return(call, again(error) if error is not None else None) for call in told]

    def of(self, event: Event) -> list[Call]:
        """Those of this kind."""
        return [call for call in self._calls if call.event is event]

    def finish(self, calls: list[Call]) -> list[Command]:
        """Tell these that they have what they wanted."""
        self._calls = [call for call in self._calls if call not in calls]
        return [Return(call) for call in calls]

    def expire(self, now_ms: float, lateness: Callable[[Call], FencepostError]) -> list[Command]:
        """Tell those whose time has passed."""
        late = [call for call in self._calls if call.deadline_ms <= now_ms]
        self._calls = [call for call in self._calls if call.deadline_ms > now_ms]
        return [Return(call, lateness(call)) for call in late]

    def deadlines_ms(self) -> list[float]:
        """When each of them ends at the latest."""
        return [call.deadline_ms for call in self._calls]
