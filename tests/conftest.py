"""What every test run shares: the settings of hypothesis, and a first line that says which fencepost is under test."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

import fencepost

hypothesis.settings.register_profile("fencepost", deadline=None, print_blob=True)
hypothesis.settings.load_profile("fencepost")


def pytest_report_header() -> str:
    info = fencepost.build_info()
    return f"fencepost {info.version} ({'compiled' if info.compiled else 'pure'}) from {Path(fencepost.__file__).parent}"


@pytest.fixture(scope="session")
def expected_build() -> str | None:
    """`compiled`, `pure`, or None where nobody said what this run is to be."""
    return os.environ.get("FENCEPOST_EXPECT") or None
