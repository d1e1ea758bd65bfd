"""A very short run of `make bench` works. These tests judge no figure."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.load import REPLAYED, Contender, Scenario, fewer
from tests.drawn import drawn

BENCH = Path(__file__).with_name("run.py")
TRANSACTIONS = Path(__file__).with_name("transactions.py")
AIOKAFKA = Path(__file__).with_name("aiokafka_compat.py")
PIPELINE = Path(__file__).with_name("pipeline.py")
BUILD_WORDS = ("compiled", "pure")


EVERYBODY: dict[Scenario, set[Contender]] = {Scenario.ONE: set(Contender)}
EVERYWHERE = {scenario: {Contender.FUTURES, Contender.CONFLUENT} for scenario in Scenario}

RUNS = "short runs of the benches"


@drawn(3, of=RUNS)
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--scenarios", "one"], EVERYBODY),
        (["--contenders", "futures,confluent", "--latency", "--memory"], {**EVERYWHERE, Scenario.MEMORY: {Contender.CONFLUENT}}),
    ],
    ids=["every contender", "every scenario"],
)
def test_a_quick_run_measures(tmp_path: Path, options: list[str], expected: dict[Scenario, set[Contender]]) -> None:
    """`--quick` runs contenders on the stub, in the named scenarios. The broker acknowledges all records of each, and `--json` says so."""
    file = tmp_path / "figures.json"
    command = [sys.executable, "-P", str(BENCH), "--quick", "--json", str(file), *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    assert any(word in found["build"] for word in BUILD_WORDS)
    measured = found["measured"]
    seen = {scenario: {Contender(one["contender"]) for one in measured if one["scenario"] == scenario.value} for scenario in Scenario}
    java_or_not = {Contender.JAVA} - seen[Scenario.ONE]
    assert {scenario: names for scenario, names in seen.items() if names} == {
        scenario: names - java_or_not for scenario, names in expected.items()
    }
    for one in measured:
        figures, scenario, contender = one["figures"], Scenario(one["scenario"]), Contender(one["contender"])
        assert figures["acked_per_s"] > 0
        assert figures["cpu_ns"] > 0
        if scenario is Scenario.LONE:
            assert 0 < figures["p50_us"] <= figures["p99_us"]
            continue
        assert figures["acked"] == found["settings"]["records"] // fewer(contender, scenario)
        if scenario is Scenario.MEMORY:
            assert figures["grown_bytes"] is not None
        elif contender not in REPLAYED:
            assert figures["burst_us"] > 0
            assert figures["send_us"] > 0
    for row in found["rows"]:
        assert row["contender"] in done.stdout
        assert row["scenario"] in (Scenario.LONE.value, Scenario.MEMORY.value) or row["acked_ratio"] > 0


@drawn(3, of=RUNS)
def test_partitions_and_codecs(tmp_path: Path) -> None:
    """Each number of partitions and each codec has a table of its own."""
    file = tmp_path / "figures.json"
    command = [sys.executable, "-P", str(BENCH), "--quick", "--json", str(file), "--scenarios", "one", "--contenders", "arrow,ceiling"]
    done = subprocess.run(
        [*command, "--partitions", "1,3", "--codecs", "none,lz4"], cwd=tmp_path, capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stderr
    found = {(one["partitions"], one["codec"]) for one in json.loads(file.read_text())["measured"] if one["scenario"] == Scenario.ONE.value}
    assert found == {(1, "none"), (1, "lz4"), (3, "none"), (3, "lz4")}
    assert "one calling thread; 1 partition, lz4" in done.stdout


def test_an_unknown_contender_is_refused(tmp_path: Path) -> None:
    """The bench refuses an unknown contender with the names that it knows."""
    done = subprocess.run(
        [sys.executable, "-P", str(BENCH), "--contenders", "pigeons"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert (
        "'pigeons' is not one of futures, callbacks, many, arrow, confluent, confluent-batch, aiokafka, kafka-python, java, ceiling"
        in done.stderr
    )


@drawn(3, of=RUNS)
@pytest.mark.timeout(300)
def test_a_quick_run_of_transactions(tmp_path: Path) -> None:
    """`--quick` commits on the stub, at intervals and ten records at a time. The bench itself checks what the log holds."""
    file = tmp_path / "figures.json"
    command = [sys.executable, "-P", str(TRANSACTIONS), "--quick", "--json", str(file), "--contenders", "send,many,confluent"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    measured = json.loads(file.read_text())["measured"]
    assert sorted(one["interval_ms"] for one in measured) == [0, 0, 0, 10, 10, 10]
    for one in measured:
        (figures,) = one["rounds"]
        assert figures["records"] >= 10 * figures["transactions"] > 0
        assert 0 < figures["p50_ms"] <= figures["p99_ms"]
        assert one["contender"] in done.stdout


@drawn(3, of=RUNS)
@pytest.mark.timeout(200)
def test_a_quick_run_of_pipelines(tmp_path: Path) -> None:
    """`--quick` processes some flights on the stub with each contender. The bench itself counts the results."""
    file = tmp_path / "figures.json"
    command = [sys.executable, "-P", str(PIPELINE), "--quick", "--json", str(file)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    measured = json.loads(file.read_text())["measured"]
    assert len(measured) == 3
    for one in measured:
        (figures,) = one["rounds"]
        assert figures["transactions"] >= 5
        assert figures["records_per_s"] > 0
        assert one["contender"] in done.stdout


@drawn(3, of=RUNS)
@pytest.mark.timeout(200)
def test_a_quick_run_of_pools(tmp_path: Path) -> None:
    """Few requests on the stub, in each way. The bench itself counts the records."""
    command = [sys.executable, "-P", str(BENCH.with_name("pool.py")), "--brokers", "stub", "--rounds", "1", "--requests", "32"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert all(way in done.stdout for way in ("one producer", "TransactionalPool", "AsyncTransactional", "confluent"))


@drawn(3, of=RUNS)
@pytest.mark.timeout(200)
def test_a_quick_run_of_confluents_calls(tmp_path: Path) -> None:
    """Few records on the stub, with each producer. The bench itself counts the callbacks."""
    command = [sys.executable, "-P", str(BENCH.with_name("confluent_compat.py")), "--brokers", "stub", "--rounds", "1", "--burst", "200"]
    done = subprocess.run([*command, "--records", "500"], cwd=tmp_path, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("whole run, CPU") == 3


@drawn(3, of=RUNS)
@pytest.mark.timeout(200)
def test_the_bench_of_the_log_measures(tmp_path: Path) -> None:
    """The parts that need no Kafka, with few records."""
    command = [sys.executable, "-P", str(BENCH.with_name("logs.py")), "--parts", "memory,steady", "--records", "20000", "--minutes", "0.05"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("bytes per stored byte") == 4
    assert "steady: after a minute" in done.stdout


@pytest.mark.timeout(120)
def test_what_a_call_of_the_compat_class_costs() -> None:
    """Each way has its figures, and aiokafka's stand beside themselves as one."""
    ran = subprocess.run([sys.executable, "-P", str(AIOKAFKA), "--quick"], capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert any(words in lines[0] for words in BUILD_WORDS)
    ways = [line.split("  ")[0] for line in lines[1:]]
    assert ways.count("way") == 2
    assert len(ways) == 12
    assert [line.split()[-1] for line in lines if line.startswith("aiokafka send")] == ["1.00"] * 3
