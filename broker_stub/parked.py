"""An answer that is there when its handler returns, or comes later.

It brings one answer to one call and forgets what comes for a call that nobody waits for any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from broker_stub.router import Instead
from producer.wire import Message

if TYPE_CHECKING:
    from broker_stub.call import Call

M = TypeVar("M", bound=Message)


class Parked(Generic[M]):
    """Called with the answer, before or after `result` was asked for."""

    def __init__(self, call: Call) -> None:
        self._call: Call | None = call
        self._answer: M | None = None
        self._returned = False

    def __call__(self, answer: M) -> None:
        if not self._returned:
            self._answer = answer
        elif self._call is not None:
            self._call.answer(answer)
            self._call = None

    def result(self) -> M | Instead:
        """What the handler returns: the answer, or that it comes later."""
        self._returned = True
        if self._answer is not None:
            return self._answer
        assert self._call is not None
        self._call.on_lost = self._forget
        return Instead.LATER

    def _forget(self) -> None:
        self._call = None
