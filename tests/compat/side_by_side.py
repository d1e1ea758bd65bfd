"""Runs another project's tests with the producer of one side, and reads what became of each test."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree

HERE: Final = Path(__file__).resolve().parent
SIDES: Final = ("theirs", "ours")
OUTCOMES: Final = ("passed", "failed", "skipped")
SUITE_LIMIT_S: Final = 3600.0


class Case(NamedTuple):
    """A test of one run. `outcome`: one of OUTCOMES. `words`: why it did not pass."""

    file: str
    outcome: str
    words: str


Run = dict[str, Case]


def run_pytest(
    directory: Path, side: str, arguments: Sequence[str], *, python: str = sys.executable, path: Sequence[str] = (), **environment: str
) -> tuple[Run, int]:
    """The tests by name, and pytest's exit code. `path`: what comes before our plugins in Python's path. pytest's own output goes to
    standard error."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place, "report.xml")
        command = [python, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", "--tb=short"]
        done = subprocess.run(
            [*command, "--continue-on-collection-errors", *arguments],
            cwd=directory,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, (*path, str(HERE), os.environ.get("PYTHONPATH")))),
                "PYTHONDONTWRITEBYTECODE": "1",
                "FENCEPOST_SIDE": side,
                **environment,
            },
            stdout=sys.stderr,
            timeout=SUITE_LIMIT_S,
            check=False,
        )
        if not report.exists():
            raise SystemExit("pytest ended before it ran a test: see above")
        return read_report(report), done.returncode


def read_report(report: Path) -> Run:
    """The tests of a JUnit report."""
    found: Run = {}
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.get("classname", "").split(".Test")[0].removeprefix("tests.")
        told = [(kind, case.find(kind)) for kind in ("failure", "error", "skipped")]
        kind, words = next(((kind, each.get("message", "")) for kind, each in told if each is not None), ("passed", ""))
        outcome = "failed" if kind in ("failure", "error") else kind
        found[f"{case.get('classname')}::{case.get('name')}"] = Case(file, outcome, words)
    return found
