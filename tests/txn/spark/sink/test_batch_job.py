"""`write_once`: a batch job's rows are visible once for each of its versions, and errors say what to change."""

from __future__ import annotations

import os
import secrets
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fencepost.broker_stub import BrokerStub
from fencepost.producer.config.reader import read_settings
from fencepost.producer.errors import ConfigError, Misuse
from fencepost.producer.wire import Api
from fencepost.txn.ledger.errors import OlderVersion
from fencepost.txn.ledger.ledger import Ledger
from fencepost.txn.spark import write_once
from fencepost.txn.spark.errors import BadRows
from tests.reading import read_values

PARTITIONS = 3


@pytest.fixture(scope="module")
def stub() -> Iterator[BrokerStub]:
    with BrokerStub() as stub:
        yield stub


@pytest.fixture
def topic(stub: BrokerStub) -> str:
    name = f"jobs-{secrets.token_hex(4)}"
    stub.create_topic(name, partitions=PARTITIONS)
    return name


def rows(spark: SparkSession, first: int, count: int, *, key: bool = True) -> DataFrame:
    text = F.col("id").cast("string")
    return spark.range(first, first + count, 1, 2).select(text.alias("value"), *([text.alias("key")] if key else []))


def found(stub: BrokerStub, topic: str) -> list[int]:
    return sorted(int(value) for value in read_values(stub.bootstrap, topic, range(PARTITIONS)))


def write(stub: BrokerStub, df: Any, sink: str, **settings: Any) -> dict[str, Any]:
    return write_once(df, stub.bootstrap, sink, **{"job_id": None, "retry_backoff_ms": 5, **settings})


def test_a_version_is_written_once(stub: BrokerStub, topic: str, spark: SparkSession) -> None:
    """A version that is committed is neither read nor written again. A higher one is written, and an older one is an error. Versions of
    another job do not matter."""
    done = write(stub, rows(spark, 0, 50), "daily", job_id="load", version=3, topic=topic)
    assert (done["ledger"], done["rows"], done["batch"], done["sink"]) == ("committed", 50, 3, "daily#load")
    unread = rows(spark, 0, 50).select(F.raise_error(F.lit("it was read")).cast("string").alias("value"))
    again = write(stub, unread, "daily", job_id="load", version=3, topic=topic)
    assert (again["ledger"], again["rows"]) == ("skipped", 0)
    assert found(stub, topic) == [*range(50)]
    write(stub, rows(spark, 50, 10, key=False), "daily", job_id="load", version=1 << 62, topic=topic)
    with pytest.raises(OlderVersion, match="'daily#load': to be written is version 4, and the ledger has version 4611686018427387904"):
        write(stub, rows(spark, 0, 50), "daily", job_id="load", version=4, topic=topic)
    write(stub, rows(spark, 60, 5), "daily", job_id="other", version=0, topic=topic)
    assert found(stub, topic) == [*range(65)]


def test_a_run_that_fails_leaves_nothing(stub: BrokerStub, topic: str, spark: SparkSession) -> None:
    """Rows that cannot be written fail the job with none visible, and the version can be written afterwards."""
    bad = rows(spark, 0, 20).withColumn("partition", F.col("value").cast("int"))
    with pytest.raises(BadRows, match=r"is not in the range \[0...3\)"):
        write(stub, bad, "failing", job_id="load", version=1, topic=topic)
    assert found(stub, topic) == []
    write(stub, rows(spark, 0, 20), "failing", job_id="load", version=1, topic=topic)
    assert found(stub, topic) == [*range(20)]


def test_without_a_job_rows_are_written_each_time(stub: BrokerStub, topic: str, spark: SparkSession) -> None:
    """Together or not at all, and nothing of it stays in the ledger."""
    for _ in range(2):
        assert write(stub, rows(spark, 0, 5), "plain", topic=topic, guard="driver")["ledger"] == "committed"
    assert found(stub, topic) == sorted([*range(5)] * 2)
    entries = Ledger(read_settings({"bootstrap_servers": stub.bootstrap})).list()
    assert not [entry for entry in entries if entry.sink == "plain"]


@pytest.mark.usefixtures("soon_given_up")
@pytest.mark.parametrize("lost", [2, 100])
def test_a_commit_that_was_not_answered_is_found_in_the_ledger(stub: BrokerStub, topic: str, spark: SparkSession, lost: int) -> None:
    """The job continues as written if it was written, and counts its rows, also if only the ledger tells that it was."""
    settings = {"job_id": f"load-{lost}", "version": 0, "guard": "driver", "timeout_ms": 3_000, "request_timeout_ms": 500}
    rule = stub.faults.on(Api.END_TXN).after_append().times(lost).drop()
    try:
        done = write(stub, rows(spark, 0, 5), "unsure", topic=topic, **settings)
    finally:
        rule.remove()
    assert (done["ledger"], done["rows"], done["partitions"] > 0) == ("committed", 5, True)
    assert found(stub, topic) == [*range(5)]


class Struck(Exception):
    """Raised by a signal's handler."""


def test_a_commit_that_is_interrupted_ends_as_the_coordinator_says(stub: BrokerStub, topic: str, spark: SparkSession) -> None:
    """An exception that a signal's handler raises in the middle of a commit makes no other driver out of this one."""

    def strike(*_: object) -> None:
        raise Struck

    def strike_when_asked() -> None:
        assert rule.wait(1, 60.0)
        os.kill(os.getpid(), signal.SIGUSR1)

    rule = stub.faults.on(Api.END_TXN).after_append().times(2).drop()
    before = signal.signal(signal.SIGUSR1, strike)
    striker = threading.Thread(target=strike_when_asked)
    striker.start()
    try:
        done = write(stub, rows(spark, 0, 5), "struck", topic=topic, guard="driver", timeout_ms=8000, request_timeout_ms=500)
    finally:
        striker.join()
        signal.signal(signal.SIGUSR1, before)
        rule.remove()
    assert (done["ledger"], done["rows"], done["reruns"]) == ("committed", 5, 0)
    assert found(stub, topic) == [*range(5)]


@pytest.mark.parametrize("key", [True, False], ids=["keyed", "keyless"])
def test_claims_in_kafka_guard_a_write(stub: BrokerStub, topic: str, spark: SparkSession, *, key: bool) -> None:
    """Every task claims before it writes, and what was claimed is what Spark delivered."""
    done = write(stub, rows(spark, 0, 200, key=key), "claiming", topic=topic, guard="kafka-claims", tasks=2)
    assert (done["guard"], done["rows"], done["tasks"], done["reruns"]) == ("kafka-claims", 200, 2, 0)
    assert found(stub, topic) == [*range(200)]


def test_claims_of_rows_that_more_tasks_compute_than_there_are_partitions(stub: BrokerStub, spark: SparkSession) -> None:
    """They are brought to as many tasks as can have a partition, by as many as Spark makes of the DataFrame."""
    stub.create_topic("narrow", partitions=1)
    seen = spark.sparkContext.accumulator(0)

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen.add(1)
        yield from batches

    computed = spark.range(0, 200, 1, 5).mapInArrow(count, "id long").selectExpr("cast(id as string) as value")
    done = write(stub, computed, "scattered", topic="narrow", guard="kafka-claims")
    assert (done["tasks"], seen.value) == (1, 5)
    assert sorted(int(value) for value in read_values(stub.bootstrap, "narrow", [0])) == [*range(200)]


@pytest.mark.parametrize(
    ("settings", "kind", "text"),
    [
        ({"job_id": "load"}, Misuse, "job_id='load' without a version"),
        ({"version": 3}, Misuse, "version=3 without a job_id"),
        ({"job_id": "load", "version": -1}, Misuse, "version=-1: a whole number from 0"),
        ({"job_id": "load", "version": True}, Misuse, "version=True: a whole number from 0"),
        ({"job_id": "", "version": 1}, Misuse, "job='': a text that is not empty"),
        ({"checkpoint": "/ck"}, ConfigError, "checkpoint='/ck': write_once is not part of a streaming query"),
        ({"on_new_checkpoint": "reset"}, ConfigError, "on_new_checkpoint='reset': write_once is not part of a streaming query"),
        ({"guard": "bodyguard"}, ConfigError, "guard='bodyguard': one of"),
    ],
)
def test_what_cannot_be_meant_is_refused(stub: BrokerStub, settings: dict[str, Any], kind: type[Exception], text: str) -> None:
    """Before anything is read or asked."""
    with pytest.raises(kind, match=text):
        write(stub, None, "refused", topic="jobs", **settings)
