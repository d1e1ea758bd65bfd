"""A reply that is sent before its handler returns, or later.

It is sent as soon as it is given, so that replies to several clients leave in that order. It sends one reply to one call. What comes for a
call whose connection is gone is dropped.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from fencepost.broker_stub.requests.call import Call, Instead
from fencepost.producer.wire import Message

M = TypeVar("M", bound=Message)


class DeferredReply(Generic[M]):
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
