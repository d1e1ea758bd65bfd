"""An application with dynamic allocation that begins with one executor.

It reports how many tasks Spark was asked for, and how many executors took part, while batches were written. test_slots.py starts it with
the brokers' address and a directory. It prints one line of JSON. Its tasks wait for each other, so that the result does not depend on how
fast executors start.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from fencepost.txn.spark import ExactlyOnceKafkaWriter
from fencepost.txn.spark.connection.spark_context import slots_of
from tests.txn.spark.chaos import growing
from tests.txn.spark.chaos.driver import CONF
from tests.txn.spark.chaos.slots import TOPIC

EXECUTORS: Final = 3
PARTITIONS: Final = 12
ROWS: Final = 120
WITHIN_S: Final = 60.0
IN_VAIN: Final = "in vain"
DYNAMIC: Final = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.initialExecutors": "1",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": str(EXECUTORS),
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
}


class Meeting:
    """Passes rows on once tasks of all executors have arrived, or once one of them has waited for too long."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # The parent of a Python worker is its executor's daemon.
        (self._place / str(os.getppid())).touch()
        deadline = time.monotonic() + WITHIN_S
        in_vain = self._place / IN_VAIN
        while executors(self._place) < EXECUTORS and not in_vain.exists():
            if time.monotonic() >= deadline:
                in_vain.touch()
            time.sleep(0.05)
        yield from batches


def executors(place: Path) -> int:
    """The executors that have arrived."""
    return len({each.name for each in place.iterdir()} - {IN_VAIN})


def main(bootstrap: str, place: str) -> None:
    cloudpickle.register_pickle_by_value(growing)  # type: ignore[no-untyped-call]  # not typed by pyspark
    builder = SparkSession.builder.master(f"local-cluster[{EXECUTORS},1,1024]").appName("fencepost growing")
    for name, value in {**CONF, **DYNAMIC, "spark.local.dir": place, "spark.sql.warehouse.dir": place}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    context = spark.sparkContext
    deadline = time.monotonic() + WITHIN_S
    while slots_of(context) < 1:
        assert time.monotonic() < deadline, "there is no executor"
        time.sleep(0.01)
    told: dict[str, Any] = {"slots before": slots_of(context)}
    met = Path(place, "met")
    met.mkdir()
    rows = spark.range(0, ROWS, 1, PARTITIONS).selectExpr("cast(id as string) as value").mapInArrow(Meeting(met), "value string")
    told["keyed"] = write(bootstrap, Path(place, "keyed"), rows.selectExpr("value", "value as key"))
    told["executors"] = executors(met)
    told["keyless"] = write(bootstrap, Path(place, "keyless"), rows)
    context.setJobGroup("noop", "a sink that does nothing")
    rows.write.format("noop").mode("overwrite").save()
    tracker = context.statusTracker()
    jobs = [info for info in map(tracker.getJobInfo, tracker.getJobIdsForGroup("noop")) if info is not None]
    stages = [info for job in jobs for info in map(tracker.getStageInfo, job.stageIds) if info is not None]
    told["noop"] = {"tasks": max(stage.numTasks for stage in stages)}
    print(json.dumps(told), flush=True)
    spark.stop()


def write(bootstrap: str, checkpoint: Path, rows: DataFrame) -> dict[str, Any]:
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "offsets" / "0").write_text("v1\n{}\n{}")
    writer = ExactlyOnceKafkaWriter(bootstrap, checkpoint.name, topic=TOPIC, query=checkpoint.name, checkpoint=str(checkpoint))
    writer(rows, 0)
    return {name: writer.metrics[name] for name in ("guard", "tasks", "reruns", "ledger")}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
