"""The pytest plugin `fencepost`: the fixtures `kafka_stub` and `kafka_stub_factory`, and a report of the stubs when a test fails.

The report is about each stub that the test started or that served it, also without these fixtures. With `--kafka-stub-report=DIR` it is
also a page: what the inspector shows of that moment, as one HTML file.

pytest imports this module at every start, also in every worker of xdist. So it imports nothing until a test uses a fixture. Tests share no
stub of the fixtures. The factory takes settings other than the defaults.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path
    from weakref import ref

    from fencepost.broker_stub.stub import BrokerStub

_STUBS = pytest.StashKey["list[BrokerStub]"]()
"""The stubs of the fixtures, so that they live until the last report."""
_BEFORE = pytest.StashKey["dict[ref[BrokerStub], int]"]()
"""The stubs that other tests had started, and the number of the last exchange of each."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fencepost")
    group.addoption(
        "--kafka-stub-report", metavar="DIR", help="When a test fails, write what its Kafka stubs saw to this directory, as HTML files."
    )


@pytest.fixture
def kafka_stub(kafka_stub_factory: Callable[..., BrokerStub]) -> BrokerStub:
    """A Kafka-compatible broker for this test, listening at `kafka_stub.bootstrap`. `Producer(kafka_stub.settings)` waits only a second
    for a lost reply."""
    return kafka_stub_factory()


@pytest.fixture
def kafka_stub_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., BrokerStub]]:
    """Starts brokers with BrokerStub's arguments, such as brokers=3 or clock=VirtualClock(). All are closed after the test."""
    from contextlib import ExitStack

    from fencepost.broker_stub.stub import BrokerStub

    started = request.node.stash.setdefault(_STUBS, [])
    with ExitStack() as running:

        def start(**options: Any) -> BrokerStub:
            stub = running.enter_context(BrokerStub(**options))
            started.append(stub)
            return stub

        yield start


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Notes what the stubs have seen before the test. Its own fixtures start theirs later."""
    item.stash[_BEFORE] = {each: _newest(stub) for each in _started() if (stub := each()) is not None}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Adds what the test's stubs saw to the report of a failure. After the last report the stubs are forgotten."""
    report: pytest.TestReport = yield  # type: ignore[assignment]  # pytest sends the report, which Iterator has no word for
    if report.failed:
        before = item.stash.get(_BEFORE, {})
        number = 0
        for each in _started():
            stub = each()
            if stub is not None and (each not in before or _newest(stub) > before[each]):
                number += 1
                report.sections.append(_section(stub, before.get(each, 0), item, f"{item.nodeid}-{report.when}-{number}"))
    if report.when == "teardown" and _STUBS in item.stash:
        del item.stash[_STUBS]
    return report  # type: ignore[return-value]  # the same


def _started() -> list[ref[BrokerStub]]:
    """Every stub that the process has started and not forgotten, the oldest first."""
    stubs = sys.modules.get("fencepost.broker_stub.stub")
    return [] if stubs is None else [*stubs.STARTED]


def _newest(stub: BrokerStub) -> int:
    """The number of its last exchange; 0 without one."""
    exchanges = stub.journal.requests()
    return exchanges[-1].number if exchanges else 0


def _section(stub: BrokerStub, after: int, item: pytest.Item, name: str) -> tuple[str, str]:
    from fencepost.broker_stub.control.failure_report import seen_by

    directory = item.config.getoption("--kafka-stub-report")
    try:
        text = seen_by(stub, after=after)
        if directory is not None:
            text += f"\n{_page_of(stub, item.config.invocation_params.dir, directory, name)}"
    except Exception as error:  # noqa: BLE001  # the failure of the test comes first
        text = f"no report: {error!r}"
    return f"Kafka stub at {stub.bootstrap}", text


def _page_of(stub: BrokerStub, start: Path, directory: str, name: str) -> str:
    """Writes the page and says where it is, or why it is not: the failure of the test comes first. `start`: where pytest was started; the
    test may have changed the working directory."""
    import os
    import re
    from hashlib import sha256

    from fencepost.broker_stub.inspector.inspector import share

    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[-120:].strip("-")
    file = start / directory / f"{readable}-{sha256(name.encode()).hexdigest()[:8]}.html"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        told = f"page: {share(stub._source(), file, at_end=True)}"
    except OSError as error:
        told = f"no page: {error}"
    return told.replace(f"{start}{os.sep}", "")
