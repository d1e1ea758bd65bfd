"""The bench works: what `make bench` runs, made very short. No figure is judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).with_name("run.py")
BUILD_WORDS = ("compiled", "pure")


@pytest.mark.timeout(300)
def test_a_quick_run_measures_every_contender_in_every_scenario(tmp_path: Path) -> None:
    """`--quick` runs every contender in every scenario on the stub, each gets all its records acknowledged, and `--json` says so."""
    file = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, "-P", str(BENCH), "--quick", "--json", str(file)], cwd=tmp_path, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    assert any(word in found["build"] for word in BUILD_WORDS)
    measured = found["measured"]
    scenarios = {one["scenario"] for one in measured}
    contenders = {one["contender"] for one in measured}
    assert len(scenarios) == 3
    assert len(contenders) == 7
    assert len(measured) == len(scenarios) * len(contenders)
    for one in measured:
        figures = one["figures"]
        assert figures["acked"] == found["settings"]["records"]
        assert figures["acked_per_s"] > 0
        assert figures["cpu_ns"] > 0
        if "ceiling" not in one["contender"]:
            assert figures["burst_us"] > 0
            assert figures["send_us"] > 0
    for row in found["rows"]:
        assert row["ceiling_share"] > 0
        assert row["acked_ratio"] > 0
        assert row["contender"] in done.stdout


def test_an_unknown_contender_is_refused(tmp_path: Path) -> None:
    """A name that the bench does not know is refused with the names that it does."""
    done = subprocess.run(
        [sys.executable, "-P", str(BENCH), "--contenders", "pigeons"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "'pigeons' is not one of futures, callbacks, many, arrow, confluent, confluent-batch, ceiling" in done.stderr
