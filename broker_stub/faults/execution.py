"""What each kind of fault does to an exchange: the one place that tells the kinds apart.

An exchange is a request of a client at the stub, a request of a client at the proxy, or a request from one broker to another. It knows the
connection and the clock; this file knows neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

from fencepost.broker_stub.faults.rules import Action, Kind, Point


class FaultedExchange(Protocol):
    """What faults act on."""

    @property
    def over(self) -> bool:
        """Whether the exchange has ended, so that no further fault acts on it."""
        ...

    def inject(self, action: Action) -> None:
        """Puts the error code of this action into the response."""
        ...

    def throttle(self, ms: int) -> None:
        """Puts the time into the response, and delays the connection's next request as long."""
        ...

    def repeat(self, point: Point) -> None:
        """Processes the request once more, and drops the second response."""
        ...

    def continue_after(self, ms: int, go_on: Callable[[], None]) -> None:
        """Calls `go_on` after this time."""
        ...

    def post(self, go_on: Callable[[], None]) -> None:
        """Calls `go_on` in the thread of the event loop. Any thread may call this."""
        ...

    def break_off(self, kind: Kind, point: Point) -> bool:
        """Ends the exchange, by DISCONNECT or DROP. False: it goes on, because the client expects no response that a DROP could drop."""
        ...


def execute(exchange: FaultedExchange, actions: Iterator[Action], point: Point, go_on: Callable[[], None]) -> None:
    """Executes the actions in their order, then calls `go_on`. After a DELAY or a HOLD the remaining actions follow later."""
    if exchange.over:
        return
    for action in actions:
        rest = partial(execute, exchange, actions, point, go_on)
        match action.kind:
            case Kind.ERROR:
                exchange.inject(action)
            case Kind.THROTTLE:
                exchange.throttle(action.ms)
            case Kind.DUPLICATE:
                exchange.repeat(point)
            case Kind.DELAY:
                exchange.continue_after(action.ms, rest)
                return
            case Kind.HOLD:
                action.fault.when_released(action.number, partial(exchange.post, rest))
                return
            case Kind.DISCONNECT | Kind.DROP:
                if exchange.break_off(action.kind, point):
                    return
    go_on()
