"""One reply to one call, sent when the handler has the response: before it returns, or later.

The reply is sent at once, so that replies to several clients leave in that order. A reply is dropped when the connection is lost.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from fencepost.broker_stub.requests.call import Call, Instead
from fencepost.producer.wire import Message

M = TypeVar("M", bound=Message)


class DeferredReply(Generic[M]):
    """Call it with the response; return its `result` from the handler."""

    def __init__(self, call: Call) -> None:
        self._call: Call | None = call

    def __call__(self, answer: M) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.answer(answer)

    def result(self) -> Instead:
        """What the handler returns: the response was sent, or follows."""
        if self._call is not None:
            self._call.on_lost = self.forget
        return Instead.LATER

    def forget(self) -> None:
        """The connection is lost: there will be no reply."""
        self._call = None
