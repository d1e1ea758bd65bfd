"""For every test run: the settings of hypothesis, a first line that names the fencepost under test, the rows that are drawn, the report of
unclosed sockets, and the closing tables.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import hypothesis
import pytest

import fencepost
from tests import unclosed
from tests.conformance import summary as conformance
from tests.drawn import SEED, pytest_collection_modifyitems
from tests.txn_walk import summary as txn_walk

hypothesis.settings.register_profile("fencepost", deadline=None, print_blob=True)
hypothesis.settings.load_profile("fencepost")
unclosed.watch()
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # In a shell's background job. The processes that tests interrupt would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Before xdist starts its workers, so that all of them draw the same.
STORIES = os.environ.setdefault(SEED, str(random.SystemRandom().randrange(10**6)))
__all__ = ["pytest_collection_modifyitems"]

SPARK: Final = "tests/txn/spark/"
SINK: Final = "tests/txn/spark/sink/"
"""Where the tests are that share a Spark session: two places, because together they take longer than everything else."""
KILLS: Final = "tests/txn/spark/chaos/"
"""Those that start Sparks of their own, one at a time."""
LEFT_S: Final = 5.0
"""How long the thread of what a test has let go of may take to end."""
LONGEST: Final = (
    KILLS,
    SINK,
    SPARK,
    "tests/conformance/",
    "tests/ecosystem/",
    "tests/txn_walk/",
    "tests/simulation/",
    "tests/test_packaging.py",
)
"""What begins first, so that no worker is left alone with a long file at the end."""


def pytest_report_header() -> list[str]:
    info = fencepost.build_info()
    return [
        f"fencepost {info.version} ({'compiled' if info.compiled else 'pure'}) from {Path(fencepost.__file__).parent}",
        f"long matrices and slow stories are drawn with {SEED}={STORIES}; {SEED}=all runs every row",
    ]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    conformance.report(terminalreporter)
    txn_walk.report(terminalreporter)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A run of `-m alone` loads only the files that have such tests: loading all of them takes longer than these tests."""
    if config.getoption("markexpr") == "alone" and collection_path.suffix == ".py":
        return True if b"mark.alone" not in collection_path.read_bytes() else None
    return None


@pytest.fixture(scope="module", autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """A file whose tests leave a thread of the library fails: a producer's warnings would trouble the tests of other files."""
    before = set(threading.enumerate())
    yield
    new = [each for each in threading.enumerate() if each not in before and each.name.startswith("fencepost-")]
    for thread in new:
        if thread.is_alive():  # CPython keeps a thread in its list for ever if `Thread.start` is interrupted early, and it never runs.
            thread.join(LEFT_S)
    assert [each.name for each in new if each.is_alive()] == []


@pytest.fixture(scope="module")
def struck_garbage() -> Iterator[None]:
    """What struck calls leave open, such as a socket that was just made, is found in the file that struck them, and in no other."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def expected_build() -> str | None:
    """`compiled`, `pure`, or None if FENCEPOST_EXPECT does not say which build this run tests."""
    return os.environ.get("FENCEPOST_EXPECT") or None


if importlib.util.find_spec("xdist") is not None:
    from xdist.scheduler import LoadFileScheduling

    class _Scheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist publishes no types
        """Runs files in parallel, but those that share a Spark session one after the other, and those that start Sparks too: a JVM for each
        of four workers takes too much memory. So there are two, and the Sparks that a test starts itself.
        """

        def _split_scope(self, nodeid: str) -> str:
            file = str(super()._split_scope(nodeid))
            return next((place for place in (KILLS, SINK, SPARK) if file.startswith(place)), file)

        def _assign_work_unit(self, node: object) -> None:
            first = min(self.workqueue, key=lambda scope: next((rank for rank, place in enumerate(LONGEST) if scope.startswith(place)), 9))
            self.workqueue.move_to_end(first, last=False)
            super()._assign_work_unit(node)

    def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
        return _Scheduling(config, log) if config.getoption("dist") == "loadfile" else None
