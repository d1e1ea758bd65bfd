"""Type checkers know the settings: a misspelled or mistyped one is an error before the program runs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.once import once_is_enough
from tests.pages import generator

CALLS = Path(__file__).with_name("typed_calls.py")


def test_the_keywords_are_what_the_structs_say() -> None:
    """`keywords.py` is what `python docs/make_keywords.py` writes from the structs."""
    made = generator("make_keywords")
    for target in made.TARGETS:
        assert target.file.read_text() == made.page(target), "run: python docs/make_keywords.py"


@pytest.mark.timeout(300)
@once_is_enough("reads types, which are the same compiled or not")
def test_mypy_tells_right_calls_from_wrong_ones(tmp_path: Path) -> None:
    """mypy finds the mistake in each of 46 wrong calls, and nothing in 35 right ones; it reads the installed package."""
    calls = tmp_path / "calls.py"
    calls.write_text(CALLS.read_text())
    done = subprocess.run(
        [sys.executable, "-P", "-m", "mypy", "--strict", "--ignore-missing-imports", f"--cache-dir={tmp_path / 'cache'}", str(calls)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    found = {int(line) for line in re.findall(r"calls\.py:(\d+): error", done.stdout)}
    right, wrong = (node for node in ast.parse(calls.read_text()).body if isinstance(node, ast.FunctionDef))
    assert (len(right.body), len(wrong.body)) == (35, 46)
    assert found == {statement.lineno for statement in wrong.body}, done.stdout
