"""The driver: a Spark application in its own process that writes a source of numbered rows until it has written enough.

Its source is Spark's rate-micro-batch, whose rows are the same in every run. It writes its actions and errors to the plan's events.
"""

from __future__ import annotations

import functools
import logging
import sys
import threading
import time
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fencepost.txn.spark.sink import write_job as executing
from fencepost.txn.spark.sink.foreach_batch_writer import ExactlyOnceKafkaWriter
from tests.txn.spark.chaos import loading
from tests.txn.spark.chaos.deaths import Mortal
from tests.txn.spark.chaos.plan import Plan
from tests.txn.spark.chaos.troubles import TroubledTask
from tests.txn.spark.java_flags import java_flags

STAY_S = 120.0
CONF = {
    "spark.driver.extraJavaOptions": java_flags(),
    "spark.executor.extraJavaOptions": java_flags(),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "600m",
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.deploy.maxExecutorRetries": "-1",
    # As with executors on separate machines: a killed executor's blocks are lost, and Spark notices at once, not after three tries of 5 s.
    "spark.shuffle.readHostLocalDisk": "false",
    "spark.shuffle.io.maxRetries": "0",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}


def main(path: str) -> int:
    """Return 0 once all batches are written, 3 if the query failed."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    plan = Plan.read(path)
    spark = _session(plan)
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    mortal = Mortal(plan, gateway.proc.pid)
    plan.events.tell("started", run=plan.run, jvm=gateway.proc.pid)
    mortal.wrap()
    cloudpickle.register_pickle_by_value(loading)  # type: ignore[no-untyped-call]
    patched: Any = executing
    patched.WriteTask = functools.partial(TroubledTask, plan)
    failed = _run(plan, spark, mortal)
    if plan.stays:
        deadline = time.monotonic() + STAY_S
        while not plan.events.happened("leave") and time.monotonic() < deadline:
            time.sleep(0.01)
    spark.stop()
    return 3 if failed else 0


def _session(plan: Plan) -> SparkSession:
    builder = SparkSession.builder.master(plan.master).appName(f"chaos {plan.sink}")
    places = {"spark.sql.warehouse.dir": f"{plan.directory}/warehouse", "spark.local.dir": f"{plan.directory}/local"}
    for name, value in {**CONF, **places, **plan.conf}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _run(plan: Plan, spark: SparkSession, mortal: Mortal) -> bool:
    """Run the query; return whether it failed."""
    writer = ExactlyOnceKafkaWriter(plan.bootstrap, plan.sink, topic=plan.topic, guard=plan.guard, tasks=plan.tasks, **plan.settings)
    enough = threading.Event()

    def write(df: DataFrame, batch: int) -> None:
        if batch >= plan.batches:
            enough.set()
            return
        mortal.batch = batch
        try:
            writer(df, batch)
        except BaseException as error:
            plan.events.tell("batch failed", run=plan.run, error=type(error).__name__, text=str(error)[:500], batch=batch)
            raise
        finally:
            plan.events.tell("batch", run=plan.run, **writer.metrics)

    source: Any = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", plan.rows).option("numPartitions", plan.maps).load()
    # Spark starts a stage again because a lost executor's shuffle files are gone.
    source = source.repartition(plan.reduces, "value") if plan.reduces else source
    query = (
        source.select(*columns(keyed=plan.keyed))
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", f"{plan.directory}/checkpoint")
    ).start()
    while query.isActive and not enough.wait(0.05):
        pass
    failed = not enough.is_set()
    if not failed:
        query.stop()
    writer.close()
    return failed


def columns(*, keyed: bool) -> list[Any]:
    """The number and its digest, with the same width in all rows, so that batches of Produce requests have the same size."""
    number = F.lpad(F.col("value").cast("string"), 10, "0")
    value = F.concat_ws("|", number, F.md5(number.cast("binary"))).alias("value")
    return [number.alias("key"), value] if keyed else [value]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
