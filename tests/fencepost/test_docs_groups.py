"""docs/groups.md is true: its tables are what the assignors say, and its commands run as printed, with the printed output."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.broker_stub import BrokerStub
from tests.broker_stub.groups.assignors.worked_examples import EXAMPLES, Example, section, thread_section
from tests.fencepost.cli.group_stub import docs_stub
from tests.fencepost.cli.shell import run
from tests.pages import page_text

pytestmark = pytest.mark.timeout(200)

PAGE = page_text("groups.md")
COMMAND = re.compile(r"^    \$ (fencepost .*)\n((?:    (?!\$ ).*\n|\n(?=    (?!\$ )))*)", re.MULTILINE)
FILE = re.compile(r"^    \$ cat (\S+)\n((?:    (?!\$ ).*\n)+)", re.MULTILINE)
OWN_IDS = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The part of a member id that the coordinator draws."""


@pytest.fixture(scope="module")
def stub() -> Iterator[BrokerStub]:
    with docs_stub() as running:
        yield running


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_the_worked_examples(example: Example) -> None:
    """Each stands on the page, with every cell."""
    assert f"\n{section(example)}\n" in PAGE


def test_the_example_of_threads() -> None:
    """It stands on the page, with every cell."""
    assert f"\n{thread_section()}\n" in PAGE


def test_every_table_of_an_example_is_checked() -> None:
    """The page has no others."""
    assert PAGE.count("\n| member |") == len(EXAMPLES)


def text(shown: str) -> list[str]:
    """The lines without the page's indent, empty lines and the ids that a coordinator draws."""
    return [OWN_IDS.sub("ID", line.strip()) for line in shown.splitlines() if line.strip()]


def test_the_commands(stub: BrokerStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the page. The output on the page is all of it, and each command ends with exit code 0."""
    monkeypatch.chdir(tmp_path)
    for name, content in FILE.findall(PAGE):
        (tmp_path / name).write_text(content)
    commands = COMMAND.findall(PAGE)
    assert len(commands) >= 6
    for command, shown in commands:
        ran = run(*shlex.split(command)[1:], FENCEPOST_BOOTSTRAP=stub.bootstrap)
        assert ran.returncode == 0, (command, ran.stderr)
        assert text(ran.stdout + ran.stderr) == text(shown), command
    for command in re.findall(r"^    (fencepost groups \w+ .*)$", PAGE, re.MULTILINE):
        words, _, target = command.partition(" > ")
        ran = run(*shlex.split(words)[1:], FENCEPOST_BOOTSTRAP=stub.bootstrap)
        assert ran.returncode == 0, (command, ran.stderr)
        if target:
            (tmp_path / target).write_text(ran.stdout)
