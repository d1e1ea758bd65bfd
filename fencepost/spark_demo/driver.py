"""The demo's Spark application: `python -m fencepost.spark_demo.driver PLAN`. It writes its events as lines to a file.

It is an ordinary streaming query with the writer as its foreachBatch. It does not know that the demo kills processes.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from fencepost.spark_demo.plan import Plan
from fencepost.txn.spark import ExactlyOnceKafkaWriter

EXECUTORS = 2
EXECUTORS_WITHIN_S = 30.0
# One cheap compiler tier and a serial collector: these JVMs live for seconds, and there are three of them.
FAST = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
CONF = {
    "spark.master": f"local-cluster[{EXECUTORS},1,1024]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "600m",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": FAST,
    "spark.executor.extraJavaOptions": FAST,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.deploy.maxExecutorRetries": "-1",
    # As on machines of their own: what a killed executor had is gone, and is missed at once, not after three tries of 5 s.
    "spark.shuffle.readHostLocalDisk": "false",
    "spark.shuffle.io.maxRetries": "0",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.files.minPartitionNum": "8",
    "spark.log.level": "OFF",
}


def main(path: str) -> int:
    """Return 0 when all batches are written, 1 if the query failed."""
    plan = Plan.read(path)
    builder = SparkSession.builder.appName("fencepost spark-demo")
    places = {"spark.sql.warehouse.dir": f"{plan.directory}/warehouse", "spark.local.dir": f"{plan.directory}/local"}
    for name, value in {**CONF, **places}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    plan.tell("session", jvm=gateway.proc.pid)
    writer = ExactlyOnceKafkaWriter(
        plan.bootstrap, plan.sink, topic=plan.topic, guard=plan.guard, tasks=plan.partitions, batch_size=plan.batch_size, linger_ms=5000
    )
    over = threading.Event()

    def write(df: DataFrame, batch: int) -> None:
        _await_executors(spark)
        plan.tell("begins", batch=batch)
        writer(df, batch)
        plan.tell("committed", **writer.metrics)
        if batch + 1 >= plan.batches:
            over.set()

    source = spark.readStream.schema("key binary, value binary").option("maxFilesPerTrigger", plan.files_per_batch).parquet(plan.source)
    query = source.writeStream.foreachBatch(write).option("checkpointLocation", plan.checkpoint).start()
    # If the last batch is a replay, it ends when Spark has recorded it.
    while query.isActive and not (over.is_set() and Path(plan.checkpoint, "commits", str(plan.batches - 1)).exists()):
        time.sleep(0.02)
    failed = query.exception()
    if failed is not None:
        plan.tell("failed", text=str(failed)[:1000])
    query.stop()
    writer.close()
    spark.stop()
    return 1 if failed is not None else 0


def _await_executors(spark: SparkSession) -> None:
    """Wait until Spark has replaced the killed executors."""
    deadline = time.monotonic() + EXECUTORS_WITHIN_S
    while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() <= EXECUTORS and time.monotonic() < deadline:
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
