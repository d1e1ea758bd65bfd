"""The examples run as they are, in the order of their numbers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fencepost

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example: Path) -> None:
    """It ends well, says something, and complains of nothing."""
    command = [sys.executable, "-W", "error", str(example)]
    where = {**os.environ, "PYTHONPATH": str(Path(fencepost.__file__).parents[1])}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=where)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout


def test_the_example_with_tests_passes_under_pytest() -> None:
    """As its docstring says, with the fixture that comes with the package."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLES[0].with_name("07_testing.py"))]
    where = {**os.environ, "PYTHONPATH": str(Path(fencepost.__file__).parents[1])}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=where)
    assert ran.returncode == 0, ran.stdout
    assert "4 passed" in ran.stdout


def test_examples_are_numbered_and_say_what_they_show() -> None:
    """01, 02, ..., each once and with a docstring that begins with its number. 05 and 06 are for what is not there yet."""
    kept = {5, 6}
    numbers = [number for number in range(1, len(EXAMPLES) + len(kept) + 1) if number not in kept]
    assert [example.name[:3] for example in EXAMPLES] == [f"{number:02}_" for number in numbers]
    for example in EXAMPLES:
        assert re.match(rf'"""{example.name[:2]}: \w', example.read_text(encoding="utf-8")), example.name
