"""A call of the user's on its way to the manager and back: made and waited for by the caller, finished on the sender's thread.

It waits for nothing itself; a future can be waited for by a thread and on an event loop alike.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from txn.machine import Event


class Call:
    """See the module. `number`: the transaction that it is about, 0 for whichever there is; after a begin, the one that began. `then` runs
    on the sender's thread right before the caller hears of the outcome."""

    def __init__(
        self, event: Event, *, deadline_ms: float, number: int = 0, then: Callable[[Call, Exception | None], None] | None = None
    ) -> None:
        self.event = event
        self.deadline_ms = deadline_ms
        self.number = number
        self.outcome: Future[int] = Future()
        self._then = then

    @property
    def left(self) -> bool:
        """Whether the caller waits no longer."""
        return self.outcome.done()

    def finish(self, error: Exception | None) -> None:
        """This came of it."""
        if self._then is not None:
            self._then(self, error)
        if self.left or not self.outcome.set_running_or_notify_cancel():
            return
        if error is None:
            self.outcome.set_result(self.number)
        else:
            self.outcome.set_exception(error)
