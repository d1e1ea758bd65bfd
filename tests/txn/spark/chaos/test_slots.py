"""Executors that go and come: one of two is lost between two batches; and dynamic allocation begins with one executor and adds others as
there is work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fencepost.broker_stub import BrokerStub
from fencepost.spark_demo.processes import spark_home
from tests.reading import read_values
from tests.txn.spark.chaos.campaign import STORY
from tests.txn.spark.chaos.growing import EXECUTORS, PARTITIONS, ROWS
from tests.txn.spark.chaos.slots import TOPIC
from tests.txn.spark.conftest import provide_java

ROOT = Path(__file__).parents[4]
# Append the checkout to the path, so that the installed package comes first.
PROGRAM = "import sys; sys.path.append(sys.argv[3]); from importlib import import_module; import_module(sys.argv[4]).main(*sys.argv[1:3])"
LIMIT_S = 300

pytestmark = [pytest.mark.timeout(LIMIT_S + 60), STORY]


def run(application: str, bootstrap: str, place: Path) -> dict[str, Any]:
    """What the application, a module beside this one, said."""
    provide_java()
    home = {"SPARK_HOME": str(spark_home(place)), "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    command = [sys.executable, "-c", PROGRAM, bootstrap, str(place), str(ROOT), f"tests.txn.spark.chaos.{application}"]
    errors = place / "errors.txt"
    with (
        errors.open("w") as stream,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
            cwd=place,
            env={**os.environ, **home},
            start_new_session=True,
        ) as process,
    ):
        try:
            said, _ = process.communicate(timeout=LIMIT_S)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, errors.read_text()[-4000:]
    told: dict[str, Any] = json.loads(said.splitlines()[-1])
    return told


def test_an_executor_that_is_lost_between_two_batches(tmp_path: Path) -> None:
    """The executor that is left writes the next batch. The first of four attempts of a task reports a permanent error. The driver raises
    that one, although Spark reports the last attempt's error."""
    with BrokerStub() as stub:
        stub.create_topic(TOPIC, partitions=4)
        told = run("slots", stub.bootstrap, tmp_path)
        values = sorted(value.decode() for value in read_values(stub.bootstrap, TOPIC, range(4)))
    good = {"error": None, "guard": "turns", "tasks": 2, "ledger": "committed"}
    for name in ("two executors", "one executor", "two again"):
        # A new executor may get a task before it is killed.
        assert {**told[name], "reruns": 0} == {**good, "reruns": 0}, name
    kind, text = told["permanent"]["error"]
    assert (kind, told["permanent"]["reruns"]) == ("ConfigError", 0)
    assert "linger.mss" in text
    assert values == sorted(f"writer {batch} {number}" for batch in range(3) for number in range(8))


def test_dynamic_allocation_grows_as_without_us(tmp_path: Path) -> None:
    """The write asks Spark for as many tasks as a sink that does nothing gets, with keys and without, however many executors there are when
    the batch begins; so Spark, which begins with one, has all three of them while the batch is written."""
    with BrokerStub() as stub:
        stub.create_topic(TOPIC, partitions=PARTITIONS)
        told = run("growing", stub.bootstrap, tmp_path)
        values = sorted(value.decode() for value in read_values(stub.bootstrap, TOPIC, range(PARTITIONS)))
    assert told["slots before"] == 1
    assert told["noop"] == {"tasks": PARTITIONS}
    good = {"guard": "turns", "tasks": PARTITIONS, "reruns": 0, "ledger": "committed"}
    assert told["keyed"] == good
    assert told["keyless"] == good
    assert told["executors"] == EXECUTORS
    assert values == sorted(str(number) for number in range(ROWS) for _ in ("keyed", "keyless"))
