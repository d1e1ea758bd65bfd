"""Every test says what it asks."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent


def test_every_test_has_a_docstring() -> None:
    """A name says what is tried, the sentence below it what must come of it."""
    without = []
    for file in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_") and not ast.get_docstring(node):
                without.append(f"{file.relative_to(TESTS)}:{node.lineno} {node.name}")
    assert without == []
