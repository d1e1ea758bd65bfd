"""Which handler serves which API in which versions. Handlers put themselves here; ApiVersions is made from it.

It routes and nothing else: what happens around a handler (faults, journal, answers that wait) is `call`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from producer.wire import Message

if TYPE_CHECKING:
    from broker_stub.call import Call


class Instead(Enum):
    """What a handler may return in place of an answer."""

    LATER = "later"  # it has parked the call and will call `call.answer`
    NOTHING = "nothing"  # no answer is due (acks=0)
    CUT = "cut"  # the connection is to be closed


Result = Message | Instead
Handler = Callable[["Call", Message], Result]
R = TypeVar("R", bound=Message)


class Route(NamedTuple):
    """One API: its versions, the lowest one that ApiVersions names, and who serves it."""

    request: type[Message]
    versions: range
    advertised_min: int
    handler: Handler


ROUTES: dict[int, Route] = {}


def handles(
    request: type[R], versions: range, *, advertised_min: int | None = None
) -> Callable[[Callable[[Call, R], Result]], Callable[[Call, R], Result]]:
    """Registers a handler for its request in these versions; two handlers of one API are refused."""
    if request.api in ROUTES:
        raise ValueError(f"{request.__name__} has a handler already")
    unspoken = [version for version in versions if version not in request.versions]
    if unspoken:
        raise ValueError(f"{request.__name__} is not spoken in versions {unspoken}")

    def register(handler: Callable[[Call, R], Result]) -> Callable[[Call, R], Result]:
        lowest = versions.start if advertised_min is None else advertised_min
        ROUTES[request.api] = Route(request, versions, lowest, handler)  # type: ignore[arg-type]  # dispatched by the request's own api
        return handler

    return register
