"""Which handler serves which API in which versions. Handlers put themselves here; ApiVersions is made from it.

A handler that is rarely asked for is announced, and its module imported when the first request for it comes: a stub has to start fast.
What it then says of its versions must be what was announced. It routes and nothing else: what happens around a handler (faults, journal,
answers that wait) is `call`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from fencepost.broker_stub.cluster.release import Served
from fencepost.broker_stub.requests.call import Call, Handler, Result
from fencepost.broker_stub.requests.permissions import Needs
from fencepost.producer.wire import Message

if TYPE_CHECKING:
    from fencepost.broker_stub.security.operations import Operation


R = TypeVar("R", bound=Message)


class Route(NamedTuple):
    """One API: its versions, the lowest one that ApiVersions names, who serves it, and what has to be permitted for that."""

    request: type[Message]
    versions: range
    advertised_min: int
    handler: Handler
    needs: Needs


class Announced(NamedTuple):
    """An API whose handler is not loaded yet."""

    module: str
    versions: range


ROUTES: dict[int, Route] = {}
_ANNOUNCED: dict[int, Announced] = {}


def handles(
    request: type[R],
    versions: range,
    *,
    advertised_min: int | None = None,
    topic: Operation | None = None,
    group: Operation | None = None,
    cluster: Operation | None = None,
) -> Callable[[Callable[[Call, R], Result]], Callable[[Call, R], Result]]:
    """Registers a handler for its request in these versions; two handlers of one API are refused.

    `topic`, `group`, `cluster`: the operation that must be permitted on each topic, on each group, on the cluster; the handler hears of it
    where it asks the call for an error.
    """
    if request.api in ROUTES:
        raise ValueError(f"{request.__name__} has a handler already")
    unspoken = [version for version in versions if version not in request.versions]
    if unspoken:
        raise ValueError(f"{request.__name__} is not spoken in versions {unspoken}")
    announced = _ANNOUNCED.get(request.api)
    if announced is not None and (announced.versions != versions or advertised_min is not None):
        raise ValueError(f"{request.__name__} was announced in versions {announced.versions} and is served in {versions}")

    def register(handler: Callable[[Call, R], Result]) -> Callable[[Call, R], Result]:
        lowest = versions.start if advertised_min is None else advertised_min
        needs = Needs(topic, group, cluster)
        ROUTES[request.api] = Route(request, versions, lowest, handler, needs)  # type: ignore[arg-type]  # dispatched by the request's own api
        return handler

    return register


def announce(api: int, module: str, versions: range) -> None:
    """Says that the module will serve this API when it is imported."""
    _ANNOUNCED[api] = Announced(module, versions)


def route_to(api: int) -> Route | None:
    """Who serves the API; None for one that is not served."""
    route = ROUTES.get(api)
    if route is None and api in _ANNOUNCED:
        import_module(_ANNOUNCED[api].module)
        route = ROUTES[api]
    return route


def served() -> Iterator[Served]:
    """Every API that is served, by its key, without loading any."""
    for api in sorted(ROUTES.keys() | _ANNOUNCED.keys()):
        route = ROUTES.get(api)
        versions = route.versions if route is not None else _ANNOUNCED[api].versions
        yield Served(api, versions.start if route is None else route.advertised_min, versions.stop - 1)
