"""The examples run as they are, in the order of their numbers."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from threading import Timer

import pytest

import fencepost
from fencepost import BrokerStub
from tests.drawn import drawn
from tests.once import once_is_enough
from tests.txn.spark.conftest import provide_java
from tests.txn.spark.java_flags import java_flags

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.py"))


TESTING = runpy.run_path(str(EXAMPLES[0].with_name("07_testing.py")))
WITH_SPARK = [example for example in EXAMPLES if "_spark_" in example.name]

QUIET = "--conf spark.ui.showConsoleProgress=false"
SPARK_SAYS = re.compile(
    r"WARNING: Using incubator modules: |Using Spark's default log4j profile: |Setting |To adjust logging level |../../.. ..:..:.. WARN "
)
"""What Spark's JVM writes to stderr before the program has set its level of logging."""


@drawn(2)
@once_is_enough("starts Spark")
@pytest.mark.parametrize("example", WITH_SPARK, ids=lambda path: path.stem)
@pytest.mark.timeout(400)
def test_an_example_with_spark_runs(example: Path, tmp_path: Path) -> None:
    """It ends well, says something, and only Spark itself complains."""
    provide_java()
    # pyspark itself warns of pandas 3.
    command = [sys.executable, "-W", "error", "-W", "ignore:PySpark does not yet fully support pandas:FutureWarning", str(example)]
    where = {
        **os.environ,
        "PYTHONPATH": str(Path(fencepost.__file__).parents[1]),
        "PYSPARK_SUBMIT_ARGS": f"--driver-memory 512m --driver-java-options '{java_flags()}' {QUIET} pyspark-shell",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=where, cwd=tmp_path)
    assert (ran.returncode, [line for line in ran.stderr.splitlines() if not SPARK_SAYS.match(line)]) == (0, [])
    assert ran.stdout


@pytest.mark.parametrize("example", [each for each in EXAMPLES if each not in WITH_SPARK], ids=lambda path: path.stem)
def test_an_example_runs(example: Path) -> None:
    """It ends well, says something, and complains of nothing."""
    command = [sys.executable, "-W", "error", str(example)]
    where = {**os.environ, "PYTHONPATH": str(Path(fencepost.__file__).parents[1])}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=where)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout


def test_the_example_with_tests_passes_under_pytest() -> None:
    """As its docstring says, with the fixture that comes with the package, and without the plugins that the checkout's own tests want."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:timeout",
        "-p",
        "no:hypothesispytest",
        str(EXAMPLES[0].with_name("07_testing.py")),
    ]
    where = {**os.environ, "PYTHONPATH": str(Path(fencepost.__file__).parents[1])}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=where)
    assert ran.returncode == 0, ran.stdout
    assert "4 passed" in ran.stdout


@pytest.mark.parametrize("name", [name for name in TESTING if name.startswith("test_")])
def test_the_example_with_tests_passes_on_a_slow_machine(name: str) -> None:
    """Its broker stands still for two seconds after the start."""
    with BrokerStub() as stub:
        stub.pause_broker(1)
        going_on = Timer(2.0, stub.resume_broker, [1])
        going_on.start()
        TESTING[name](stub)
        going_on.join()


def test_examples_are_numbered_and_say_what_they_show() -> None:
    """01, 02, ..., each once and with a docstring that begins with its number."""
    assert [example.name[:3] for example in EXAMPLES] == [f"{number:02}_" for number in range(1, len(EXAMPLES) + 1)]
    for example in EXAMPLES:
        assert re.match(rf'"""{example.name[:2]}: \w', example.read_text(encoding="utf-8")), example.name
