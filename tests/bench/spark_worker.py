"""One Spark application of the bench. For each errand it runs a streaming query whose batches all go through `foreachBatch`.

It reads errands from its input, one JSON line each, and answers each with one line. It keeps running, so it stays warm. The first batches
of a query are thrown away. The time of a batch is Spark's own `addBatch`: the plan, the function, and the commit. It does not count
records.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # At the end of the path, so that what is measured is the installed package and not the checkout.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

import msgspec
import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

WAIT_S = 900.0
KEY_BYTES = 16
VALUE_BYTES = 100
COLLECT_BYTES_MAX = 1 << 30
Sink = Callable[[DataFrame, int], None]


class Contender(StrEnum):
    """What writes the batch."""

    TURNS = "fencepost, turns"
    KAFKA_CLAIMS = "fencepost, kafka-claims"
    DRIVER = "fencepost, driver"
    SINK = "Spark's sink"
    BARE = "noop, nothing written"
    ARROW = "handed to Python, nothing written"


class Application(msgspec.Struct, frozen=True):
    """The settings of the Spark application."""

    conf: dict[str, str]


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """One query. `slices`: partitions of the source. `settings`: of the Kafka clients, the same for all."""

    contender: Contender
    keyed: bool
    bootstrap: str
    topic: str
    rows: int
    slices: int
    warm_up: int
    batches: int
    settings: dict[str, str]


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """The results. `ms`: of each measured batch. `cpu_ms`: of all batches and the time between them, in the driver, the JVM and the Python
    workers.

    `phases`: from the writer's metrics, batch by batch. `written`: rows in all batches.
    """

    ms: list[float]
    cpu_ms: float
    phases: list[dict[str, float]]
    written: int


def main() -> int:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Spark writes to standard output, so the answers need a descriptor of their own.
    builder = SparkSession.builder
    for name, value in msgspec.json.decode(sys.stdin.readline(), type=Application).conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    print(msgspec.json.encode(pyspark.__version__).decode(), file=answers, flush=True)
    for line in sys.stdin:
        told = run(spark, msgspec.json.decode(line, type=Errand))
        print(msgspec.json.encode(told).decode(), file=answers, flush=True)
    spark.stop()
    return 0


def run(spark: SparkSession, errand: Errand) -> Told:
    """Run the query until it has done its batches. Raises RuntimeError if it failed."""
    writer = writer_of(errand)
    write = writer if writer is not None else SINKS[errand.contender](errand)
    total = errand.warm_up + errand.batches
    enough = threading.Event()
    cpu: list[float] = []

    def each(df: DataFrame, batch_id: int) -> None:
        if batch_id in (errand.warm_up, total):
            cpu.append(cpu_ms())
        if batch_id < total:
            write(df, batch_id)
        else:
            enough.set()

    with tempfile.TemporaryDirectory() as checkpoint:
        query = rows_of(spark, errand).writeStream.foreachBatch(each).option("checkpointLocation", checkpoint).start()
        try:
            while not enough.wait(0.5):
                if not query.isActive:
                    raise RuntimeError(f"the query ended: {query.exception()}")
        finally:
            query.stop()
        progress = [one for one in query.recentProgress if errand.warm_up <= one["batchId"] < total]
    if writer is not None:
        writer.close()
    if [one["numInputRows"] for one in progress] != [errand.rows] * errand.batches:
        raise RuntimeError(f"the source gave {[one['numInputRows'] for one in progress]} rows, not {errand.rows} each")
    return Told(
        ms=[float(one["durationMs"]["addBatch"]) for one in progress],
        cpu_ms=cpu[1] - cpu[0],
        phases=[one["ms"] for one in writer.history[errand.warm_up :]] if writer is not None else [],
        written=0 if errand.contender in (Contender.BARE, Contender.ARROW) else total * errand.rows,
    )


def cpu_ms() -> float:
    """The CPU time of all processes of this session, and of their ended children."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # The process has just ended. Its parent has its CPU time.
        if int(fields[3]) == os.getsid(0):
            ticks += sum(map(int, fields[11:15]))
    return ticks * 1000.0 / os.sysconf("SC_CLK_TCK")


def rows_of(spark: SparkSession, errand: Errand) -> DataFrame:
    """A source with so many rows in each batch, which are made as they are read."""
    source = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=errand.rows, numPartitions=errand.slices).load()
    number = F.lpad(F.col("value").cast("string"), KEY_BYTES, "0")
    value = F.concat(number, F.lit("v" * (VALUE_BYTES - KEY_BYTES))).cast("binary").alias("value")
    return source.select(number.cast("binary").alias("key"), value) if errand.keyed else source.select(value)


def writer_of(errand: Errand) -> Any:
    """This project's writer for the contender; None for the others, whose Spark may lack what the writer needs."""
    guard = errand.contender.name.lower().replace("_", "-")
    if errand.contender in SINKS:
        return None
    from fencepost.txn.spark.sink.foreach_batch_writer import ExactlyOnceKafkaWriter

    options: dict[str, Any] = {f"kafka.{name}": value for name, value in errand.settings.items()}
    if guard == "driver":
        options["collect_bytes_max"] = COLLECT_BYTES_MAX
    return ExactlyOnceKafkaWriter(errand.bootstrap, errand.topic, topic=errand.topic, guard=guard, **options)


def sparks_sink(errand: Errand) -> Sink:
    options = {f"kafka.{name}": value for name, value in errand.settings.items()}
    options |= {"kafka.bootstrap.servers": errand.bootstrap, "topic": errand.topic}

    def write(df: DataFrame, batch_id: int) -> None:
        df.write.format("kafka").options(**options).save()

    return write


def nothing(errand: Errand) -> Sink:
    def write(df: DataFrame, batch_id: int) -> None:
        df.write.format("noop").mode("overwrite").save()

    return write


def handed_over(errand: Errand) -> Sink:
    """The DataFrame in as many tasks, and in Arrow batches as large, as this project's writer would use."""
    from fencepost.txn.spark.sink.write_job import large_batches

    def write(df: DataFrame, batch_id: int) -> None:
        tasks = df.sparkSession.sparkContext.defaultParallelism
        with large_batches(df):
            df.coalesce(tasks).mapInArrow(drop, "rows long").collect()

    return write


def drop(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a Spark task: count the rows, and write nothing."""
    yield pa.RecordBatch.from_arrays([pa.array([sum(batch.num_rows for batch in batches)])], names=["rows"])


SINKS: dict[Contender, Callable[[Errand], Sink]] = {
    Contender.SINK: sparks_sink,
    Contender.BARE: nothing,
    Contender.ARROW: handed_over,
}

if __name__ == "__main__":
    sys.exit(main())
