"""An answer that comes before its handler returns, or later.

It leaves at once, so that answers to several clients leave in the order in which they are given. It brings one answer to one call and
forgets what comes for a call that nobody waits for any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from broker_stub.router import Instead
from producer.wire import Message

if TYPE_CHECKING:
    from broker_stub.call import Call

M = TypeVar("M", bound=Message)


class Parked(Generic[M]):
    """Called with the answer; `result` is what the handler returns."""

    def __init__(self, call: Call) -> None:
        self._call: Call | None = call

    def __call__(self, answer: M) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.answer(answer)

    def result(self) -> Instead:
        """That the answer has left, or comes later."""
        if self._call is not None:
            self._call.on_lost = self._forget
        return Instead.LATER

    def _forget(self) -> None:
        self._call = None
