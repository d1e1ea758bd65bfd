"""docs/replication.md is true: its programs run as printed, with leader epochs and without."""

from __future__ import annotations

import re

import pytest

from tests.pages import page_text, programs

PAGE = page_text("replication.md")
PROGRAMS = {re.findall(r"def (\w+)", program)[0]: program for program in programs(PAGE)}


@pytest.mark.parametrize("name", ["loss", "divergence"])
def test_a_scenario_runs_both_ways(name: str) -> None:
    """Its assertions say what is lost, and which replicas differ."""
    assert PROGRAMS[name].count("assert ") == 2
    exec(compile(PROGRAMS[name], str(name), "exec"), {})
