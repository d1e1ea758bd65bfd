"""An application on a local-cluster of two executors that loses one of them between batches, and reports what its writers do then.

test_slots.py starts it with the brokers' address and a directory. It prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark import TaskContext, cloudpickle
from pyspark.sql import SparkSession

from fencepost.txn.spark import ExactlyOnceKafkaWriter
from fencepost.txn.spark.connection.spark_context import slots_of
from tests.txn.spark.chaos import slots
from tests.txn.spark.chaos.driver import CONF
from tests.txn.spark.chaos.troubles import EXECUTOR

CLUSTER = "local-cluster[2,1,1024]"
TOPIC = "out"
WITHIN_S = 60.0


def misspelt_there() -> dict[str, Any]:
    """Settings that the driver knows, and executors do not."""
    return {} if TaskContext.get() is None else {"linger.mss": 1}


class Application:
    """See the module docstring."""

    def __init__(self, bootstrap: str, place: Path) -> None:
        builder = SparkSession.builder.master(CLUSTER).appName("fencepost slots")
        for name, value in {**CONF, "spark.local.dir": str(place), "spark.sql.warehouse.dir": str(place)}.items():
            builder = builder.config(name, value)
        self._spark = builder.getOrCreate()
        self._bootstrap = bootstrap
        self._place = place
        self._until(lambda: slots_of(self._spark.sparkContext) == 2)

    def writer(self, sink: str, **settings: Any) -> Callable[[int], dict[str, Any]]:
        """Write a batch with a new writer, and report the result."""
        checkpoint = self._place / sink
        (checkpoint / "offsets").mkdir(parents=True)
        given = {"guard": "turns", "tasks": 2, "max_reruns": 20, "query": sink, "checkpoint": str(checkpoint), **settings}
        writer = ExactlyOnceKafkaWriter(self._bootstrap, sink, topic=TOPIC, **given)

        def write(batch: int) -> dict[str, Any]:
            (checkpoint / "offsets" / str(batch)).write_text("v1\n{}\n{}")
            rows = [(f"{sink} {batch} {number}",) for number in range(8)]
            error = None
            try:
                writer(self._spark.createDataFrame(rows, "value string").selectExpr("value", "value as key"), batch)
            except Exception as raised:  # noqa: BLE001  # which it is is for the test
                error = [type(raised).__name__, str(raised)]
            return {"error": error, **{name: writer.metrics[name] for name in ("guard", "tasks", "reruns", "ledger")}}

        return write

    @contextmanager
    def one_lost(self) -> Iterator[None]:
        """Kill one of the executors, and wait until the driver has noticed. Replacements that the cluster starts are killed, too, until the
        block ends.
        """
        lost, kept = sorted(self._executors())
        over = threading.Event()

        def strike() -> None:
            while not over.wait(0.02):
                for each in self._executors() - {kept}:
                    with suppress(ProcessLookupError):
                        os.kill(each, signal.SIGKILL)

        os.kill(lost, signal.SIGKILL)
        killer = threading.Thread(target=strike, daemon=True)
        killer.start()
        try:
            self._until(lambda: slots_of(self._spark.sparkContext) == 1)
            yield
        finally:
            over.set()
            killer.join()

    def _executors(self) -> set[int]:
        """The live executors. The cluster's workers are threads of the driver's JVM."""
        gateway = self._spark.sparkContext._gateway
        assert gateway is not None
        found = set()
        for place in Path("/proc").iterdir():
            with suppress(OSError):
                if place.name.isdigit() and EXECUTOR in (place / "cmdline").read_bytes():
                    parent = (place / "stat").read_bytes().rsplit(b")", 1)[1].split()[1]
                    found |= {int(place.name)} if int(parent) == gateway.proc.pid else set()
        return found

    def stop(self) -> None:
        self._spark.stop()

    @staticmethod
    def _until(ask: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not ask():
            assert time.monotonic() < deadline, "the executors are not as they should be"
            time.sleep(0.01)


def main(bootstrap: str, place: str) -> None:
    cloudpickle.register_pickle_by_value(slots)  # type: ignore[no-untyped-call]  # not typed by pyspark
    application = Application(bootstrap, Path(place))
    told: dict[str, Any] = {}
    write = application.writer("writer")
    told["two executors"] = write(0)
    with application.one_lost():
        told["one executor"] = write(1)
    told["two again"] = write(2)
    # Spark starts its tasks four times here, and the guard refuses all but the first.
    told["permanent"] = application.writer("permanent", secrets=slots.misspelt_there)(0)
    print(json.dumps(told), flush=True)
    application.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
