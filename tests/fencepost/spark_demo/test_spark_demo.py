"""The pieces of the Spark demo that need no Spark; all of it is `make spark-demo`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from fencepost.demo.flights import Flight, row_of
from fencepost.spark_demo import Outcome, Report, as_table, problems
from fencepost.spark_demo.files import padded, write_files
from fencepost.spark_demo.processes import processes

FLIGHTS = [Flight(b"N%d" % (number % 120) if number % 7 else None, b"%d,JFK" % number) for number in range(1000)]


def outcome(guard: str = "turns", *, lost: int = 0, doubled: int = 0, killed: int = 1) -> Outcome:
    return Outcome(
        guard=guard,
        batches=6,
        executors_killed=killed,
        drivers_killed=killed,
        reruns=1,
        expected=1000,
        present=1000 - lost,
        lost=lost,
        doubled=doubled,
    )


def test_all_records_are_of_one_size() -> None:
    """Padding changes neither key nor row number."""
    flights = padded(FLIGHTS)
    assert {len(key or b"") + len(value) for key, value in flights} == {len(b"N119") + len(b"999,JFK")}
    assert [(key, row_of(value)) for key, value in flights] == [(key, row_of(value)) for key, value in FLIGHTS]


def test_files_hold_every_flight_once(tmp_path: Path) -> None:
    """In the order in which the source takes the files: by their times."""
    assert write_files(padded(FLIGHTS), tmp_path / "flights") == 6
    files = sorted((tmp_path / "flights").iterdir(), key=lambda file: file.stat().st_mtime)
    assert [row_of(value) for file in files for value in pq.read_table(file)["value"].to_pylist()] == [*range(1000)]


def test_only_the_guarded_run_is_held_to_anything() -> None:
    """The demo shows losses without a guard. A guarded run without a kill has shown nothing."""
    off = outcome("off", lost=5, doubled=5)
    assert problems(Report(outcome(), off)) == []
    assert problems(Report(outcome(lost=1, doubled=2), off)) == ["1 row lost by the guarded run", "2 rows doubled by the guarded run"]
    assert len(problems(Report(outcome(killed=0), off))) == 1
    assert as_table(Report(outcome(), off)).row_count == 9


def test_processes_are_listed_with_their_parents() -> None:
    """A child is found below this process, until it is dead."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert [each.pid for each in processes() if each.parent == os.getpid() and "input()" in each.command] == [child.pid]
        child.kill()
    assert child.pid not in [each.pid for each in processes()]
