"""Columns and routes through a real Spark: what comes out of `select`, and which task each row lands in."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fencepost.producer.accumulator.partitioner import partition_for_key
from fencepost.txn.spark import route
from fencepost.txn.spark.rows.columns import BadColumns, read_columns, select_columns
from fencepost.txn.spark.rows.routing import PARTITION_OUT_OF_RANGE, ROUTE, Routes, routed, scattered


def select(df: DataFrame, topic: str | None = None) -> DataFrame:
    return select_columns(df, read_columns(df.schema, topic))


def tasks_of(df: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in df.withColumn("task", F.spark_partition_id()).collect()]


def test_select_has_what_kafka_gets(spark: SparkSession) -> None:
    """Known columns in one order, times cut off after the milliseconds as Spark's sink does, headers in their one form, nothing else."""
    df = spark.sql(
        "select 1 as other, timestamp '2026-01-02 03:04:05.678999' as timestamp, 'v' as value, cast('k' as binary) as key, 7 as partition, "
        "array(named_struct('KEY', 'h', 'Value', cast('x' as binary))) as headers, 't' as topic, 2 as Key"
    )
    chosen = select(df)
    assert chosen.columns == ["topic", "key", "value", "headers", "partition", "timestamp"]
    (row,) = chosen.collect()
    moment = int(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()) * 1000 + 678
    assert row.asDict(recursive=True) == {
        "topic": "t",
        "key": b"k",
        "value": "v",
        "headers": [{"key": "h", "value": b"x"}],
        "partition": 7,
        "timestamp": moment,
    }
    assert select(df, "u").columns == ["key", "value", "headers", "partition", "timestamp"]


def test_times_as_seconds_and_no_times(spark: SparkSession) -> None:
    """A double is seconds; a null stays one."""
    df = spark.sql("select 'v' as value, cast(s as double) as timestamp from values (1.5), (null), (0.0009) as t(s)")
    assert [row.timestamp for row in select(df, "t").collect()] == [1500, None, 0]


def test_every_row_of_a_partition_is_in_one_task(spark: SparkSession) -> None:
    """Keys of every kind, nulls and non-ASCII among them: the route is the partition that the producer would choose, and task n has the
    routes that `of_task` says."""
    keys = [None if n % 7 == 0 else f"ключ-{n % 50}" for n in range(3000)]
    df = spark.createDataFrame([(key, str(n)) for n, key in enumerate(keys)], "key string, value string")
    routes, tasks = Routes.of({"t": 7}), 3
    seen = defaultdict(set)
    rows = tasks_of(routed(select(df.repartition(4), "t"), routes, tasks))
    assert len(rows) == 3000
    for row in rows:
        if row["key"] is not None:
            assert row[ROUTE] == partition_for_key(row["key"].encode(), 7)
        seen[row["task"]].add(("t", row[ROUTE]))
    assert seen == {task: set(routes.of_task(task, tasks)) for task in range(tasks)}


def test_many_topics_and_partitions_that_do_not_exist(spark: SparkSession) -> None:
    """A partition that is out of range, which repartitionById would wrap, is told apart from every good one."""
    df = spark.sql(
        "select topic, partition, 'v' as value from values ('a', 0), ('a', 1), ('b', 1), ('a', null), ('b', -1) as t(topic, partition)"
    )
    routes = Routes.of({"a": 1, "b": 2})
    found = {(row["topic"], row["partition"]): (row[ROUTE], row["task"]) for row in tasks_of(routed(select(df), routes, 2))}
    assert found[("a", 0)] == found[("a", None)] == (0, 0)
    assert found[("b", 1)] == (2, 0)
    assert found[("a", 1)][0] == found[("b", -1)][0] == PARTITION_OUT_OF_RANGE


def test_rows_without_key_and_partition_are_not_moved(spark: SparkSession) -> None:
    """No route and no shuffle: the plan has no exchange."""
    df = routed(select(spark.range(10).selectExpr("cast(id as string) as value"), "t"), Routes.of({"t": 5}), 2)
    assert df.columns == ["value"]
    assert "Exchange" not in df._jdf.queryExecution().toString()


def test_rows_without_a_key_that_have_to_be_moved(spark: SparkSession) -> None:
    """They go to all partitions evenly, and those of each partition are in the task that has it; with one topic, and with several."""
    routes = Routes.of({"t": 5}, rotation=3)
    rows = tasks_of(scattered(select(spark.range(0, 1000, 1, 3).selectExpr("cast(id as string) as value"), "t"), routes, 2))
    assert {row["task"] for row in rows if row[ROUTE] % 2} == {1}
    counts = Counter(row[ROUTE] for row in rows)
    assert sorted(counts) == [*range(5)]
    assert max(counts.values()) - min(counts.values()) <= 3
    routes = Routes.of({"a": 1, "b": 3})
    df = select(spark.sql("select if(id % 2 = 0, 'a', 'b') as topic, cast(id as string) as value from range(100)"))
    assert {(row["topic"], row[ROUTE], row["task"]) for row in tasks_of(scattered(df, routes, 4))} >= {("a", 0, 0), ("b", 1, 1)}


def test_rows_without_a_key_are_moved_where_a_task_has_no_partition_of_their_topic(spark: SparkSession) -> None:
    """With a topic of one partition and two tasks, one of these could not write its rows; with two partitions both can."""
    df = select(spark.sql("select if(id % 2 = 0, 'a', 'b') as topic, cast(id as string) as value from range(100)"))
    assert routed(df, Routes.of({"a": 2, "b": 3}), 2).columns == ["topic", "value"]
    routes = Routes.of({"a": 1, "b": 3})
    rows = tasks_of(routed(df, routes, 2))
    assert {(row["topic"], row[ROUTE], row["task"]) for row in rows} == {("a", 0, 0), ("b", 1, 1), ("b", 2, 0), ("b", 3, 1)}
    assert len(rows) == 100


def test_the_older_way_gives_the_same(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without arrow_udf and repartitionById (before Spark 4.1) rows have the same routes, and each route is in the same task."""
    df = select(spark.range(500).selectExpr("cast(cast(id % 40 as string) as binary) as key", "cast(id as string) as value"), "t")
    routes = Routes.of({"t": 6})
    new = sorted((row["value"], row[ROUTE]) for row in tasks_of(routed(df, routes, 4)))
    monkeypatch.delattr(F, "arrow_udf", raising=False)
    monkeypatch.delattr(type(df), "repartitionById", raising=False)
    monkeypatch.delattr(DataFrame, "repartitionById", raising=False)
    old = tasks_of(routed(df, routes, 4))
    assert sorted((row["value"], row[ROUTE]) for row in old) == new
    assert {row["task"] - row[ROUTE] % 4 for row in old} == {0}


def test_route_for_the_data_source(spark: SparkSession) -> None:
    """Columns picked and rows brought together in one call; what it cannot know it asks for."""
    df = spark.sql("select 'k' as key, 'v' as value, 1 as more")
    (row,) = route(df, 3, topic="t").collect()
    assert row.asDict() == {"key": "k", "value": "v", ROUTE: partition_for_key(b"k", 3)}
    assert route(df, {"t": 3}, topic="t", tasks=2).rdd.getNumPartitions() == 2
    with pytest.raises(BadColumns, match="a mapping of each topic"):
        route(df.withColumn("topic", F.lit("t")), 3)
    with pytest.raises(BadColumns, match="partitions says nothing of it"):
        route(df, {"u": 3}, topic="t")


def test_large_strings_are_read_too(spark: SparkSession) -> None:
    """`spark.sql.execution.arrow.useLargeVarTypes` makes other arrays of the same keys."""
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    try:
        (row,) = routed(spark.sql("select 'é' as key, 'v' as value"), Routes.of({"t": 9}), 1).collect()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
    assert row[ROUTE] == partition_for_key("é".encode(), 9)
