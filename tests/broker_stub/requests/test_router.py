"""The router: it finds the handlers that are announced, loads them with the first request, and they serve what their announcement says."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from fencepost.broker_stub import handlers
from fencepost.broker_stub.requests import router
from fencepost.broker_stub.requests.router import ROUTES, announce, handles, route_to, served
from fencepost.producer.wire import REQUESTS, Api, Message
from fencepost.producer.wire.messages.groups import HeartbeatRequest


@pytest.fixture(autouse=True)
def registered() -> None:
    handlers.register()


def test_every_handler_serves_what_was_announced() -> None:
    """Loading a handler changes nothing in what ApiVersions says; its docstring opens with the API, its key and its versions."""
    before = list(served())
    for each in before:
        route = route_to(each.api)
        assert route is not None
        assert (route.advertised_min, route.versions.stop - 1) == (each.lowest, each.highest)
        assert route.request is REQUESTS[each.api]
        module = importlib.import_module(route.handler.__module__)
        opening = (module.__doc__ or "").split("\n\n")[0]
        name = route.request.__name__.removesuffix("Request")
        low, high = route.versions.start, route.versions.stop - 1
        said = f"version {high}" if low == high else f"versions {low} and {high}" if high == low + 1 else f"versions {low} to {high}"
        assert opening.startswith(f"{name} ({each.api}), {said}"), opening
    assert list(served()) == before
    assert sorted(ROUTES) == [each.api for each in before]


def test_nothing_serves_what_is_not_served() -> None:
    """An API without a handler has no route."""
    assert route_to(Api.LEADER_AND_ISR) is None
    assert route_to(999) is None


def test_a_stub_starts_without_its_rarer_handlers() -> None:
    """What only some clients ask for, and the messages they ask with, are not imported before they do."""
    code = (
        "import sys; from fencepost.broker_stub import BrokerStub; stub = BrokerStub(); stub.start(); stub.close();"
        "print(*(name for name in sys.modules if name.startswith(('fencepost.broker_stub.', 'fencepost.producer.wire.messages.'))))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout.split()
    assert "fencepost.broker_stub.handlers.produce" in loaded
    rare = {f"fencepost.broker_stub.handlers.{name}" for name, _ in handlers._WHEN_ASKED.values()}
    rare |= {
        f"fencepost.producer.wire.messages.{name}"
        for name in ("groups", "group_offsets", "group_admin", "topic_admin", "configs", "cluster")
    }
    assert [name for name in loaded if name in rare or name.startswith("fencepost.broker_stub.groups.state.classic_group")] == []


def test_a_handler_that_breaks_its_word_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other versions than announced, a second handler, and versions that the message has not are mistakes that show at once."""
    monkeypatch.setattr(router, "ROUTES", {})
    monkeypatch.setattr(router, "_ANNOUNCED", {})
    announce(Api.HEARTBEAT, "nowhere", range(3))
    with pytest.raises(ValueError, match="announced"):
        handles(HeartbeatRequest, range(4))
    with pytest.raises(ValueError, match="not spoken"):
        handles(HeartbeatRequest, range(99))
    handles(HeartbeatRequest, range(3))(lambda call, request: Message())
    with pytest.raises(ValueError, match="already"):
        handles(HeartbeatRequest, range(3))
