"""The handlers by API and version. Handlers register themselves here; ApiVersions is made from it.

A rarely used handler is announced, and its module is imported with its first request, so that a stub starts fast. Its versions must be
the announced ones. `call` does everything around a handler: faults, journal, later responses.
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
    """One API: its versions, the lowest one that ApiVersions names, its handler, the permissions that it needs, and whether brokers forward
    it to the controller."""

    request: type[Message]
    versions: range
    advertised_min: int
    handler: Handler
    needs: Needs
    forwarded: bool


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
    forwarded: bool = False,
) -> Callable[[Callable[[Call, R], Result]], Callable[[Call, R], Result]]:
    """Registers a handler for its request in these versions; two handlers of one API are refused.

    `topic`, `group`, `cluster`: the operation that the client needs on each topic, on each group, on the cluster. The handler gets the
    error from the call. `forwarded`: brokers forward it to the controller.
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
        ROUTES[request.api] = Route(request, versions, lowest, handler, needs, forwarded)  # type: ignore[arg-type]  # dispatched by the request's own api
        return handler

    return register


def announce(api: int, module: str, versions: range) -> None:
    """Announces that the module serves this API once it is imported."""
    _ANNOUNCED[api] = Announced(module, versions)


def route_to(api: int) -> Route | None:
    """The route of the API. None: it is not served."""
    route = ROUTES.get(api)
    if route is None and api in _ANNOUNCED:
        import_module(_ANNOUNCED[api].module)
        route = ROUTES[api]
    return route


def served() -> Iterator[Served]:
    """Every API that is served, by its key, without importing a handler."""
    for api in sorted(ROUTES.keys() | _ANNOUNCED.keys()):
        route = ROUTES.get(api)
        versions = route.versions if route is not None else _ANNOUNCED[api].versions
        yield Served(api, versions.start if route is None else route.advertised_min, versions.stop - 1)
