"""What every test run shares: the settings of hypothesis, a first line that says which fencepost is under test, the watch over
sockets, and the closing tables."""

from __future__ import annotations

import importlib.util
import os
import random
from pathlib import Path
from typing import Final

import hypothesis
import pytest

import fencepost
from tests import unclosed
from tests.conformance import summary as conformance
from tests.txn_walk import summary as txn_walk

hypothesis.settings.register_profile("fencepost", deadline=None, print_blob=True)
hypothesis.settings.load_profile("fencepost")
unclosed.watch()
# Before xdist starts its workers, so that all of them draw the same.
STORIES = os.environ.setdefault("FENCEPOST_STORIES", str(random.SystemRandom().randrange(10**6)))

SPARK: Final = "tests/txn/spark/"
"""The tests that share a Spark session."""
CHAOS: Final = "tests/txn/spark/chaos/"
"""The tests that start Sparks of their own."""
FIRST: Final = (
    SPARK,
    CHAOS,
    "tests/conformance/test_conformance.py",
    "tests/conformance/test_security_on_kafka.py",
    "tests/simulation/test_simulation.py",
    "tests/bench/test_bench.py",
    "tests/test_packaging.py",
)
"""What takes longest begins first, in this order."""


def pytest_report_header() -> list[str]:
    info = fencepost.build_info()
    return [
        f"fencepost {info.version} ({'compiled' if info.compiled else 'pure'}) from {Path(fencepost.__file__).parent}",
        f"slow stories are drawn with FENCEPOST_STORIES={STORIES}",
    ]


def scope_of(nodeid: str) -> str:
    """What runs in one process, one after the other: a file; and the tests of Spark, because a JVM for each of four workers is too much."""
    return next((scope for scope in (CHAOS, SPARK) if nodeid.startswith(scope)), nodeid.split("::")[0])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slow ones first, and the others as they were."""
    rank = {scope: place for place, scope in enumerate(FIRST)}
    items.sort(key=lambda item: rank.get(scope_of(item.nodeid), len(FIRST)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    conformance.report(terminalreporter)
    txn_walk.report(terminalreporter)


@pytest.fixture(scope="session")
def expected_build() -> str | None:
    """`compiled`, `pure`, or None if FENCEPOST_EXPECT does not say which build this run tests."""
    return os.environ.get("FENCEPOST_EXPECT") or None


if importlib.util.find_spec("xdist") is not None:
    from xdist.scheduler import LoadFileScheduling

    class _Scheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist publishes no types
        """Scopes side by side, in the order of their first tests."""

        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
        return _Scheduling(config, log) if config.getoption("dist") == "loadfile" else None
