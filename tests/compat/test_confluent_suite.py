"""The runner of other projects' tests: it replaces what they import, and says what became of them on both sides."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import fencepost

RUNNER = Path(__file__).with_name("confluent_suite.py")
TESTS = """
import pytest
from confluent_kafka import Producer


def test_it_is_a_producer():
    with Producer({"bootstrap.servers": "127.0.0.1:1"}) as producer, pytest.raises(TypeError):
        producer.produce()


def test_only_theirs():
    assert Producer.__module__ == "cimpl"
"""


def test_both_sides(tmp_path: Path) -> None:
    """The same file runs with both producers. The test that passes on theirs only is named, and the exit code says so."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_Producer.py").write_text(TESTS)
    ours = Path(fencepost.__file__).parents[1]
    command = [sys.executable, "-P", str(RUNNER), "--confluent", str(tmp_path), "--ours", str(ours), "--only", "Producer"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, env={**os.environ, "PYTHONPATH": str(ours)}, check=False)
    assert done.returncode == 1, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("confluent-kafka: Producer"))
    assert "2 of 2" in line, done.stdout + done.stderr
    assert "1 of 2" in line
    assert "fails on ours: tests.test_Producer::test_only_theirs" in done.stdout
