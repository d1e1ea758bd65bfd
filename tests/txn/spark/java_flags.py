"""The flags of the JVMs that the tests of Spark start, and an archive of the classes that Spark loads, with which a JVM takes half the time
to its first query.

`python -m tests.txn.spark.java_flags` makes the archive if there is none; `make test` calls it first. It only saves time: a JVM without a
matching archive starts without one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path

import pyspark

from tests.conformance import class_archive

JVM_FAST = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""One cheap compiler tier and a serial collector: a JVM that lives for minutes on two cores needs half the processor time."""
RECORD_TIMEOUT_S = 300.0


@cache
def java_flags() -> str:
    """The flags for `spark.driver.extraJavaOptions` and `spark.executor.extraJavaOptions`."""
    archive = _archive()
    return " ".join((JVM_FAST, *(class_archive.reading(archive) if archive is not None and archive.exists() else ())))


def _archive() -> Path | None:
    """Where the archive for this Spark and this Java is or will be. None without a Java."""
    from fencepost.txn.spark.connection.java_home import JavaMissing, find_java

    try:
        java = Path(find_java())
    except JavaMissing:
        return None
    return class_archive.path(java, Path(pyspark.__file__).parent / "jars", f"spark-{pyspark.__version__}")


def _make() -> None:
    archive = _archive()
    if archive is not None:
        class_archive.make(archive, _record)


def _record(archive: Path) -> None:
    """Record in another process, which can be stopped, without its output."""
    print("making an archive of the classes that Spark loads; this takes half a minute, once", flush=True)
    command = [sys.executable, "-m", "tests.txn.spark.java_flags", str(archive)]
    subprocess.run(command, timeout=RECORD_TIMEOUT_S, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _load_classes(archive: Path) -> None:
    """Run a session that loads what the tests need: a shuffle, Python workers and a streaming query."""
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": " ".join((JVM_FAST, *class_archive.recording(archive))),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(archive.with_name("warehouse")),
        "spark.local.dir": str(archive.with_name("local")),
    }
    builder = SparkSession.builder.master("local[2]").appName("fencepost classes")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.createDataFrame([(1, "a"), (2, "b")], "number int, word string").repartition(2, "number").collect()
    spark.range(10).selectExpr("cast(id as string) as value").groupBy("value").count().mapInArrow(
        lambda each: each, "value string, count long"
    ).collect()
    written = threading.Event()

    def write(df: DataFrame, batch: int) -> None:
        df.rdd.mapPartitions(lambda rows: rows).count()
        written.set()

    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).option("numPartitions", 2).load()
    query = source.writeStream.foreachBatch(write).option("checkpointLocation", str(archive.with_name("checkpoint"))).start()
    written.wait(60)
    query.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.shutdown()
    # The JVM writes the archive when it ends.
    gateway.proc.stdin.close()
    gateway.proc.wait(RECORD_TIMEOUT_S)


if __name__ == "__main__":
    if sys.argv[1:]:
        _load_classes(Path(sys.argv[1]))
    else:
        from tests.txn.spark.conftest import provide_java

        provide_java()
        _make()
