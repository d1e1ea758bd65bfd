"""Settings on executors: files that Spark brought there, secrets that were asked for there, and routes of a stream."""

from __future__ import annotations

import ssl
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fencepost.producer.accumulator.partitioner import partition_for_key
from fencepost.producer.config.reader import read_settings
from fencepost.txn.spark import route
from fencepost.txn.spark.connection.options import read_options
from fencepost.txn.spark.connection.secrets import KafkaSettings
from fencepost.txn.spark.rows.routing import ROUTE
from tests.certificates import Authority
from tests.drawn import drawn

BATCH_TIMEOUT_S = 60


class Report:
    """What an executor makes of the settings."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            settings = read_settings(self._kafka.resolve())
            context = settings.ssl_context
            trusted = len(context.get_ca_certs()) if isinstance(context, ssl.SSLContext) else 0
            yield pa.RecordBatch.from_pydict({"cafile": [str(settings.ssl_cafile)], "trusted": [trusted]})


@drawn(2, of="long queries of Spark")
@pytest.mark.usefixtures("by_value")
def test_a_file_that_was_added_is_found_by_its_name(spark: SparkSession, tmp_path: Path) -> None:
    """On the driver and on an executor there is no file at the path: `addFile` has brought it, and its name is enough."""
    authority = Authority(tmp_path)
    there = Path(authority.cafile).rename(tmp_path / "fencepost-test-ca.pem")
    spark.sparkContext.addFile(str(there))
    nowhere = f"/on/some/other/machine/{there.name}"
    given = {"kafka.bootstrap.servers": "b:9092", "kafka.security.protocol": "SSL", "kafka.ssl.truststore.type": "PEM"}
    kafka = read_options({**given, "kafka.ssl.truststore.location": nowhere}).kafka
    assert Path(kafka.resolve()["ssl_cafile"]).name == there.name
    (row,) = spark.range(1, numPartitions=1).mapInArrow(Report(kafka), "cafile string, trusted long").collect()
    assert Path(row.cafile).name == there.name
    assert row.trusted == 1


@drawn(2, of="long queries of Spark")
def test_a_stream_is_routed_too(spark: SparkSession, tmp_path: Path) -> None:
    """`route` in front of a streaming sink: each micro-batch has the rows of a partition in one task."""
    source, seen = tmp_path / "in", defaultdict[int, set[int]](set)
    spark.range(300).selectExpr("concat('ключ', id % 40) as key", "cast(id as string) as value").write.parquet(str(source))
    rows: list[tuple[str, int, int]] = []

    def look(batch: DataFrame, number: int) -> None:
        rows.extend((row.key, row[ROUTE], row.task) for row in batch.withColumn("task", F.spark_partition_id()).collect())

    stream = spark.readStream.schema("key string, value string").parquet(str(source))
    query = route(stream, 4, topic="t", tasks=2).writeStream.foreachBatch(look).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(BATCH_TIMEOUT_S)
    finally:
        query.stop()
    assert len(rows) == 300
    for key, number, task in rows:
        assert number == partition_for_key(key.encode(), 4)
        seen[number].add(task)
    assert seen == {number: {number % 2} for number in seen}
