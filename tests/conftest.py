"""What every test run shares: the settings of hypothesis, a first line that says which fencepost is under test, the watch over
sockets, and the closing table."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

import fencepost
from tests import unclosed
from tests.conformance.summary import pytest_terminal_summary

__all__ = ["pytest_terminal_summary"]

hypothesis.settings.register_profile("fencepost", deadline=None, print_blob=True)
hypothesis.settings.load_profile("fencepost")
unclosed.watch()


def pytest_report_header() -> str:
    info = fencepost.build_info()
    return f"fencepost {info.version} ({'compiled' if info.compiled else 'pure'}) from {Path(fencepost.__file__).parent}"


@pytest.fixture(scope="session")
def expected_build() -> str | None:
    """`compiled`, `pure`, or None where nobody said what this run is to be."""
    return os.environ.get("FENCEPOST_EXPECT") or None
