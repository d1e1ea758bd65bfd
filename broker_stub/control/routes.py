"""The routes of the control of a stub or a proxy, and the responses.

A table of methods and paths; a part in braces is an argument. An impossible request is refused with a status and a sentence that says what
is possible. It opens no sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, Protocol
from uuid import UUID

from fencepost.broker_stub.arguments import ARGUMENTS, check_arguments
from fencepost.broker_stub.faults.groups_and_transactional_ids import groups_of, transactional_ids_of
from fencepost.broker_stub.faults.rules import Fault, Faults
from fencepost.broker_stub.faults.specs import add_fault
from fencepost.broker_stub.inspector.message_fields import errors_in, topics_in
from fencepost.broker_stub.journal.exchange import Exchange
from fencepost.broker_stub.journal.journal import Journal
from fencepost.broker_stub.network.http import HttpError, Request, refusing
from fencepost.broker_stub.proxy.proxy import FaultProxy
from fencepost.broker_stub.stub import BrokerStub
from fencepost.producer.wire import Api, api_name

EXCHANGES: Final = 100
EXCHANGES_MAX: Final = 1000
ADVANCE_MS_MAX: Final = 10 * 365 * 24 * 3600 * 1000

Told = tuple[HTTPStatus, Any]


class Running(Protocol):
    """What a stub and a proxy have in common."""

    @property
    def faults(self) -> Faults: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def addresses(self) -> dict[int, tuple[str, int]]: ...
    def stats(self) -> dict[str, int]: ...
    def cut_connections(self, node: int | None = None) -> int: ...


class Routes:
    """The routes of one stub or proxy."""

    def __init__(self, target: BrokerStub | FaultProxy) -> None:
        self._running: Running = target
        self._stub = target if isinstance(target, BrokerStub) else None
        self._name_of: Callable[[UUID], str | None] = target.cluster.topic_name if isinstance(target, BrokerStub) else target.topic_name

    def answer(self, request: Request) -> Told:
        """Calls the route of the request. Raises HttpError."""
        allowed = []
        for (method, pattern), route in ROUTES.items():
            arguments = request.arguments(pattern)
            if arguments is None:
                continue
            if method == request.method:
                with refusing():
                    return route(self, request, arguments)
            allowed.append(method)
        if allowed:
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, f"{request.method[:20]} {request.path[:100]}: {' or '.join(allowed)}")
        paths = ", ".join(f"{method} {pattern}" for method, pattern in ROUTES)
        raise HttpError(HTTPStatus.NOT_FOUND, f"{request.method[:20]} {request.path[:100]}: the routes are {paths}")

    # -- any ---------------------------------------------------------------------------------------------------------------

    def about(self, request: Request, arguments: list[str]) -> Told:
        addresses = {str(node): f"{host}:{port}" for node, (host, port) in self._running.addresses.items()}
        kind = "broker" if self._stub is not None else "proxy"
        return HTTPStatus.OK, {"fencepost": kind, "brokers": addresses, "paths": [f"{method} {path}" for method, path in ROUTES]}

    def faults(self, request: Request, arguments: list[str]) -> Told:
        return HTTPStatus.OK, {"faults": [fault.as_data() for fault in self._running.faults.installed]}

    def add(self, request: Request, arguments: list[str]) -> Told:
        return HTTPStatus.CREATED, add_fault(self._running.faults, request.body).as_data()

    def fault(self, request: Request, arguments: list[str]) -> Told:
        return HTTPStatus.OK, self._fault(arguments[0]).as_data()

    def remove(self, request: Request, arguments: list[str]) -> Told:
        fault = self._fault(arguments[0])
        last = fault.as_data()
        fault.remove()
        return HTTPStatus.OK, last

    def remove_all(self, request: Request, arguments: list[str]) -> Told:
        last = [fault.as_data() for fault in self._running.faults.installed]
        self._running.faults.clear()
        return HTTPStatus.OK, {"faults": last}

    def release(self, request: Request, arguments: list[str]) -> Told:
        fault = self._fault(arguments[0])
        held = fault.holding
        fault.release()
        return HTTPStatus.OK, {"id": fault.id, "released": held}

    def stats(self, request: Request, arguments: list[str]) -> Told:
        return HTTPStatus.OK, self._running.stats()

    def journal(self, request: Request, arguments: list[str]) -> Told:
        query = request.query
        for name in query:
            if name not in ("limit", "api", "client_id"):
                raise ValueError(f"{name!r}: the parameters are limit, api and client_id")
        limit, api = query.get("limit", str(EXCHANGES)), query.get("api")
        if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:9]) <= EXCHANGES_MAX):
            raise ValueError(f"limit={limit[:60]}: from 1 to {EXCHANGES_MAX}")
        if api is not None and api.upper() not in Api.__members__:
            raise ValueError(f"api={api[:60]}: the name of an API, such as PRODUCE")
        kept = self._running.journal.requests(None if api is None else Api[api.upper()], client_id=query.get("client_id"))
        return HTTPStatus.OK, {"exchanges": [self._exchange(each) for each in kept[-int(limit) :]]}

    def cut(self, request: Request, arguments: list[str]) -> Told:
        (node,) = _body(request, node=None)
        return HTTPStatus.OK, {"cut": self._running.cut_connections(node)}

    # -- stubs only --------------------------------------------------------------------------------------------------------

    def sever(self, request: Request, arguments: list[str]) -> Told:
        one, other, one_way = _body(request, one=..., other=..., one_way=False)
        self._cluster.sever(one, other, one_way=one_way)
        return HTTPStatus.OK, self._severed()

    def mend(self, request: Request, arguments: list[str]) -> Told:
        one, other = _body(request, one=..., other=...)
        self._cluster.mend(one, other)
        return HTTPStatus.OK, self._severed()

    def _severed(self) -> dict[str, Any]:
        return {"severed": self._cluster.severed, "severed_one_way": self._cluster.severed_one_way}

    def slow_down(self, request: Request, arguments: list[str]) -> Told:
        one, other, ms = _body(request, one=..., other=..., ms=...)
        self._cluster.slow_down(one, other, ms)
        return HTTPStatus.OK, {"slow": self._cluster.slow}

    def lose_power(self, request: Request, arguments: list[str]) -> Told:
        node = _number(arguments[0], "a broker")
        self._cluster.lose_power(node)
        return HTTPStatus.OK, {"stopped": node}

    def pause(self, request: Request, arguments: list[str]) -> Told:
        node = _number(arguments[0], "a broker")
        self._cluster.pause_broker(node)
        return HTTPStatus.OK, {"paused": node}

    def resume(self, request: Request, arguments: list[str]) -> Told:
        node = _number(arguments[0], "a broker")
        self._cluster.resume_broker(node)
        return HTTPStatus.OK, {"resumed": node}

    def clock(self, request: Request, arguments: list[str]) -> Told:
        node = _number(arguments[0], "a broker")
        (ahead_ms,) = _body(request, ahead_ms=...)
        self._cluster.set_clock(node, ahead_ms)
        return HTTPStatus.OK, {"node": node, "ahead_ms": ahead_ms}

    def loading(self, request: Request, arguments: list[str]) -> Told:
        node = _number(arguments[0], "a broker")
        (ms,) = _body(request, ms=...)
        self._cluster.slow_loading(node, ms)
        return HTTPStatus.OK, {"node": node, "ms": ms}

    def slow_disk(self, request: Request, arguments: list[str]) -> Told:
        node = _number(arguments[0], "a broker")
        (ms,) = _body(request, ms=...)
        self._cluster.slow_disk(node, ms)
        return HTTPStatus.OK, {"node": node, "ms": ms}

    def disk(self, request: Request, arguments: list[str]) -> Told:
        node = _number(arguments[0], "a broker")
        fault, log_dir = _body(request, fault=None, log_dir=None)
        if fault is None:
            self._cluster.repair_disk(node, log_dir=log_dir)
        else:
            self._cluster.fail_disk(node, fault, log_dir=log_dir)
        return HTTPStatus.OK, {"node": node, "fault": fault} | ({} if log_dir is None else {"log_dir": log_dir})

    def corrupt(self, request: Request, arguments: list[str]) -> Told:
        topic, partition, offset, node = _body(request, topic=..., partition=..., offset=..., node=None)
        self._cluster.corrupt(topic, partition, offset, node=node)
        return HTTPStatus.OK, {"corrupted": {"topic": topic, "partition": partition, "offset": offset}}

    def advance(self, request: Request, arguments: list[str]) -> Told:
        (ms,) = _body(request, ms=...)
        if ms > ADVANCE_MS_MAX:
            raise ValueError(f"ms={ms}: at most {ADVANCE_MS_MAX}, ten years")
        try:
            return HTTPStatus.OK, {"now_ms": self._cluster.advance(ms)}
        except TypeError:
            raise HttpError(HTTPStatus.CONFLICT, "this stub has a real clock; start it with --virtual-clock to advance its time") from None

    def leader(self, request: Request, arguments: list[str]) -> Told:
        topic, partition, to = _body(request, topic=..., partition=..., to=None)
        return HTTPStatus.OK, {"leader": self._cluster.move_leader(topic, partition, to=to)}

    def stop(self, request: Request, arguments: list[str]) -> Told:
        (clean,) = _body(request, clean=True)
        self._cluster.stop_broker(_number(arguments[0], "a broker"), clean=clean)
        return HTTPStatus.OK, {"stopped": int(arguments[0])}

    def start(self, request: Request, arguments: list[str]) -> Told:
        (port,) = _body(request, port=None)
        self._cluster.start_broker(_number(arguments[0], "a broker"), port=port)
        return HTTPStatus.OK, {"started": int(arguments[0]), "address": "{}:{}".format(*self._cluster.addresses[int(arguments[0])])}

    @property
    def _cluster(self) -> BrokerStub:
        if self._stub is None:
            raise HttpError(HTTPStatus.CONFLICT, "a proxy has no brokers of its own; this is for a stub (fencepost broker)")
        return self._stub

    def _fault(self, given: str) -> Fault:
        number = _number(given, "a fault")
        for fault in self._running.faults.installed:
            if fault.id == number:
                return fault
        there = ", ".join(str(fault.id) for fault in self._running.faults.installed) or "none"
        raise KeyError(f"there is no fault {number}; there are: {there}")

    def _exchange(self, exchange: Exchange) -> dict[str, Any]:
        words: dict[str, Any] = {
            "at_ms": exchange.at_ms,
            "node": exchange.node,
            "connection": exchange.connection_id,
            "client_id": exchange.client_id,
            "api": api_name(exchange.api),
            "version": exchange.version,
            "topics": topics_in(exchange.request, self._name_of),
            "groups": sorted(groups_of(exchange.request)),
            "transactional_ids": sorted(transactional_ids_of(exchange.request)),
            "answered": exchange.response is not None,
            "errors": [] if exchange.response is None else errors_in(exchange.response),
        }
        return words if exchange.heard is None else {**words, "heard": exchange.heard.value}


ROUTES: Final[Mapping[tuple[str, str], Callable[[Routes, Request, list[str]], Told]]] = {
    ("GET", "/"): Routes.about,
    ("GET", "/faults"): Routes.faults,
    ("POST", "/faults"): Routes.add,
    ("DELETE", "/faults"): Routes.remove_all,
    ("GET", "/faults/{id}"): Routes.fault,
    ("DELETE", "/faults/{id}"): Routes.remove,
    ("POST", "/faults/{id}/release"): Routes.release,
    ("GET", "/stats"): Routes.stats,
    ("GET", "/journal"): Routes.journal,
    ("POST", "/connections/cut"): Routes.cut,
    ("POST", "/links/sever"): Routes.sever,
    ("POST", "/links/slow"): Routes.slow_down,
    ("POST", "/links/mend"): Routes.mend,
    ("POST", "/clock/advance"): Routes.advance,
    ("POST", "/leaders"): Routes.leader,
    ("POST", "/logs/corrupt"): Routes.corrupt,
    ("POST", "/brokers/{node}/stop"): Routes.stop,
    ("POST", "/brokers/{node}/lose-power"): Routes.lose_power,
    ("POST", "/brokers/{node}/pause"): Routes.pause,
    ("POST", "/brokers/{node}/resume"): Routes.resume,
    ("POST", "/brokers/{node}/clock"): Routes.clock,
    ("POST", "/brokers/{node}/loading"): Routes.loading,
    ("POST", "/brokers/{node}/disk"): Routes.disk,
    ("POST", "/brokers/{node}/slow-disk"): Routes.slow_disk,
    ("POST", "/brokers/{node}/start"): Routes.start,
}


def _number(given: str, what: str) -> int:
    if not (given.isascii() and given.isdigit() and len(given) < 10):
        raise ValueError(f"{given[:60]!r}: the number of {what}")
    return int(given)


def _body(request: Request, **defaults: Any) -> list[Any]:
    """The fields of a body in this order. A field with the default `...` is required. Null is for fields whose default is None."""
    body = {} if request.body is None else request.body
    if not isinstance(body, dict):
        raise ValueError(f"the body must be an object with {', '.join(defaults)}, not {repr(body)[:60]}")
    for name in body:
        if name not in defaults:
            raise ValueError(f"{name[:60]!r} is no field of {request.path}; the fields are {', '.join(defaults)}")
    values = defaults | body
    for name, value in values.items():
        if value is ...:
            raise ValueError(f"{request.path} needs {name}, {ARGUMENTS[name].must_be}")
        if value is not defaults[name]:
            check_arguments(**{name: value})
    return [*values.values()]
