"""Rows that the driver collects to write them itself: never more than the limit, after batches of any size."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from fencepost.txn.spark import GuardUnavailable
from fencepost.txn.spark.errors import TooMuch
from fencepost.txn.spark.sink.collect_rows import collected
from fencepost.txn.spark.sink.write_job import ARROW_ROWS, ROWS_PER_BATCH, large_batches
from tests.txn.spark.site import Site
from tests.waiting import until

LIMIT_S = 60.0
CAP = 20_000
FEW = [f"few {number}" for number in range(10)]
MANY = [f"{number} {'x' * 1000}" for number in range(40)]


def test_what_is_collected(spark: SparkSession) -> None:
    """All rows, in their order, also those of tasks that end one before the other; and none of an empty DataFrame."""
    df = spark.range(0, 1000, 1, 5).selectExpr(
        "id", "cast(id as string) as value", "if(id % 3 = 0, null, cast(cast(id as string) as binary)) as key"
    )
    assert pa.Table.from_batches(collected(df, 1 << 20)).to_pylist() == df.toArrow().to_pylist()
    assert sum(batch.num_rows for batch in collected(df.where("id < 0"), 1)) == 0


def test_an_error_is_told_as_it_is(spark: SparkSession) -> None:
    """What the job fails with, and not that its stream has ended."""
    with pytest.raises(Exception, match="of the query"):
        collected(spark.sql("select raise_error('of the query') as value"), 1 << 20)


def test_more_than_may_be_is_not_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    """Collecting stops while a task of the job has not ended, and the job is cancelled. There are many more bytes than the limit, because
    the JVM sends nothing before its buffer is full."""
    leave, ended = tmp_path / "leave", tmp_path / "ended"

    def second_one_waits(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        if context is not None and context.partitionId() == 1:
            deadline = time.monotonic() + LIMIT_S
            while not leave.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            ended.touch()
        yield from batches

    df = spark.range(0, 400_000, 1, 2).mapInArrow(second_one_waits, "id long")
    try:
        with pytest.raises(TooMuch, match="more than collect_bytes_max=4000 bytes"):
            collected(df, 4000)
        assert not ended.exists()
        tracker = spark.sparkContext.statusTracker()
        until(lambda: not tracker.getActiveJobsIds(), "the job is cancelled", timeout_s=LIMIT_S / 2)
        assert not ended.exists()
    finally:
        leave.touch()


def test_a_batch_that_is_larger_than_the_one_before(site: Site) -> None:
    """Under `auto` tasks write it, in the same transaction, as nothing was written yet; the driver that was asked for by name says what to
    set; nothing is lost or there twice."""
    writer = site.by_hand(guard="auto", collect_bytes_max=CAP)
    for batch, values in enumerate((FEW, FEW, MANY, FEW, FEW)):
        writer(site.rows(*values), site.offsets(batch))
    assert [each["guard"] for each in writer.history] == ["turns", "driver", "turns", "turns", "driver"]
    assert {each["reruns"] for each in writer.history} == {0}
    assert site.committed() == sorted([*FEW * 4, *MANY])
    asked = site.by_hand(guard="driver", collect_bytes_max=CAP)
    with pytest.raises(GuardUnavailable, match=rf"guard='driver': the batch has more than collect_bytes_max={CAP} bytes: raise that, or"):
        asked(site.rows(*MANY), site.offsets(5))
    assert site.committed() == sorted([*FEW * 4, *MANY])


def test_a_second_write_that_is_larger(site: Site) -> None:
    """The first one's partitions are the driver's in this transaction: both are written again, by tasks."""
    writer = site.by_hand(guard="auto", collect_bytes_max=CAP)
    writer(site.rows(*FEW), site.offsets(0))
    with writer.batch(site.rows("0"), site.offsets(1)) as batch:
        batch.write(site.rows(*FEW))
        assert writer.metrics["guard"] == "driver"
        batch.write(site.rows(*MANY))
    assert (writer.metrics["guard"], writer.metrics["reruns"]) == ("turns", 1)
    assert site.committed() == sorted([*FEW * 2, *MANY])


# -- Arrow batches -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A Spark session without a setting for the size of Arrow batches."""
    session = spark.newSession()
    session.conf.unset(ARROW_ROWS)
    return session


def said(session: SparkSession) -> Any:
    return session.conf.get(ARROW_ROWS, None)


@pytest.mark.parametrize("rows", ["500", "1000000", "0"])
def test_what_the_user_says_of_arrow_batches_holds(session: SparkSession, rows: str) -> None:
    """A user with large rows can set small Arrow batches."""
    session.conf.set(ARROW_ROWS, rows)
    with large_batches(session.range(1)):
        assert said(session) == rows
    assert said(session) == rows


def test_releases_that_do_not_limit_the_bytes_of_arrow_batches(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """There Spark's own number of rows stays (10,000): ten times as many large ones would not fit into an executor's memory."""
    monkeypatch.setattr("fencepost.txn.spark.sink.write_job.ARROW_BYTES", "spark.sql.execution.arrow.noSuchSetting")
    with large_batches(session.range(1)):
        assert said(session) is None


def test_writes_that_overlap_leave_nothing_behind(session: SparkSession) -> None:
    """This holds for both orders of their ends. A setting that the user changes in between stays."""
    frame = session.range(1)
    first, second = large_batches(frame), large_batches(frame)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert said(session) == str(ROWS_PER_BATCH)
    second.__exit__(None, None, None)
    assert said(session) is None
    with large_batches(frame):
        session.conf.set(ARROW_ROWS, "7")
    assert said(session) == "7"
