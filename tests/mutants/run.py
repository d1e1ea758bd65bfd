"""Does a test notice? Changes the sources at random, one change at a time, runs the nearest tests, and lists the changes that no test
noticed.

`make mutants` runs it. It makes every change in a copy of the checkout. It writes each result to a file at once, so that the next run
continues after an interrupted one. The seed decides which changes are drawn.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import msgspec

from tests.mutants.areas import AREAS, ROOT
from tests.mutants.changes import Change, changes

COPIED: Final = (
    *("producer", "txn", "broker_stub", "fencepost", "pyspark_fencepost", "tests", "examples", "docs"),
    *("pyproject.toml", "README.md", "setup.py"),
)
PATIENCE: Final = 4
"""A change that makes the tests take this many times as long as without it hangs them."""
STARTUP_S: Final = 60.0
TEST_TIMEOUT_S: Final = 120
FIRST_FAILURE: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class Result(msgspec.Struct, frozen=True):
    """`noticed_by`: the first test that failed, or how the run ended otherwise; empty if every test passed."""

    area: str
    source: str
    change: str
    noticed_by: str
    seconds: float

    @property
    def key(self) -> tuple[str, str]:
        return self.source, self.change


class Drawn(msgspec.Struct, frozen=True):
    """A change that was drawn."""

    area: str
    source: str
    change: Change

    @property
    def key(self) -> tuple[str, str]:
        return self.source, str(self.change)


class Workplace:
    """A copy of the checkout, in which one thread makes one change at a time. `said`: the last output of pytest."""

    def __init__(self, parent: Path, number: int) -> None:
        self._root = parent / f"workplace-{number}"
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self._root / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
            else:
                shutil.copy2(source, self._root / name)
        self._written = 0
        self.said = ""

    def judge(self, drawn: Drawn, *, timeout_s: float) -> Result:
        """Make the change, run the tests, and undo the change."""
        file = self._root / drawn.source
        honest = file.read_text()
        begun = time.monotonic()
        self._write(file, drawn.change.apply(honest))
        try:
            noticed = self.run(AREAS[drawn.area].nearest(drawn.source), timeout_s=timeout_s)
        finally:
            self._write(file, honest)
        return Result(drawn.area, drawn.source, str(drawn.change), noticed, round(time.monotonic() - begun, 1))

    def run(self, tests: Iterable[str], *, timeout_s: float) -> str:
        """Run test files until one test fails. Return its name, or nothing if all passed."""
        options = ("-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=short", f"--timeout={TEST_TIMEOUT_S}")
        environment = {
            **os.environ,
            "PYTHONPATH": str(self._root),
            "FENCEPOST_PURE": "1",
            "FENCEPOST_EXPECT": "",
            "FENCEPOST_STORIES": "all",
            "PYTHONHASHSEED": "0",
        }
        command = [sys.executable, "-m", "pytest", *options, *tests]
        process = subprocess.Popen(
            command, cwd=self._root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        try:
            self.said, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            return "(the tests hang)"
        if process.returncode == 0:
            return ""
        found = FIRST_FAILURE.search(self.said)
        return found[1] if found else f"(pytest ended with {process.returncode})"

    def _write(self, file: Path, text: str) -> None:
        """Give each version its own modification time. Python treats a compiled file as current if time and size match."""
        file.write_text(text)
        self._written += 1
        stamp = time.time() + 10 * self._written
        os.utime(file, (stamp, stamp))


def draw(seed: int, count: int, areas: Iterable[str]) -> list[Drawn]:
    """Draw changes, equally many from each area. Any beginning of the list is also such a sample."""
    chosen = list(areas)
    shares = []
    for area in chosen:
        everything = [
            Drawn(area, source, change) for source in AREAS[area].files() for change in changes((ROOT / source).read_text(encoding="utf-8"))
        ]
        random.Random(f"{seed} {area}").shuffle(everything)
        shares.append(everything[: -(-count // len(chosen))])
    drawn = [share[place] for place in range(max(map(len, shares))) for share in shares if place < len(share)]
    return drawn[:count]


def main(arguments: list[str] | None = None) -> int:
    """Draw, run and report. Return 1 if the tests noticed a smaller share than wanted."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--sample", type=int, default=400, help="how many changes")
    parser.add_argument("--area", action="append", choices=AREAS, help="only this area; may be repeated")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--results", type=Path, help="the file of results; a later run continues it (default: mutants-SEED.jsonl)")
    parser.add_argument("--wanted", type=float, default=0.95, help="the smallest share of changes that tests must notice")
    options = parser.parse_args(arguments)
    results_file: Path = options.results or Path(f"mutants-{options.seed}.jsonl")
    areas = options.area or list(AREAS)
    drawn = draw(options.seed, options.sample, areas)
    known = {result.key: result for result in _read(results_file)}
    todo = [one for one in drawn if one.key not in known]
    print(f"seed {options.seed}: {len(drawn)} changes, {len(drawn) - len(todo)} of them were run before", flush=True)
    if todo:
        known |= {result.key: result for result in _judge_all(todo, options.workers, results_file)}
    return report([known[one.key] for one in drawn], options.seed, options.wanted)


def _judge_all(todo: list[Drawn], workers: int, results_file: Path) -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="mutants-") as parent, ThreadPoolExecutor(workers) as pool, results_file.open("a") as kept:
        free: SimpleQueue[Workplace] = SimpleQueue()
        for number in range(workers):
            free.put(Workplace(Path(parent), number))
        limits = {area: _time_honest(area, free) for area in dict.fromkeys(one.area for one in todo)}

        def judge(one: Drawn) -> Result:
            place = free.get()
            try:
                return place.judge(one, timeout_s=limits[one.area])
            finally:
                free.put(place)

        results = []
        for result in pool.map(judge, todo):
            results.append(result)
            kept.write(msgspec.json.encode(result).decode() + "\n")
            kept.flush()
            print(f"{result.noticed_by or 'NOT NOTICED'} | {result.source}:{result.change} ({result.seconds:.0f} s)", flush=True)
        return results


def _time_honest(area: str, free: SimpleQueue[Workplace]) -> float:
    """Run the tests of an area without a change; they must pass. Return how many seconds they may take with a change."""
    place = free.get()
    try:
        begun = time.monotonic()
        failed = place.run(AREAS[area].nearest(""), timeout_s=3600)
    finally:
        free.put(place)
    if failed:
        raise SystemExit(f"{place.said}\n{area}: {failed} fails with nothing changed")
    return PATIENCE * (time.monotonic() - begun) + STARTUP_S


def report(results: list[Result], seed: int, wanted: float) -> int:
    """Print the score by area and the survivors; returns the exit code."""
    print(f"\nseed {seed}")
    for area in dict.fromkeys(result.area for result in results):
        of_area = [result for result in results if result.area == area]
        noticed = sum(bool(result.noticed_by) for result in of_area)
        print(f"{area:>20}: {noticed} of {len(of_area)} noticed ({noticed / len(of_area):.0%})")
    survivors = [result for result in results if not result.noticed_by]
    print(f"{'all':>20}: {len(results) - len(survivors)} of {len(results)} noticed ({1 - len(survivors) / len(results):.1%})")
    for result in survivors:
        print(f"  not noticed: {result.source}:{result.change}")
    return int(len(results) - len(survivors) < wanted * len(results))


def _read(file: Path) -> list[Result]:
    if not file.exists():
        return []
    return [msgspec.json.decode(line, type=Result) for line in file.read_bytes().splitlines() if line]


if __name__ == "__main__":
    raise SystemExit(main())
