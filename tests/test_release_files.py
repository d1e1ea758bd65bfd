"""What is read only when a release is made, or on a machine elsewhere: it names what is there, in one version."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[1]
WORKFLOWS: Final = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())
MAKE: Final = (ROOT / "Makefile").read_text()


def test_one_version() -> None:
    """pyproject.toml, CITATION.cff and the newest heading of the changelog say the same."""
    version = PROJECT["project"]["version"]
    assert re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == version  # type: ignore[index]
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == version


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow(path: Path) -> None:
    """Each action is named by its commit, with its version behind it; each make target and each script exists."""
    text = path.read_text()
    actions = re.findall(r"uses: (.+)$", text, re.MULTILINE)
    assert actions
    for action in actions:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
    for target in re.findall(r"run: make ([\w-]+)", text):
        assert re.search(rf"^{target}:", MAKE, re.MULTILINE), target
    for script in re.findall(r"python -P (\S+)", text):
        assert (ROOT / script).is_file(), script


def test_the_pythons() -> None:
    """What the classifiers name is tested, and each tested version has a compiled wheel."""
    named = {line.rsplit(" ", 1)[1] for line in PROJECT["project"]["classifiers"] if "Python :: 3." in line}
    matrix = re.search(r"python: \[(.+)\]", (ROOT / ".github" / "workflows" / "checks.yml").read_text())
    assert matrix is not None
    tested = set(re.findall(r"\d\.\d+", matrix[1]))
    built = {f"3.{selector[3:-2]}" for selector in PROJECT["tool"]["cibuildwheel"]["build"]}
    assert named <= tested == built


def test_the_same_commit_of_an_action_everywhere() -> None:
    """An action has one version in all workflows."""
    commits: dict[str, set[str]] = {}
    for path in WORKFLOWS:
        for name, commit in re.findall(r"uses: (\S+)@(\S+)", path.read_text()):
            commits.setdefault(name, set()).add(commit)
    assert len(WORKFLOWS) == 2
    assert {name: found for name, found in commits.items() if len(found) > 1} == {}
