"""What the benches of Spark and of participants plan and print, and a very short run of the one that needs no Spark.

These tests judge no figure.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from tests.bench import spark
from tests.bench.spark_report import BASE, RIVALS, Measured, phases, ratios, speeds
from tests.bench.spark_worker import Contender
from tests.bench.test_bench import RUNS
from tests.conformance.fixtures import require_kafka
from tests.drawn import drawn

PARTICIPANTS = Path(__file__).with_name("participants.py")


def asked(monkeypatch: pytest.MonkeyPatch, *options: str) -> Any:
    """The options as the command line gives them."""
    monkeypatch.setattr(sys, "argv", ["spark.py", *options])
    return spark.parsed()


def shown(table: Any) -> str:
    console = Console(file=io.StringIO(), width=400)
    console.print(table)
    printed = console.file
    assert isinstance(printed, io.StringIO)
    return printed.getvalue()


def test_every_contender_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round measures every contender for each size, in a rotating order. The driver's contender gets only sizes that a driver can
    hold.
    """
    every = ",".join(spark.CONTENDERS)
    options = asked(monkeypatch, "--contenders", every, "--rows", "1000,2000000", "--rounds", "2")
    plan = list(spark.planned(options))
    assert Counter(number for number, _, _ in plan) == {1: 22, 2: 22}
    small = [name for number, rows, name in plan if (number, rows) == (1, 1000)]
    assert sorted(small) == sorted(spark.CONTENDERS)
    assert small[0] != next(name for number, rows, name in plan if (number, rows) == (2, 1000))
    large = {name for _, rows, name in plan if rows == 2_000_000}
    assert {name for name in spark.CONTENDERS if name not in large} == {"driver", "driver-keyless"}
    assert {kind for kind, _ in spark.CONTENDERS.values()} == set(Contender)
    assert RIVALS.items() <= {(name, "sink" if keyed else "sink-keyless") for name, (_, keyed) in spark.CONTENDERS.items()}


def test_a_quick_run_is_one_round_of_what_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--quick` is one round of small sizes. The bench refuses an unknown contender with the names that it knows."""
    options = asked(monkeypatch, "--quick", "--rounds", "5")
    assert {number for number, _, _ in spark.planned(options)} == {1}
    assert max(rows for _, rows, _ in spark.planned(options)) == 1_000_000
    with pytest.raises(SystemExit):
        asked(monkeypatch, "--contenders", "pigeons")


def test_what_is_printed() -> None:
    """Medians over the rounds, ratios inside a round, the time above a batch that is not written, and phases if a contender has them."""

    def measured(number: int, name: str, ms: float, cpu_ms: float, **phases_ms: float) -> Measured:
        return Measured(round=number, rows=10_000, name=name, ms=[ms, ms, ms], cpu_ms=cpu_ms, phases=[phases_ms] if phases_ms else [])

    every = [
        *(measured(number, "bare", 100.0 * number, 30.0) for number in (1, 2)),
        *(measured(number, "driver", 200.0 * number, 60.0, collect=7.0, write=5.5) for number in (1, 2)),
        *(measured(number, "sink", 300.0 * number, 120.0) for number in (1, 2)),
    ]
    text = shown(speeds(every, ["bare", "driver", "sink"]))
    assert "medians of 2 rounds" in " ".join(text.split())
    for figure in ("10,000", "300 ms", "0.03 M/s", "2.0 µs", "×1.50, ×0.50", "+150 ms"):
        assert figure in text
    text = shown(phases(every, ["bare", "driver", "sink"]))
    for figure in ("collect", "7.0", "write", "5.5"):
        assert figure in text
    assert "sink" not in text
    assert "medians of 1 round" in " ".join(shown(speeds(every[:1], ["bare"])).split())


def test_two_builds_are_measured_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `--base` each of fencepost's contenders runs with both builds, one right after the other and in an order that changes. Ratios
    compare the two of one round.
    """
    options = asked(monkeypatch, "--base", ".", "--contenders", "bare,turns", "--rows", "1000", "--rounds", "2")
    assert [name for _, _, name in spark.planned(options)] == ["turns", "turns (base)", "bare", "bare", "turns (base)", "turns"]

    def measured(number: int, name: str, ms: float) -> Measured:
        return Measured(round=number, rows=1_000, name=name, ms=[ms], cpu_ms=ms / 2, phases=[])

    pairs = [
        measured(1, "turns", 110.0),
        measured(1, "turns" + BASE, 100.0),
        measured(2, "turns", 90.0),
        measured(2, "turns" + BASE, 180.0),
    ]
    assert ratios([*pairs, measured(1, "bare", 1.0)]) == {
        (1_000, "turns", "ms of a batch"): [1.1, 0.5],
        (1_000, "turns", "CPU of a row"): [1.1, 0.5],
    }
    lost = [replace(each, cpu_ms=-5.0) if each.round == 1 else each for each in pairs]  # a worker's time went to another process
    assert ratios(lost) == {(1_000, "turns", "ms of a batch"): [1.1, 0.5], (1_000, "turns", "CPU of a row"): [0.5]}


@drawn(3, of=RUNS)
@pytest.mark.timeout(180)
def test_a_short_run_of_participants(tmp_path: Path) -> None:
    """Participants in two processes write two transactions on Kafka. The bench itself counts what consumers read."""
    require_kafka()
    file = tmp_path / "turns.json"
    small = ["--participants", "4", "--processes", "2", "--transactions", "2", "--records", "5", "--versions", "2"]
    command = [sys.executable, "-P", str(PARTICIPANTS), *small, "--json", str(file)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=160)
    assert done.returncode == 0, done.stderr
    turns = json.loads(file.read_text())
    assert [len(turn["done"]) for turn in turns] == [4, 4]
    assert all(one["written"]["records"] == 6 and one["first_ms"] > 0 for turn in turns for one in turn["done"])
    assert done.stdout.count("TV2") == 2
