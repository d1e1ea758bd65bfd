"""A run takes some rows of a long matrix, and every row comes sooner or later."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.drawn import SEED, draw

ROOT = Path(__file__).parents[1]
ROWS = [f"test[{number}]" for number in range(11)]

MATRIX = """
import pytest
from tests.drawn import drawn

@drawn(3, kind=lambda row: row["colour"])
@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("colour", ["red", "blue"])
def test_matrix(colour, number):
    pass

@drawn(2, of="the stories")
def test_one_story():
    pass

@drawn(2, of="the stories")
def test_another_story():
    pass

def test_alone():
    pass

@drawn(2, site=lambda row: row["cluster"])
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("cluster", [None, "three", "guarded"])
def test_sites(cluster, number):
    pass
"""


def run(directory: Path, seed: str, *arguments: str) -> list[str]:
    """The tests of the matrix that ran."""
    (directory / "test_matrix.py").write_text(MATRIX)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-v", "-c", os.devnull, "--rootdir", str(directory), "-p", "tests.drawn", *arguments],
        cwd=directory,
        # Plugins take most of the time that pytest needs to start, hypothesis's above all.
        env={**os.environ, SEED: seed, "PYTHONPATH": str(ROOT), "FENCEPOST_PURE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return re.findall(r"::(\S+) PASSED", done.stdout)


def test_the_seed_says_which() -> None:
    """The same seed draws the same rows, in any order: one in so many, rounded up."""
    first = draw(ROWS, 3, "7")
    assert first == draw(reversed(ROWS), 3, "7")
    assert len(first) == 4
    assert len(draw(ROWS[:1], 3, "7")) == 1
    assert len({frozenset(draw(ROWS, 3, str(seed))) for seed in range(20)}) > 10


def test_every_row_is_drawn_sooner_or_later() -> None:
    """No row waits for ever."""
    assert set().union(*(draw(ROWS, 4, str(seed)) for seed in range(60))) == set(ROWS)


def test_each_kind_and_each_group(tmp_path: Path) -> None:
    """Of each kind one row in three runs, of the stories one of two, and what is not marked always."""
    ran = run(tmp_path, "5")
    for start, count in {
        "test_matrix[red-": 2,
        "test_matrix[blue-": 2,
        "test_one_story": 0,
        "test_another_story": 0,
        "test_alone": 1,
    }.items():
        assert len([name for name in ran if name.startswith(start)]) >= count, ran
    assert len(ran) == 6 + 4
    assert run(tmp_path, "5") == ran


def test_one_site_of_several(tmp_path: Path) -> None:
    """The rows of one cluster, beside those that need none: half of both together. Each cluster comes sooner or later."""
    came = set()
    for seed in range(5):
        ran = run(tmp_path, str(seed), "-k", "test_sites")
        clusters = {name.split("[")[1].split("-")[0] for name in ran}
        assert len(ran) == 4
        assert len(clusters - {"None"}) <= 1
        came |= clusters
    assert came == {"None", "three", "guarded"}


FILE = """
import pytest
from tests.drawn import drawn, drawn_files

pytestmark = drawn_files(2, of="files with a broker")

@drawn(2)
@pytest.mark.parametrize("number", range(4))
def test_rows(number):
    pass

def test_alone():
    pass
"""


def test_whole_files(tmp_path: Path) -> None:
    """One file of two runs; inside it, rows are drawn as in every file."""
    for name in ("test_one.py", "test_two.py", "test_three.py"):
        (tmp_path / name).write_text(FILE)
    ran = run(tmp_path, "5", "test_one.py", "test_two.py", "test_three.py")
    assert len(ran) == 2 * 3
    assert len(run(tmp_path, "all", "test_one.py", "test_two.py", "test_three.py")) == 3 * 5
    assert len(run(tmp_path, "5", "test_two.py")) == 3


@pytest.mark.parametrize(
    ("seed", "arguments", "count"),
    [
        ("all", (), 27),
        ("5", ("test_matrix.py::test_matrix[red-0]",), 1),
        ("5", ("test_matrix.py::test_matrix[red-5]",), 1),
        ("5", ("-k", "blue-4"), 1),
        ("5", ("-k", "guarded-2"), 1),
    ],
    ids=["all", "one by name", "another by name", "one by a word", "one of a site"],
)
def test_what_is_asked_for_runs(tmp_path: Path, seed: str, arguments: tuple[str, ...], count: int) -> None:
    """Every row with FENCEPOST_STORIES=all, and a row that is named."""
    assert len(run(tmp_path, seed, *arguments)) == count
