"""The pytest plugin `fencepost`: the fixtures `kafka_stub` and `kafka_stub_factory`, and a report of their stubs when a test fails.

With `--kafka-stub-report=DIR` the report is also a page: what the inspector shows of that moment, as one HTML file.

pytest imports this module at every start, also in every worker of xdist. So it imports nothing until a test uses a fixture. Tests share no
stub. The factory takes settings other than the defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from fencepost.broker_stub.stub import BrokerStub

_STUBS = pytest.StashKey["list[BrokerStub]"]()


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Adds what the test's stubs saw to the report of a failure. After the last report the stubs are forgotten."""
    report: pytest.TestReport = yield  # type: ignore[assignment]  # pytest sends the report, which Iterator has no word for
    stubs = item.stash.get(_STUBS, [])
    if report.failed and stubs:
        from fencepost.broker_stub.control.failure_report import seen_by

        where = item.config.getoption("--kafka-stub-report")
        start = item.config.invocation_params.dir
        for number, stub in enumerate(stubs, 1):
            page = "" if where is None else f"\n{_page_of(stub, start, where, f'{item.nodeid}-{report.when}-{number}')}"
            report.sections.append((f"Kafka stub at {stub.bootstrap}", seen_by(stub) + page))
    if report.when == "teardown" and _STUBS in item.stash:
        del item.stash[_STUBS]
    return report  # type: ignore[return-value]  # the same


def _page_of(stub: BrokerStub, start: Path, directory: str, name: str) -> str:
    """Writes the page and says where it is, or why it is not: the failure of the test comes first. `start`: where pytest was started; the
    test may have changed the working directory."""
    import os
    import re
    from hashlib import sha256

    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[-120:].strip("-")
    file = start / directory / f"{readable}-{sha256(name.encode()).hexdigest()[:8]}.html"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        told = f"page: {stub.share(file)}"
    except OSError as error:
        told = f"no page: {error}"
    return told.replace(f"{start}{os.sep}", "")
