"""The way of a request from one broker to another, and of its response: severed, slow and one-way links, and paused brokers.

`BrokerRequest` is for fault rules. Followers' fetches have a way of their own, in the dispatcher.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from fencepost.broker_stub.cluster.context import Context
    from fencepost.broker_stub.cluster.timers import Timer

TIMEOUT_MS: Final = 30_000  # request.timeout.ms of brokers

T = TypeVar("T")


def call_broker(
    context: Context,
    sender: int,
    receiver: int,
    do: Callable[[Callable[[T], None]], None],
    then: Callable[[T], None],
    *,
    refused: T,
    timed_out: T,
) -> None:
    """`do` runs at the receiver. `then` gets its response. `refused`: the request did not arrive (given at once). `timed_out`: the
    response did not arrive (given later)."""
    if not context.reach(sender, receiver):
        then(refused)
        return
    response = _Response(context, sender, receiver, then)
    arrive = partial(context.brokers[receiver].when_running, partial(do, response.come))
    if response.delay_ms:
        context.later(response.delay_ms, arrive)
    else:
        arrive()
    response.time_out(timed_out)


class _Response(Generic[T]):
    """What the sender waits for."""

    def __init__(self, context: Context, sender: int, receiver: int, then: Callable[[T], None]) -> None:
        self.delay_ms = context.delay_ms(sender, receiver)
        self._context = context
        self._sender = sender
        self._receiver = receiver
        self._then: Callable[[T], None] | None = then
        self._timer: Timer | None = None

    def come(self, result: T) -> None:
        """The receiver has sent it."""
        if not self._context.reach(self._receiver, self._sender):
            return
        if self.delay_ms:
            self._context.later_on(self._sender, self.delay_ms, partial(self._arrive, result))
        else:
            self._context.brokers[self._sender].when_running(partial(self._arrive, result))

    def time_out(self, result: T) -> None:
        """Ends the waiting after a while: the link may be severed before the response is sent, or the receiver may stop."""
        if self._then is not None:
            self._timer = self._context.later_on(self._sender, TIMEOUT_MS, partial(self._arrive, result))

    def _arrive(self, result: T) -> None:
        then, self._then = self._then, None
        if self._timer is not None:
            self._timer.cancel()
        if then is not None:
            then(result)
